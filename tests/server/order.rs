//! Which job comes next: priority, then the time it became ready, then the id.

use crate::harness::Scene;

fn scene() -> Scene {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 3600000 3600000 JITTER none");
    s
}

#[test]
fn first_in_first_out() {
    let s = scene();
    let names: Vec<String> = (0..300).map(|n| format!("job{}", 999 - n)).collect();
    s.multi(&names.iter().map(|name| format!("RQ.PUSH q {name}")).collect::<Vec<_>>());
    assert_eq!(s.lease_order("q"), names);
    s.verify();
}

#[test]
fn b21_higher_priorities_first_and_in_each_the_order_of_arrival() {
    let s = scene();
    let priorities = [0, -128, 127, -1, 1, 126, -127];
    for round in 0..5 {
        for priority in priorities {
            s.push(format!("q p{priority}.{round} PRIORITY {priority}"));
        }
    }
    let mut sorted = priorities;
    sorted.sort_by(|a, b| b.cmp(a));
    let expected: Vec<String> = sorted.iter().flat_map(|p| (0..5).map(move |round| format!("p{p}.{round}"))).collect();
    assert_eq!(s.lease_order("q"), expected);
    s.verify();
}

#[test]
fn a_new_job_of_a_higher_priority_overtakes() {
    let s = scene();
    s.run("RQ.MPUSH q 2 a b");
    assert_eq!(s.lease_one("q w").text(), "a");
    s.push("q urgent PRIORITY 1");
    assert_eq!(s.lease_order("q"), ["urgent", "b"]);
    s.verify();
}

#[test]
fn delayed_jobs_are_placed_by_the_time_they_were_due() {
    let mut s = scene();
    s.push("q third DELAY 5400000");
    s.push("q second DELAY 3600000");
    s.push("q urgent DELAY 5400000 PRIORITY 1");
    s.push("q first");
    s.advance(7_200_000);
    s.push("q fourth");
    // All at once, however late: the due times decide, not the moment they were found due.
    assert_eq!(s.lease_order("q"), ["urgent", "first", "second", "third", "fourth"]);
    s.verify();
}

#[test]
fn equal_due_times_go_by_id() {
    let mut s = scene();
    let at = s.now() + 3_600_000;
    let names: Vec<String> = (0..20).map(|n| format!("job{n}")).collect();
    s.multi(&names.iter().map(|name| format!("RQ.PUSH q {name} AT {at}")).collect::<Vec<_>>());
    s.advance(3_700_000);
    assert_eq!(s.lease_order("q"), names);
    s.verify();
}

#[test]
fn expired_and_released_jobs_take_their_old_place() {
    let mut s = scene();
    s.run("RQ.MPUSH q 3 a b c");
    s.advance(1_000);
    let jobs = s.lease("q w COUNT 2");
    s.push("q d");
    s.codes(format!("RQ.RELEASE q {}", jobs[1]));
    s.run(format!("RQ.REAP q ID {}", jobs[0].id));
    assert_eq!(s.lease_order("q").concat(), "abcd");
    s.verify();
}

#[test]
fn a_delayed_job_that_expired_is_back_at_its_due_time() {
    let mut s = scene();
    s.push("q delayed DELAY 3600000");
    s.advance(1_800_000);
    s.push("q before");
    s.advance(3_600_000);
    s.push("q after");
    let jobs = s.lease("q w COUNT 2");
    for job in &jobs {
        s.run(format!("RQ.REAP q ID {}", job.id));
    }
    assert_eq!(s.lease_order("q"), ["before", "delayed", "after"]);
    s.verify();
}

#[test]
fn retried_jobs_are_placed_by_the_end_of_their_wait() {
    let mut s = scene();
    s.run("RQ.MPUSH q 2 retried other");
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job}"));
    s.advance(1_000_000);
    s.push("q early");
    s.advance(3_000_000);
    s.push("q late");
    assert_eq!(s.lease_order("q"), ["other", "early", "retried", "late"]);
    s.verify();
}

#[test]
fn redriven_jobs_are_placed_at_their_return() {
    let mut s = scene();
    s.run("RQ.MPUSH q 2 dead a");
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job} DEAD"));
    s.advance(1_000);
    s.push("q b");
    s.advance(1_000);
    s.codes(format!("RQ.REDRIVE q {}", job.id));
    s.advance(1_000);
    s.push("q c");
    assert_eq!(s.lease_order("q"), ["a", "b", "dead", "c"]);
    s.verify();
}

#[test]
fn set_moves_between_priorities() {
    let s = scene();
    let a = s.push("q a");
    s.push("q b PRIORITY 5");
    let c = s.push("q c");
    s.run(format!("RQ.SET q {c} PRIORITY 5"));
    s.run(format!("RQ.SET q {a} PRIORITY -5"));
    s.push("q d");
    assert_eq!(s.lease_order("q").concat(), "bcda");
    s.verify();
}

#[test]
fn the_order_is_the_same_after_a_load_and_on_the_replica() {
    let mut s = scene();
    for n in 0..60 {
        s.push(format!("q job{n} PRIORITY {} DELAY {}", n % 5 - 2, (n * 37 % 11) * 60_000));
    }
    s.advance(3_600_000);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.RELEASE q {job}"));
    let order = s.peek("q", "READY");
    s.check();
    assert_eq!(s.peek("q", "READY"), order);
    assert_eq!(s.replica().peek("q", "READY"), order);
    assert_eq!(s.lease_order("q"), order);
    s.verify();
}
