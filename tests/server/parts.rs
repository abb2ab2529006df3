//! A queue split over a cluster, by the recipe and the commands of docs/CLUSTER.md.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::harness::{wait_until, Cluster, How};

const PRODUCERS: usize = 3;
const WORKERS: usize = 4;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The recipe, not begun yet.
fn command(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(root().join("scripts/recipes/parts.py"));
    command.arg(cluster.nodes[0].port.to_string()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The recipe, with something on its input; it must succeed.
#[track_caller]
fn run(cluster: &Cluster, args: &[&str], input: &str) -> Output {
    let mut child = command(cluster, args).spawn().expect("the recipe");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("write to it");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}

fn live(cluster: &Cluster, part: usize) -> i64 {
    cluster.run(&format!("RQ.LEN jobs:{{{part}}}")).int()
}

/// Workers, and what they say: in files, since a pipe that nobody reads would stop them.
#[derive(Default)]
struct Workers(Vec<(Child, File)>);

/// A line of a worker: when it had the job, from which part, and the payload.
struct Done {
    begun: f64,
    part: usize,
    payload: String,
}

impl Workers {
    fn begin(cluster: &Cluster, n: usize) -> Workers {
        let mut workers = Workers::default();
        (0..n).for_each(|n| workers.add(command(cluster, &["work", "jobs", &format!("w{n}")])));
        workers
    }

    fn add(&mut self, mut command: Command) {
        let file = tempfile::tempfile().expect("a file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("the file"));
        self.0.push((command.spawn().expect("a worker"), file));
    }

    /// Lets them end what they are at, and go.
    #[track_caller]
    fn end(mut self) -> Vec<Done> {
        let mut done = Vec::new();
        for (child, _) in &self.0 {
            let pid = i32::try_from(child.id()).expect("a pid");
            // SAFETY: a plain system call; the child was not waited for, so the pid is its own.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        }
        for (child, mut file) in self.0.drain(..) {
            let output = child.wait_with_output().expect("its end");
            assert!(output.status.success(), "{output:?}");
            let mut said = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut said)).expect("what it said");
            for line in said.lines() {
                let [begun, part, payload] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
                let (begun, part) = (begun.parse().expect("a time"), part.parse().expect("a part"));
                done.push(Done { begun, part, payload: payload.to_owned() });
            }
        }
        done.sort_by(|one, other| one.begun.total_cmp(&other.begun));
        done
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(child, _)| _ = child.kill());
    }
}

/// Writes jobs to a producer until it is told to stop; how many of each group.
fn feed(mut input: ChildStdin, me: usize, stop: &AtomicBool) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for n in 0.. {
        if stop.load(SeqCst) {
            break;
        }
        let group = format!("g{me}.{}", n % 8);
        let count = counts.entry(group.clone()).or_insert(0);
        writeln!(input, "{group} {group}:{count}").expect("write to the producer");
        *count += 1;
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    counts
}

/// With producers and workers at it: the slots of parts move, the parts become more, and fewer.
#[test]
fn a_split_queue_loses_nothing_and_keeps_the_order_of_groups() {
    let cluster = Cluster::start(3, 0);
    run(&cluster, &["make", "jobs", "4", "LEASE", "30000", "GROUPORDER", "yes"], "");
    let homes: Vec<usize> = (0..4).map(|part| cluster.home(&format!("jobs:{{{part}}}")).1).collect();
    assert!((0..3).all(|node| homes.contains(&node)), "a part on each shard: {homes:?}");
    let workers = Workers::begin(&cluster, WORKERS);
    let stop = AtomicBool::new(false);
    let mut counts = BTreeMap::new();
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let mut producers = Vec::new();
        for me in 0..PRODUCERS {
            let mut child = command(&cluster, &["push", "jobs"]).spawn().expect("a producer");
            let (input, stop) = (child.stdin.take().expect("its input"), &stop);
            producers.push((child, scope.spawn(move || feed(input, me, stop))));
        }
        let acked = |part: usize| {
            let info = cluster.run(&format!("RQ.INFO jobs:{{{part}}}"));
            if info.is_null() { 0 } else { info.fields().int("acked-total") }
        };
        let goes_on = |parts: usize| {
            let before: Vec<i64> = (0..parts).map(acked).collect();
            wait_until("work in every part", || (0..parts).all(|part| acked(part) > before[part] + 2));
        };
        goes_on(4);
        for how in [How::KeyByKey, How::AtOnce] {
            if how == How::AtOnce && !cluster.moves_at_once() {
                continue;
            }
            let (slot, home) = cluster.home("jobs:{0}");
            cluster.move_slot(slot, (home + 1) % 3, how);
            goes_on(4);
        }
        run(&cluster, &["resize", "jobs", "6"], "");
        goes_on(6);
        run(&cluster, &["resize", "jobs", "3"], "");
        goes_on(3);
        stop.store(true, SeqCst);
        for (mut child, feeder) in producers {
            counts.extend(feeder.join().expect("a feeder"));
            let mut errors = String::new();
            child.stderr.take().expect("its errors").read_to_string(&mut errors).expect("text");
            assert!(child.wait().expect("its end").success(), "a producer: {errors}");
        }
    });
    wait_until("every part's being drained", || (0..6).all(|part| live(&cluster, part) == 0));
    let done = workers.end();
    let mut seen: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for job in &done {
        let (group, n) = job.payload.split_once(':').expect("a group and a number");
        seen.entry(group.to_owned()).or_default().push(n.parse().expect("a number"));
    }
    for (group, count) in &counts {
        assert_eq!(seen[group], (0..*count).collect::<Vec<_>>(), "{group}: each once, in order");
    }
    assert_eq!(done.len(), counts.values().sum::<u32>() as usize);
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn no_part_starves_behind_a_full_one() {
    let cluster = Cluster::start(3, 0);
    run(&cluster, &["make", "jobs", "4"], "");
    for n in 0..300 {
        cluster.run(&format!("RQ.PUSH jobs:{{0}} full{n}"));
    }
    for part in 1..4 {
        cluster.run(&format!("RQ.MPUSH jobs:{{{part}}} 5 a b c d e"));
    }
    let workers = Workers::begin(&cluster, 1);
    wait_until("every part's being drained", || (0..4).all(|part| live(&cluster, part) == 0));
    let done = workers.end();
    // Five turns, each with one job of each part.
    let mut first = HashMap::new();
    done.iter().take(20).for_each(|job| *first.entry(job.part).or_insert(0) += 1);
    assert_eq!((0..4).map(|part| first[&part]).collect::<Vec<_>>(), [5; 4]);
    assert_eq!(done.len(), 315);
}

#[test]
fn a_duplicate_meets_its_first_also_when_the_parts_have_become_more() {
    let cluster = Cluster::start(3, 0);
    run(&cluster, &["make", "jobs", "2"], "");
    let lines: String = (0..30).map(|n| format!("key{n} x\n")).collect();
    let all = |parts: usize| (0..parts).map(|part| live(&cluster, part)).collect::<Vec<_>>();
    run(&cluster, &["once", "jobs"], &lines);
    run(&cluster, &["once", "jobs"], &lines);
    let before = all(2);
    assert_eq!(before.iter().sum::<i64>(), 30);
    assert!(before.iter().all(|n| *n > 0), "{before:?}");
    run(&cluster, &["resize", "jobs", "5"], "");
    run(&cluster, &["once", "jobs"], &lines);
    assert_eq!(all(5), [&before[..], &[0, 0, 0]].concat());
    // What is new goes to the new parts as well.
    let more: String = (30..90).map(|n| format!("key{n} x\n")).collect();
    run(&cluster, &["once", "jobs"], &more);
    let after = all(5);
    assert_eq!(after.iter().sum::<i64>(), 90);
    assert!(after.iter().all(|n| *n > 0), "{after:?}");
}

/// Each line of the page that begins with the recipe, in the order of the page.
#[test]
fn the_commands_of_the_page() {
    let page = std::fs::read_to_string(root().join("docs/CLUSTER.md")).expect("the page");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("    ") && line.contains("parts.py 7000 ")).collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    let cluster = Cluster::start(3, 0);
    let mut workers = Workers::default();
    for line in lines {
        let line = line.trim().replace(" 7000 ", &format!(" {} ", cluster.nodes[0].port));
        let works = line.contains(" work ");
        let mut command = Command::new("sh");
        command.args(["-c", &if works { format!("exec {line}") } else { line.clone() }]).current_dir(root());
        if works {
            workers.add(command);
            wait_until("the work", || (0..4).all(|part| live(&cluster, part) == 0));
            continue;
        }
        let output = command.output().expect("sh");
        assert!(output.status.success(), "{line}: {output:?}");
    }
    let done = workers.end();
    let mut payloads: Vec<&str> = done.iter().map(|job| job.payload.as_str()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, ["bill-it", "mail-1", "mail-2"], "the duplicate is none");
    assert_eq!(cluster.run("GET jobs:parts"), "3 3");
}
