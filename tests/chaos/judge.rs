//! What the ledger must not show.

use std::collections::{BTreeMap, HashMap};

use crate::clients::ORDERED;
use crate::harness::Fields;
use crate::ledger::{Code, Facts, Lease, Ledger, Stored, When};

/// Tokens count from the ms of their grant on, one by one: so much may several of them be ahead.
const SLACK: i64 = 2;

impl Ledger {
    /// Whether it may have been lost with a server.
    fn doubtful(&self, when: When) -> bool {
        self.doubts.iter().any(|doubt| when.told >= doubt.from && when.sent <= doubt.to && !(doubt.failover && when.safe))
    }

    fn doubtful_lease(&self, lease: &Lease) -> bool {
        let granted = When { sent: lease.granted - SLACK, told: lease.granted + SLACK, safe: false };
        self.doubtful(granted) || self.doubtful(lease.touched)
    }

    fn stored_surely(&self, job: &Facts) -> bool {
        matches!(job.stored, Stored::Yes(when) if !self.doubtful(when))
    }

    /// Whether something that was sent may have finished it.
    fn perhaps_finished(job: &Facts) -> bool {
        job.acks.iter().any(|ack| matches!(ack.code, Code::Finished | Code::Unknown))
    }

    fn surely_finished(&self, job: &Facts) -> bool {
        job.acks.iter().any(|ack| ack.code == Code::Finished && !self.doubtful(ack.when))
    }

    /// What can be told at any time.
    pub fn judge(&mut self) {
        let mut found = Vec::new();
        let mut tokens: HashMap<(&str, i64), &str> = HashMap::new();
        let mut lanes: BTreeMap<(&str, &str), Vec<(&Lease, &str)>> = BTreeMap::new();
        for (payload, job) in &self.jobs {
            if matches!(job.stored, Stored::No) && !job.leases.is_empty() {
                found.push(format!("{payload} was refused or dropped, and delivered: {job:?}"));
            }
            for lease in &job.leases {
                if let Some(other) = tokens.insert((job.queue, lease.token), payload) {
                    found.push(format!("{payload} and {other} have the token {}", lease.token));
                }
                lanes.entry((job.queue, payload)).or_default().push((lease, payload));
                // A group in order has one lease at a time.
                // One that a producer cancels makes room at once.
                if let (Some(group), ORDERED, false) = (&job.group, job.queue, job.optional) {
                    lanes.entry((job.queue, group)).or_default().push((lease, payload));
                }
            }
            for ack in &job.acks {
                let later = job.leases.iter().find(|lease| lease.token > ack.token);
                if let (Code::Finished, false, Some(later)) = (ack.code, self.doubtful(ack.when), later) {
                    if !self.doubtful_lease(later) {
                        found.push(format!("{payload} was acknowledged ({ack:?}) and given out again: {later:?}"));
                    }
                }
                if ack.code == Code::Gone && !job.optional && self.stored_surely(job) && !Ledger::perhaps_finished(job) {
                    found.push(format!("{payload} is gone, and nobody finished it: {job:?}"));
                }
            }
        }
        for (lane, mut leases) in lanes {
            leases.sort_by_key(|(lease, _)| lease.token);
            for pair in leases.windows(2) {
                let ((before, one), (after, other)) = (pair[0], pair[1]);
                let end_of = |lease: &Lease| lease.ended.unwrap_or(i64::MAX).min(lease.until);
                let meet = after.granted + SLACK < end_of(before) && before.granted + SLACK < end_of(after);
                // A lease that was lost with its server ends for nobody else.
                if meet && !self.doubtful_lease(before) && !self.doubtful_lease(after) {
                    found.push(format!("{lane:?}: two live leases: {one} {before:?}, {other} {after:?}"));
                }
            }
        }
        self.findings.extend(found);
    }

    /// What must be true when everything was drained.
    pub fn judge_end(&mut self, infos: &[(&'static str, Fields)]) {
        self.judge();
        let mut found = Vec::new();
        for (payload, job) in &self.jobs {
            if self.stored_surely(job) && !job.optional && !Ledger::perhaps_finished(job) {
                found.push(format!("{payload} was stored, is not there, and nobody finished it: {job:?}"));
            }
        }
        for (queue, info) in infos {
            self.totals.died(info);
            let jobs: Vec<&Facts> = self.jobs.values().filter(|job| job.queue == *queue).collect();
            let count = |what: &dyn Fn(&Facts) -> bool| jobs.iter().filter(|job| what(job)).count() as i64;
            let stored = count(&|job| self.stored_surely(job));
            let perhaps = count(&|job| !matches!(job.stored, Stored::No));
            let finished = count(&|job| self.surely_finished(job));
            let perhaps_finished = count(&|job| Ledger::perhaps_finished(job));
            let delivered: i64 = jobs.iter().flat_map(|job| &job.leases).filter(|lease| !self.doubtful_lease(lease)).count() as i64;
            for (name, least, most) in [
                ("pushed-total", stored, perhaps),
                ("acked-total", finished, perhaps_finished),
                ("delivered-total", delivered, i64::MAX),
            ] {
                let total = info.int(name);
                if total < least || total > most {
                    found.push(format!("{queue}: {name} is {total}, by the ledger {least} to {most}"));
                }
            }
        }
        self.findings.extend(found);
    }

    /// Ends the run if something was found.
    #[track_caller]
    pub fn verdict(&self, name: &str) {
        if self.findings.is_empty() {
            return;
        }
        let faults: Vec<&str> = self.faults.iter().map(String::as_str).collect();
        let some: Vec<&str> = self.findings.iter().take(10).map(String::as_str).collect();
        panic!(
            "{name}: {} findings:\n  {}\nthe last faults:\n  {}\ndoubts: {:?}",
            self.findings.len(),
            some.join("\n  "),
            faults.join("\n  "),
            self.doubts
        );
    }
}

/// A judge that never finds anything would be no use.
#[test]
fn the_judge_sees() {
    let job = |token: i64| crate::harness::Job {
        id: "1-0".to_owned(),
        token,
        deliveries: 1,
        payload: b"0.x".to_vec(),
        lease_ms: 1000,
        meta: None,
    };
    let found = |story: &dyn Fn(&mut Ledger)| {
        let mut ledger = Ledger::default();
        ledger.pushing("0.x", "plain", None, false);
        ledger.stored("0.x", Stored::Yes(When { sent: 5_000, told: 5_001, safe: false }));
        story(&mut ledger);
        ledger.judge_end(&[]);
        ledger.findings.join("; ")
    };
    let ack = |ledger: &mut Ledger, code, at| {
        ledger.acking("0.x", 6_000_000);
        ledger.acked("0.x", 6_000_000, code, When { sent: at, told: at, safe: false });
    };
    let lease = |ledger: &mut Ledger, token| ledger.delivered(&job(token), "w", token / 1000, 6);
    let finished = |ledger: &mut Ledger| {
        lease(ledger, 6_000_000);
        ack(ledger, Code::Finished, 6_500);
    };
    assert_eq!(found(&finished), "");
    assert!(found(&|_| {}).contains("nobody finished it"));
    assert!(found(&|ledger| ack(ledger, Code::NotYours, 6_500)).contains("nobody finished it"));
    assert_eq!(found(&|ledger| ack(ledger, Code::Unknown, 6_500)), "");
    // It comes again.
    let again = |ledger: &mut Ledger| {
        finished(ledger);
        lease(ledger, 9_000_000);
    };
    assert!(found(&again).contains("given out again"));
    let tail = |from, to| crate::ledger::Doubt { from, to, failover: true };
    let lost = |ledger: &mut Ledger| {
        ledger.doubts.push(tail(6_400, 6_600));
        again(ledger);
    };
    assert_eq!(found(&lost), "");
    // Two have it.
    let twice = |ledger: &mut Ledger| {
        lease(ledger, 6_000_000);
        lease(ledger, 6_900_000);
        ledger.acking("0.x", 6_900_000);
        ledger.acked("0.x", 6_900_000, Code::Finished, When { sent: 6_950, told: 6_950, safe: false });
    };
    assert!(found(&twice).contains("two live leases"));
    let stored_no = |ledger: &mut Ledger| {
        ledger.stored("0.x", Stored::No);
        finished(ledger);
    };
    assert!(found(&stored_no).contains("was refused or dropped"));
    let mut tired = job(6_000_000);
    tired.deliveries = 7;
    assert!(found(&|ledger| ledger.delivered(&tired, "w", 6_000, 6)).contains("delivery 7 of 6"));
    let mut stranger = job(6_000_000);
    stranger.payload = b"0.y".to_vec();
    assert!(found(&|ledger| ledger.delivered(&stranger, "w", 6_000, 6)).contains("nobody pushed it"));
}
