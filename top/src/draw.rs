//! Draws the app.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row as TableRow, Table, Widget};

use crate::app::{Action, App};
use crate::model::{Consumer, Dead, Detail, Info, Row};
use crate::server::Failure;
use crate::text::{age, count, or_dash, rate, shown};

/// How wide a picture is that goes to no terminal, and how many lines a table of it may have.
const WIDTH: u16 = 120;
const MOST_LINES: usize = 20;

const KEYS: &str = " up/down choose   enter workers and dead jobs   r redrive   p pause, resume   q quit";

const QUEUE_WIDTHS: [Constraint; 11] = {
    const fn column(width: u16) -> Constraint {
        Constraint::Length(width)
    }
    [
        Constraint::Fill(1), column(5), column(5), column(6), column(5), column(6),
        column(6), column(6), column(6), column(6), column(11),
    ]
};
const QUEUE_NAMES: [&str; 11] =
    ["  QUEUE", "READY", "LATER", "LEASED", "DEAD", "OLDEST", "PUSH/s", "OUT/s", "ACK/s", "FAIL/s", "HELD"];

/// Draws all of it.
pub fn draw(app: &mut App, area: Rect, buf: &mut Buffer) {
    // The list leaves two thirds to the detail.
    let list = if app.detail { (area.height / 3).max(3) } else { area.height.saturating_sub(3) };
    let list = list.min(lines(app.rows().len().saturating_add(1)).max(2));
    let [head, queues, detail, notice, keys] = Layout::vertical([
        Constraint::Length(1), Constraint::Length(list), Constraint::Fill(1), Constraint::Length(1), Constraint::Length(1),
    ])
    .areas(area);
    app.resize(usize::from(list.saturating_sub(1)));
    draw_head(app, head, buf);
    draw_queues(app, queues, buf);
    draw_detail(app, detail, buf);
    draw_notice(app, notice, buf);
    Line::from(KEYS).dim().render(keys, buf);
}

/// All queues, and the detail if it is asked for, as text.
pub fn picture(app: &mut App) -> String {
    let rows = app.rows().len();
    app.resize(rows);
    let detail = detail(app).map_or(0, |detail| {
        let (workers, dead) = (lines_of(&detail.consumers), lines_of(&detail.dead));
        lines(summary(app, detail).len().saturating_add(workers).saturating_add(dead)).saturating_add(3)
    });
    let refused = app.sample.as_ref().is_some_and(|sample| sample.refused.is_some());
    let heights = [1, lines(rows).saturating_add(1), detail, u16::from(refused)];
    let area = Rect::new(0, 0, WIDTH, heights.iter().fold(0, |sum, height| u16::saturating_add(sum, *height)));
    let mut buf = Buffer::empty(area);
    let [head, queues, detail, notice] = Layout::vertical(heights.map(Constraint::Length)).areas(area);
    draw_head(app, head, &mut buf);
    draw_queues(app, queues, &mut buf);
    draw_detail(app, detail, &mut buf);
    draw_notice(app, notice, &mut buf);
    text_of(&buf)
}

/// What is in a buffer, without spaces at the ends of lines.
fn text_of(buf: &Buffer) -> String {
    let mut text = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut skip = 0;
        for x in buf.area.left()..buf.area.right() {
            let symbol = buf.cell((x, y)).map_or("", |cell| cell.symbol());
            // A wide character has a second cell, which is empty.
            if skip == 0 {
                line.push_str(symbol);
                skip = Line::from(symbol).width().saturating_sub(1);
            } else {
                skip = skip.saturating_sub(1);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn lines(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

fn lines_of<T>(list: &Result<Vec<T>, String>) -> usize {
    list.as_ref().map_or(1, |list| list.len().clamp(1, MOST_LINES))
}

fn draw_head(app: &App, area: Rect, buf: &mut Buffer) {
    let sum = |of: fn(&Row) -> u64| app.rows().iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)));
    let queues = match app.rows().len() {
        1 => "1 queue".to_owned(),
        n => format!("{n} queues"),
    };
    let (ready, leased, dead) = (sum(|row| row.ready), sum(|row| row.leased), sum(|row| row.dead));
    let told = format!(" rq-top {}   {queues}: {ready} ready, {leased} leased, {dead} dead", app.address);
    let line = match &app.trouble {
        None => Line::from(told).bold(),
        Some(Failure::Lost(text)) => {
            Line::from(format!(" rq-top {}   NOT CONNECTED, trying again: {text}", app.address)).style(Style::new().fg(Color::Red).bold())
        }
        Some(Failure::Refused(text)) => Line::from(format!(" rq-top {}   {text}", app.address)).style(Style::new().fg(Color::Red).bold()),
    };
    line.render(area, buf);
}

fn draw_queues(app: &App, area: Rect, buf: &mut Buffer) {
    if app.rows().is_empty() && app.trouble.is_none() {
        let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        Line::from("  no queues here that this user may see").dim().render(rest, buf);
        table(&[], QUEUE_NAMES, QUEUE_WIDTHS).render(head, buf);
        return;
    }
    let rows: Vec<TableRow<'_>> = app.rows().iter().skip(app.first).take(app.room).map(|row| queue_row(app, row)).collect();
    table(&rows, QUEUE_NAMES, QUEUE_WIDTHS).render(area, buf);
}

fn queue_row<'a>(app: &App, row: &Row) -> TableRow<'a> {
    let (info, rates) = (app.info(&row.name), app.rates(&row.name));
    let chosen = Some(&row.name) == app.chosen.as_ref();
    let mark = if chosen { ">" } else { " " };
    let cells = [
        format!("{mark} {}", shown(&row.name)),
        count(row.ready),
        or_dash(info, |info| count(info.scheduled.saturating_add(info.retrying))),
        count(row.leased),
        count(row.dead),
        or_dash(row.oldest_ready_ms, age),
        or_dash(rates, |rates| rate(rates.pushed)),
        or_dash(rates, |rates| rate(rates.delivered)),
        or_dash(rates, |rates| rate(rates.acked)),
        or_dash(rates, |rates| rate(rates.failed)),
        or_dash(info, |info| info.held.clone()),
    ];
    let line = TableRow::new(right(cells, 1..=9));
    if chosen { line.style(Style::new().reversed()) } else { line }
}

/// Numbers have their last digits in one line.
fn right<'a, const N: usize>(cells: [String; N], numbers: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = Line<'a>> {
    cells.into_iter().enumerate().map(move |(at, text)| {
        if numbers.contains(&at) { Line::from(text).right_aligned() } else { Line::from(text) }
    })
}

fn table<'a, const N: usize>(rows: &[TableRow<'a>], names: [&str; N], widths: [Constraint; N]) -> Table<'a> {
    let head = names.into_iter().zip(&widths).enumerate().map(|(at, (name, _))| {
        let line = Line::from(name.to_owned());
        // As the numbers below it.
        if at > 0 && name != "HELD" && N == QUEUE_NAMES.len() { line.right_aligned() } else { line }
    });
    Table::new(rows.to_vec(), widths).header(TableRow::new(head).style(Style::new().dim()))
}

/// The detail, if it is asked for and of the chosen queue.
fn detail(app: &App) -> Option<&Detail> {
    let detail = app.sample.as_ref()?.detail.as_ref()?;
    (app.detail && Some(&detail.queue) == app.chosen.as_ref()).then_some(detail)
}

fn draw_detail(app: &App, area: Rect, buf: &mut Buffer) {
    let Some(detail) = detail(app) else { return };
    let summary = summary(app, detail);
    let text = lines(summary.len());
    // As many workers as there are, unless that leaves too few lines to the dead jobs.
    let left = area.height.saturating_sub(text);
    let workers = lines(lines_of(&detail.consumers)).saturating_add(1).min((left / 2).max(2));
    let [top, workers, dead] =
        Layout::vertical([Constraint::Length(text), Constraint::Length(workers), Constraint::Fill(1)]).areas(area);
    for (line, row) in summary.into_iter().zip(top.rows()) {
        line.render(row, buf);
    }
    draw_workers(&detail.consumers, workers, buf);
    draw_dead(app, detail, dead, buf);
}

/// Lines about the chosen queue.
fn summary<'a>(app: &App, detail: &Detail) -> Vec<Line<'a>> {
    let title = format!("--- {} ", shown(&detail.queue));
    let mut all = vec![Line::from(format!("{title:-<width$}", width = usize::from(WIDTH))).dim()];
    let row = app.place().and_then(|place| app.rows().get(place));
    let (Some(info), Some(row)) = (app.info(&detail.queue), row) else {
        all.push(Line::from(" there is no such queue now, or this user may not see it"));
        return all;
    };
    let with_age = |n: u64, since: Option<u64>| since.map_or_else(|| n.to_string(), |ms| format!("{n} (oldest {})", age(ms)));
    all.push(Line::from(format!(
        " ready {}   scheduled {}   retrying {}   leased {}   dead {}   done {}",
        with_age(row.ready, row.oldest_ready_ms), info.scheduled, info.retrying,
        with_age(row.leased, info.oldest_lease_ms), with_age(row.dead, info.oldest_dead_ms), info.done,
    )));
    all.push(Line::from(format!(" held: {}   workers that wait now: {}", held(app, info), info.blocked_clients)));
    let times = [("waited", info.wait_ms), ("ran", info.run_ms)];
    let times: Vec<String> = times.into_iter().filter_map(|(what, ms)| {
        let (p50, p99) = ms?;
        Some(format!(" {what}: p50 {}, p99 {}", age(p50), age(p99)))
    }).collect();
    if !times.is_empty() {
        all.push(Line::from(times.join("  ")));
    }
    let reasons: Vec<String> = info.dead_of.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
    if !reasons.is_empty() {
        all.push(Line::from(format!(" dead: {}", reasons.join(", "))));
    }
    all
}

fn held(app: &App, info: &Info) -> String {
    let Some(until) = info.paused_out else { return info.held.clone() };
    let now = app.sample.as_ref().map_or(0, |sample| sample.unix_ms);
    let until = if until == 0 { "until it is resumed".to_owned() } else { format!("for {}", age(until.saturating_sub(now))) };
    let reason = info.paused_reason.as_ref().map_or_else(String::new, |reason| format!(": {}", shown(reason)));
    format!("paused {until}{reason}")
}

fn draw_workers(workers: &Result<Vec<Consumer>, String>, area: Rect, buf: &mut Buffer) {
    let rows: Vec<TableRow<'_>> = match workers {
        Err(text) => vec![TableRow::new([format!("  {text}")])],
        Ok(list) if list.is_empty() => vec![TableRow::new(["  none that a job remembers"])],
        Ok(list) => list.iter().map(worker_row).collect(),
    };
    let widths = [Constraint::Fill(1), Constraint::Length(if workers.is_ok() { 6 } else { 0 }), Constraint::Length(if workers.is_ok() { 12 } else { 0 })];
    table(&rows, ["  WORKER", "LEASES", "OLDEST LEASE"], widths).render(area, buf);
}

fn worker_row<'a>(worker: &Consumer) -> TableRow<'a> {
    TableRow::new([format!("  {}", shown(&worker.name)), count(worker.leased), or_dash(worker.oldest_lease_ms, age)])
}

fn draw_dead(app: &App, detail: &Detail, area: Rect, buf: &mut Buffer) {
    let rows: Vec<TableRow<'_>> = match &detail.dead {
        Err(text) => {
            Line::from(format!("  dead jobs: {text}")).render(area, buf);
            return;
        }
        Ok(list) if list.is_empty() => vec![TableRow::new(["  none"])],
        Ok(list) => list.iter().map(|job| dead_row(app, job)).collect(),
    };
    let widths = [
        Constraint::Length(22), Constraint::Length(7), Constraint::Length(13), Constraint::Length(5),
        Constraint::Max(20), Constraint::Fill(1),
    ];
    let first = if detail.dead_is_behind { "  DEAD (reading on)" } else { "  DEAD, newest first" };
    table(&rows, [first, "SINCE", "REASON", "TRIES", "LAST WORKER", "ERROR"], widths).render(area, buf);
}

fn dead_row<'a>(app: &App, job: &Dead) -> TableRow<'a> {
    let now = app.sample.as_ref().map_or(0, |sample| sample.unix_ms);
    let bytes = |bytes: &Option<Vec<u8>>| or_dash(bytes.as_ref(), |bytes| shown(bytes));
    TableRow::new([
        format!("  {}", shown(&job.id)),
        age(now.saturating_sub(job.dead_at)),
        job.reason.clone(),
        count(job.deliveries),
        bytes(&job.consumer),
        bytes(&job.error),
    ])
}

fn draw_notice(app: &App, area: Rect, buf: &mut Buffer) {
    let refused = app.sample.as_ref().and_then(|sample| sample.refused.clone());
    let question = app.pending.as_ref().map(|action| match action {
        Action::Redrive(queue, 1) => format!("bring the dead job of {} back? r: yes, any other key: no", shown(queue)),
        Action::Redrive(queue, dead) => format!("bring the {dead} dead jobs of {} back? r: yes, any other key: no", shown(queue)),
        Action::Pause(queue) => format!("lease nothing more from {}? p: yes, any other key: no", shown(queue)),
        Action::Resume(queue) => format!("lease from {} again? p: yes, any other key: no", shown(queue)),
        Action::Quit => String::new(),
    });
    let line = match question {
        Some(question) => Line::from(format!(" {question}")).style(Style::new().fg(Color::Yellow).bold()),
        None if !app.notice.is_empty() => Line::from(format!(" {}", app.notice)),
        None => Line::from(refused.map_or_else(String::new, |text| format!(" {text}"))),
    };
    line.render(area, buf);
}

#[cfg(test)]
mod tests {
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
            scheduled: 7, retrying: 5, dead: 3, done: 10, held: "paused".into(), paused_out: Some(0),
            paused_reason: Some(b"night\x07".to_vec()), oldest_lease_ms: Some(4200), oldest_dead_ms: Some(7_260_000), blocked_clients: 4,
            dead_of: BTreeMap::from([("failed".into(), 2), ("rejected".into(), 1), ("ttl".into(), 0)]),
            wait_ms: Some((3, 1500)), run_ms: Some((20, 90)), totals, ..Info::default()
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
        assert!(screen(&mut app, 80, 10).contains("no queues here that this user may see"));
    }

    const LIST: &str = r"
 rq-top 127.0.0.1:6379/0   3 queues: 123457 ready, 2 leased, 3 dead
  QUEUE                      READY LATER LEASED  DEAD OLDEST PUSH/s  OUT/s  ACK/s FAIL/s HELD
> busy                        123k    12      2     3  1m01s  250.0  250.0  250.0    0.0 paused
  idle                           0     0      0     0      -    0.0    0.0    0.0    0.0 empty
  \u{1b}[2Jevil                  1     -      0     0    5ms      -      -      -      - -



 up/down choose   enter workers and dead jobs   r redrive   p pause, resume   q quit
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



 up/down choose   enter workers and dead jobs   r redrive   p pause, resume   q quit
";
}
