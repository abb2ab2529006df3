//! Pictures of all there is to draw.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::Terminal;

use super::*;
use crate::model::{Sample, Totals};

/// A server with a busy queue, a drained one, and one whose name is made to do harm.
fn sample(at: Instant, acked: u64) -> Sample {
    let row = |name: &str, ready, leased, dead, oldest| Row { name: name.into(), ready, leased, dead, oldest_ready_ms: oldest };
    let totals = Totals { pushed: acked + 100, delivered: acked + 10, acked, failed: 2 };
    let busy = Info {
        scheduled: 7, retrying: 5, dead: 3, dead_total: 3, done: 10, held: "paused".into(), paused_out: Some(0),
        paused_reason: Some(b"night\x07".to_vec()), oldest_lease_ms: Some(4200), oldest_dead_ms: Some(7_260_000), blocked_clients: 4,
        dead_of: BTreeMap::from([("failed".into(), 2), ("rejected".into(), 1), ("ttl".into(), 0)]),
        wait_ms: Some((3, 1500)), run_ms: Some((20, 90)), totals,
    };
    let idle = Info { held: "empty".into(), ..Info::default() };
    let infos = BTreeMap::from([(b"busy".to_vec(), busy), (b"idle".to_vec(), idle)]);
    Sample {
        at, unix_ms: 1_796_055_468_000, infos, detail: None, refused: None,
        rows: vec![row("busy", 123_456, 2, 3, Some(61_000)), row("idle", 0, 0, 0, None), row("\x1b[2Jevil", 1, 0, 0, Some(5))],
    }
}

fn detail() -> Detail {
    let worker = |name: &str, leased, oldest| Consumer { name: name.into(), leased, oldest_lease_ms: oldest };
    let job = |n: u64, error: &[u8]| Dead {
        id: format!("179605546000{n}-0").into(), reason: "failed".into(), deliveries: 20, consumer: Some(b"worker-1".to_vec()),
        error: Some(error.to_vec()), dead_at: 1_796_055_460_000 - n * 60_000,
    };
    Detail {
        queue: b"busy".to_vec(), dead_is_behind: false,
        consumers: Ok(vec![worker("worker-1", 2, Some(4200)), worker("worker-\n2", 0, None)]),
        dead: Ok(vec![job(1, b"no such address"), job(2, b"\x9b31mred\xff")]),
    }
}

fn app(with_detail: bool) -> App {
    let mut app = App::new("127.0.0.1:6379/0".into(), with_detail.then(|| b"busy".to_vec()));
    let start = Instant::now();
    app.resize(10);
    app.take(Ok(sample(start, 1000)));
    app.take(Ok(Sample { detail: with_detail.then(detail), ..sample(start + Duration::from_secs(2), 1500) }));
    app
}

/// What a terminal of this size shows.
fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(app, frame.area(), frame.buffer_mut())).unwrap();
    text_of(terminal.backend().buffer())
}

#[track_caller]
fn assert_shows(shown: &str, wanted: &str) {
    assert_eq!(shown, wanted.strip_prefix('\n').unwrap(), "\n{shown}");
}

#[test]
fn the_list() {
    assert_shows(&screen(&mut app(false), 100, 9), LIST);
}

#[test]
fn the_detail() {
    assert_shows(&screen(&mut app(true), 100, 20), DETAIL);
}

#[test]
fn a_picture_has_all_of_it() {
    let picture = picture(&mut app(true));
    assert!(picture.ends_with("red\\xff\n"), "no empty lines: {picture}");
    let detail = DETAIL.lines().filter(|line| line.contains("no such address") || line.contains("worker-"));
    for line in LIST.lines().skip(3).take(1).chain(detail) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(picture.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words), "{line}\n{picture}");
    }
}

#[test]
fn no_size_is_too_small_and_nothing_is_raw() {
    for (width, height) in [(1, 1), (10, 2), (20, 5), (40, 40), (300, 3), (200, 100)] {
        let shown = screen(&mut app(true), width, height);
        assert!(shown.chars().all(|each| each == '\n' || !each.is_control()), "{shown:?}");
    }
}

#[test]
fn a_lost_connection_and_a_refusal_keep_the_old_picture() {
    let mut app = app(false);
    app.take(Err(Failure::Lost("Connection refused".into())));
    let shown = screen(&mut app, 100, 9);
    assert!(shown.starts_with(" rq-top 127.0.0.1:6379/0   NOT CONNECTED, trying again: Connection refused\n"), "{shown}");
    assert!(shown.contains("> busy"), "{shown}");
    app.take(Err(Failure::Refused("LOADING Redis is loading".into())));
    assert!(screen(&mut app, 100, 9).contains("/0   LOADING Redis is loading"));
}

#[test]
fn what_the_server_refuses_of_the_detail() {
    let mut app = app(true);
    let refused = Detail { consumers: Err("NOPERM consumers".into()), dead: Err("NOPERM peek".into()), ..detail() };
    app.take(Ok(Sample { detail: Some(refused), refused: Some("NOPERM info".into()), ..sample(Instant::now(), 1) }));
    let shown = screen(&mut app, 100, 20);
    for text in ["  NOPERM consumers", "  dead jobs: NOPERM peek", " NOPERM info"] {
        assert!(shown.lines().any(|line| line == text), "{shown}");
    }
}

#[test]
fn the_question_and_the_answer() {
    let mut app = app(false);
    assert_eq!(app.key(KeyCode::Char('r').into()), None);
    assert!(screen(&mut app, 100, 9).contains(" bring the 3 dead jobs of busy back? r: yes, any other key: no\n"));
    app.key(KeyCode::Char('p').into());
    assert!(screen(&mut app, 100, 9).contains(" lease from busy again? p: yes, any other key: no\n"));
}

#[test]
fn nothing_there() {
    let mut app = App::new("h:1/0".into(), None);
    app.take(Ok(Sample { rows: vec![], infos: BTreeMap::new(), ..sample(Instant::now(), 1) }));
    assert!(picture(&mut app).contains("0 queues: 0 ready"));
    assert!(picture(&mut app).ends_with("\n  no queues here that this user may see\n"));
    assert!(screen(&mut app, 80, 10).contains("no queues here that this user may see"));
}

const LIST: &str = r"
 rq-top 127.0.0.1:6379/0   3 queues: 123457 ready, 2 leased, 3 dead
  QUEUE                      READY LATER LEASED  DEAD OLDEST PUSH/s  OUT/s  ACK/s FAIL/s HELD
> busy                        123k    12      2     3  1m01s  250.0  250.0  250.0    0.0 paused
  idle                           0     0      0     0      -    0.0    0.0    0.0    0.0 empty
  \u{1b}[2Jevil                  1     -      0     0    5ms      -      -      -      - -



 up/down choose   enter workers and dead jobs   r redrive   p pause   q quit
";

const DETAIL: &str = r"
 rq-top 127.0.0.1:6379/0   3 queues: 123457 ready, 2 leased, 3 dead
  QUEUE                      READY LATER LEASED  DEAD OLDEST PUSH/s  OUT/s  ACK/s FAIL/s HELD
> busy                        123k    12      2     3  1m01s  250.0  250.0  250.0    0.0 paused
  idle                           0     0      0     0      -    0.0    0.0    0.0    0.0 empty
  \u{1b}[2Jevil                  1     -      0     0    5ms      -      -      -      - -
--- busy -------------------------------------------------------------------------------------------
 ready 123456 (oldest 1m01s)   scheduled 7   retrying 5   leased 2 (oldest 4.2s)   dead 3 (oldest 2h
 held: paused until it is resumed: night\u{7}   workers that wait now: 4
 waited: p50 3ms, p99 1.5s   ran: p50 20ms, p99 90ms
 dead: failed 2, rejected 1
  WORKER                                                                         LEASES OLDEST LEASE
  worker-1                                                                       2      4.2s
  worker-\n2                                                                     0      -
  DEAD, newest first   SINCE   REASON        TRIES LAST WORKER          ERROR
  1796055460001-0      1m08s   failed        20    worker-1             no such address
  1796055460002-0      2m08s   failed        20    worker-1             \x9b31mred\xff



 up/down choose   enter workers and dead jobs   r redrive   p pause   q quit
";
