//! A queue with a job in every state, for tests that look at all of them.

use super::client::Client;

/// The ids, `leased` with its token.
pub struct Stock {
    pub ready: String,
    /// Pushed with a delay.
    pub scheduled: String,
    /// Waits after a failure.
    pub retrying: String,
    pub leased: super::Job,
    /// By RQ.NACK DEAD, with the error `boom`.
    pub dead: String,
}

/// Makes the queue. Nothing in it becomes due or expires within an hour.
#[track_caller]
pub fn stock(c: &Client, key: &str) -> Stock {
    c.run(format!("RQ.CREATE {key} LEASE 7200000 BACKOFF 7200000 7200000 JITTER none"));
    let leased = c.push(format!("{key} leased"));
    let retrying = c.push(format!("{key} retrying"));
    let dead = c.push(format!("{key} dead"));
    let jobs = c.lease(format!("{key} worker COUNT 3"));
    assert_eq!(super::ids(&jobs), [leased.as_str(), &retrying, &dead]);
    assert_eq!(c.codes(format!("RQ.NACK {key} {} ERROR flaky", jobs[1])), [1]);
    assert_eq!(c.codes(format!("RQ.NACK {key} {} ERROR boom DEAD", jobs[2])), [2]);
    Stock {
        ready: c.push(format!("{key} ready")),
        scheduled: c.push(format!("{key} scheduled DELAY 7200000")),
        retrying,
        leased: jobs[0].clone(),
        dead,
    }
}
