//! The ops: decided facts, with absolute times. All that ever changes a queue is one of them.

use std::ffi::CStr;

use crate::dedup::Owner;
use crate::groups::Turns;
use crate::id::JobId;
use crate::job::{Facts, Reason};
use crate::pause::{Pause, Side};
use crate::policy::Setting;
use crate::queue::Header;
use crate::rate::Grants;
use crate::request::JobOptions;
use crate::schedule::{NoJob, Schedule};

/// One change of a queue. `apply` knows no clock: `now` is the time of the batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op<'a> {
    /// The queue is as new, with this header. Begins a snapshot.
    Reset(Box<Header>),
    /// A job with everything that is known about it, from a snapshot.
    Put(Box<Stored<'a>>),
    /// The queue was made.
    Create { incarnation: u64 },
    /// An option was set.
    Policy(Setting),
    /// A job was pushed, ready (`due` None) or delayed.
    Push { id: JobId, contents: Contents<'a> },
    /// A job was handed to a consumer until `deadline`.
    Lease { id: JobId, token: u64, lease_ms: u64, consumer: &'a [u8] },
    /// A job was acknowledged, and is kept with its result, or is gone.
    Finish { id: JobId, keep: Option<&'a [u8]> },
    /// NACK: tried again, at once or at `due`.
    Retry { id: JobId, due: Option<u64>, error: Option<&'a [u8]> },
    /// A job went to dead. `error` is given by NACK only.
    Bury { id: JobId, reason: Reason, error: Option<&'a [u8]> },
    /// A late NACK about a job that expiry had sent to dead.
    Note { id: JobId, error: Option<&'a [u8]> },
    /// A job was given back unspent, to its old place or until `due`.
    Release { id: JobId, due: Option<u64> },
    /// A lease was extended, or an expired one taken up again.
    Extend { id: JobId, deadline: u64 },
    /// A lease ended by itself: the job takes its old place, or waits until `due`.
    Expire { id: JobId, due: Option<u64> },
    /// All delayed jobs up to this one became ready.
    Promote { due: u64, id: JobId },
    /// A dead job got a fresh budget, ready now or at `due`.
    Redrive { id: JobId, due: Option<u64>, priority: Option<i8> },
    /// A waiting job's priority or due time was set.
    Set { id: JobId, priority: Option<i8>, due: Option<Due> },
    /// A job was removed by its owner.
    Drop { id: JobId },
    /// DEDUP REPLACE: what waits under a key got new contents.
    Replace { id: JobId, priority: i8, due: Option<Due>, window_ms: u64, payload: &'a [u8] },
    /// A duplicate is held behind the job that has its key.
    Hold { contents: Contents<'a> },
    /// What was held behind a job that has ended was pushed.
    Unhold { ended: JobId, id: JobId },
    /// All windows up to this one are over.
    CloseWindows { until: u64, key: &'a [u8] },
    /// A key was given up by its owner, whose job is gone.
    Forget { key: &'a [u8] },
    /// A pause began (or changed), or ended.
    Pause { side: Side<'a>, pause: Option<Pause> },
    /// Groups that nothing needs any more were forgotten.
    Tidy,
    /// Turns and grants, from a snapshot.
    Turns(Box<QueueTurns>),
    /// A group with its pause, turns and grants, from a snapshot.
    Group { name: &'a [u8], state: Box<GroupState> },
    /// A schedule was made or changed, or is part of a snapshot.
    Schedule { name: &'a [u8], schedule: Box<Schedule> },
    /// A schedule was removed.
    Unschedule { name: &'a [u8] },
    /// A slot of a schedule came.
    Slot { name: &'a [u8], job: SlotJob, next: Option<u64>, burst: u64 },
    /// A key with its owner and what is held, from a snapshot.
    Key { key: &'a [u8], owner: Box<Owner> },
    /// A finished or dead job was removed by retention or TRIM.
    Discard { id: JobId },
}

/// What is pushed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Contents<'a> {
    /// When it is due, Unix ms; None: at once.
    pub(crate) due: Option<u64>,
    pub(crate) options: JobOptions,
    pub(crate) group: Option<&'a [u8]>,
    pub(crate) dedup: Option<DedupKey<'a>>,
    pub(crate) payload: &'a [u8],
}

impl Contents<'_> {
    /// Whether nothing is said but the payload: the job will be plain.
    pub(crate) fn are_plain(&self) -> bool {
        let JobOptions { when: _, priority, lease_ms, max_deliveries, ttl_ms } = self.options;
        let options = priority != 0 || lease_ms > 0 || ttl_ms > 0 || max_deliveries.is_some();
        !options && self.due.is_none() && self.group.is_none() && self.dedup.is_none()
    }
}

/// The job of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotJob {
    /// It was made, for the slot of this time.
    Made { id: JobId, slot: u64 },
    /// There is none.
    None(NoJob),
}

/// What a snapshot says about turns and rates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueTurns {
    pub(crate) counter: u64,
    pub(crate) bare: Turns,
    pub(crate) grants: Grants,
}

/// What a snapshot says about a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupState {
    pub(crate) pause: Option<Pause>,
    pub(crate) turns: Turns,
    pub(crate) grants: Grants,
}

/// A dedup key, and its WINDOW in ms or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DedupKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) window_ms: u64,
}

/// A new time for a waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ready, placed at this time.
    Ready(u64),
    /// Delayed until this time.
    Delayed(u64),
}

/// A job as a snapshot has it: with the names of its consumer and its group instead of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored<'a> {
    pub(crate) facts: Facts,
    pub(crate) payload: &'a [u8],
    pub(crate) consumer: Option<&'a [u8]>,
    pub(crate) group: Option<&'a [u8]>,
}

/// A state change that others may be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the keyspace events")]
pub enum Event {
    Push,
    Duplicate,
    Lease,
    Ack,
    Nack,
    Release,
    Expire,
    Dead,
    Redrive,
    Del,
    Drop,
}

impl Event {
    /// All of them, in the order of their numbers.
    pub const ALL: [Event; 11] = [
        Event::Push, Event::Duplicate, Event::Lease, Event::Ack, Event::Nack, Event::Release, Event::Expire, Event::Dead,
        Event::Redrive, Event::Del, Event::Drop,
    ];

    /// The name of the keyspace event, as the server wants it.
    pub fn name(self) -> &'static CStr {
        match self {
            Event::Push => c"rq.push",
            Event::Duplicate => c"rq.duplicate",
            Event::Lease => c"rq.lease",
            Event::Ack => c"rq.ack",
            Event::Nack => c"rq.nack",
            Event::Release => c"rq.release",
            Event::Expire => c"rq.expire",
            Event::Dead => c"rq.dead",
            Event::Redrive => c"rq.redrive",
            Event::Del => c"rq.del",
            Event::Drop => c"rq.drop",
        }
    }
}
