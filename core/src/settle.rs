//! ACK, NACK, RELEASE, EXTEND: what a token is good for.

use crate::canary::Fault;
use crate::due::{in_future, max_deliveries, spent};
use crate::effects::Run;
use crate::id::JobId;
use crate::job::{token_ms, Hold, Reason, Settled, State};
use crate::op::Op;

/// Done, or will be retried.
const YES: i64 = 1;
/// Not yours: leased again since, or settled otherwise.
const NO: i64 = 0;
/// No such job.
const GONE: i64 = -1;
/// NACK: went to dead.
const DEAD: i64 = 2;

impl Run<'_, '_> {
    /// What a token is good for; None if the job is gone. Counts the refused ones; any other tells
    /// that its consumer is alive.
    fn hold(&mut self, id: JobId, token: u64) -> Option<Hold> {
        let (hold, consumer) = self.queue.jobs.hold(self.queue.slot_of(id)?, token)?;
        match consumer {
            _ if hold == Hold::Stale => self.effects.refused_token(),
            Some(consumer) => self.queue.names.saw_number(consumer, self.turn.now),
            None => {}
        }
        Some(hold)
    }

    /// The same for ACK and NACK: if the job is still this worker's, tells how long it took.
    fn settles(&mut self, id: JobId, token: u64) -> Option<Hold> {
        let hold = self.hold(id, token)?;
        if matches!(hold, Hold::Live | Hold::Late | Hold::LateDead) {
            self.effects.ran(self.turn.now.saturating_sub(token_ms(token)));
        }
        Some(hold)
    }

    pub(crate) fn ack(&mut self, id: JobId, token: u64, result: Option<&[u8]>) -> i64 {
        match self.settles(id, token) {
            None => GONE,
            Some(Hold::Stale) if Fault::OldTokenAcknowledges.is_on() && self.queue.job(id).is_some_and(|job| job.state == State::Leased) => {
                self.commit(&Op::Finish { id, keep: None });
                YES
            }
            Some(Hold::Late) if Fault::LateTokenIsRefused.is_on() => NO,
            Some(Hold::Live | Hold::Late | Hold::LateDead) => {
                let keep = self.queue.head.policy.keeps_done().then_some(result.unwrap_or(&[]));
                self.commit(&Op::Finish { id, keep });
                YES
            }
            Some(Hold::Settled(Settled::Finished)) => YES,
            Some(Hold::Stale | Hold::Settled(_)) => NO,
        }
    }

    pub(crate) fn nack(&mut self, id: JobId, token: u64, delay_ms: Option<u64>, error: Option<&[u8]>, dead: bool) -> i64 {
        let hold = match self.settles(id, token) {
            None => return GONE,
            Some(hold) => hold,
        };
        match hold {
            Hold::Live | Hold::Late => {}
            Hold::LateDead => {
                self.commit(&Op::Note { id, error });
                return DEAD;
            }
            Hold::Settled(Settled::Retried) => return YES,
            Hold::Settled(Settled::Buried) => return DEAD,
            Hold::Stale | Hold::Settled(_) => return NO,
        }
        let Some(job) = self.queue.job(id) else { return GONE };
        let reason = if dead {
            Some(Reason::Rejected)
        } else if spent(job.deliveries, max_deliveries(&job, self.queue)) {
            Some(Reason::Failed)
        } else {
            None
        };
        if let Some(reason) = reason {
            self.commit(&Op::Bury { id, reason, error });
            return DEAD;
        }
        let failures = job.more().budget_failures.saturating_add(1);
        let wait = match delay_ms {
            Some(ms) => ms,
            None => self.queue.head.policy.backoff_with_jitter_ms(failures, self.random.next()),
        };
        self.commit(&Op::Retry { id, due: in_future(wait, self.turn.now), error });
        YES
    }

    pub(crate) fn release(&mut self, id: JobId, token: u64, delay_ms: Option<u64>) -> i64 {
        match self.hold(id, token) {
            None => GONE,
            Some(Hold::Live) if Fault::ReleaseIsForgotten.is_on() => YES,
            Some(Hold::Live | Hold::Late) => {
                self.commit(&Op::Release { id, due: in_future(delay_ms.unwrap_or(0), self.turn.now) });
                YES
            }
            Some(Hold::Settled(Settled::Released)) => YES,
            Some(Hold::LateDead | Hold::Stale | Hold::Settled(_)) => NO,
        }
    }

    /// Gives back all that a consumer has leased.
    pub(crate) fn release_consumer(&mut self, consumer: &[u8]) -> u64 {
        self.queue.names.saw(consumer, self.turn.now);
        let leases = self.queue.leases_of(consumer);
        for id in &leases {
            self.commit(&Op::Release { id: *id, due: None });
        }
        leases.len() as u64
    }

    pub(crate) fn extend(&mut self, id: JobId, token: u64, lease_ms: Option<u64>) -> i64 {
        let hold = match self.hold(id, token) {
            None => return GONE,
            Some(hold @ (Hold::Live | Hold::Late)) => hold,
            Some(_) => return NO,
        };
        let Some(job) = self.queue.job(id) else { return GONE };
        let (now, more) = (self.turn.now, job.more());
        if job.state != State::Leased && !self.queue.has_place_for(more.group, job.state == State::Delayed) {
            return NO;
        }
        let mut deadline = now.saturating_add(lease_ms.unwrap_or(more.lease_ms));
        let max_run = self.queue.head.policy.max_run_ms();
        if max_run > 0 {
            let end = more.last_delivered_at.saturating_add(max_run);
            if end <= now {
                return NO;
            }
            deadline = deadline.min(end);
        }
        if hold == Hold::Late || deadline != more.until {
            self.commit(&Op::Extend { id, deadline });
        }
        YES
    }
}
