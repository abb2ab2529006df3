//! From a checked request to its ops and its reply: the one path for all verbs.

use crate::due::Scope;
use crate::effects::{Effects, End, Run, Turn};
use crate::error::Error;
use crate::id::JobId;
use crate::job::State;
use crate::limits::MAX_PAYLOAD;
use crate::op::Op;
use crate::produce;
use crate::policy::Policy;
use crate::queue::Queue;
use crate::request::{LeaseOptions, MultiLease, Request};
use crate::sink::Sink;
use crate::slots;
use crate::view;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The reply was written.
    Replied,
    /// Nothing was written, because there is nothing to lease and the request may wait: see
    /// [`Waiter::new`]. With ACKLEASE, the code of the acknowledgement.
    Wait(Option<i64>),
}

/// Runs a request on a queue.
///
/// # Errors
/// A refusal: nothing was changed and nothing was written.
pub fn execute(
    queue: &mut Queue,
    request: &Request<'_>,
    turn: &Turn<'_>,
    effects: &mut Effects,
    out: &mut dyn Sink,
) -> Result<Outcome, Error> {
    match request {
        Request::Get { id } => view::get(queue, *id, out),
        Request::GetDedup { key } => view::get_dedup(queue, key, turn.now, out),
        Request::Wait { id, block_ms } => match end_of(queue, *id) {
            Some(end) => end.write(out),
            None if block_ms.is_some() && turn.may_block => return Ok(Outcome::Wait(None)),
            None => out.null_array(),
        },
        Request::Peek { state, cursor, count, payload } => view::peek(queue, *state, *cursor, *count, *payload, out),
        Request::Len { state } => view::len(queue, *state, out),
        Request::Schedules => view::schedules(queue, out),
        Request::Groups { after, count } => view::groups(queue, *after, *count, turn, out),
        Request::Consumers { after, count } => view::consumers(queue, *after, *count, turn, out),
        Request::Info { .. } => view::info(queue, turn, out),
        writes => {
            admit(queue, writes, turn)?;
            let mut run = Run::new(queue, turn, effects);
            let outcome = run.write(writes, out);
            run.retain();
            return outcome;
        }
    }
    Ok(Outcome::Replied)
}

/// Runs a request on an absent key; the queue, if it made one.
///
/// # Errors
/// A refusal: nothing was changed and nothing was written.
pub fn execute_absent(
    request: &Request<'_>,
    turn: &Turn<'_>,
    effects: &mut Effects,
    out: &mut dyn Sink,
) -> Result<(Outcome, Option<Queue>), Error> {
    let per_pair = |n: usize, out: &mut dyn Sink| {
        out.array(n);
        (0..n).for_each(|_| out.int(-1));
    };
    match request {
        Request::Push { .. } | Request::Create { .. } | Request::Pause { .. } | Request::Schedule { .. } => {
            let mut queue = Queue::new(turn.incarnation);
            let defaults = turn.defaults.as_deref().cloned().unwrap_or_default();
            queue.head.policy = defaults.clone();
            admit(&queue, request, turn)?;
            queue.head.policy = Policy::default();
            let mut run = Run::new(&mut queue, turn, effects);
            run.effects.record(&Op::Create { incarnation: turn.incarnation }, turn.now);
            run.queue.head.newest_ms = turn.now;
            for setting in defaults.settings() {
                // What a new queue has anyway is not told: a replica's new queue has it too.
                if !run.queue.head.policy.has(&setting) {
                    run.commit(&Op::Policy(setting));
                }
            }
            if let Request::Create { settings } = request {
                run.set_policy(settings);
                out.int(1);
            } else {
                run.write(request, out)?;
            }
            return Ok((Outcome::Replied, Some(queue)));
        }
        Request::Lease { options, .. } => {
            if waits(options, turn) {
                return Ok((Outcome::Wait(None), None));
            }
            out.null_array();
        }
        Request::AckLease { options, .. } => {
            if waits(options, turn) {
                return Ok((Outcome::Wait(Some(-1)), None));
            }
            out.array(2);
            out.int(-1);
            out.null_array();
        }
        Request::Ack { pairs, .. } | Request::Nack { pairs, .. } | Request::Release { pairs, .. } | Request::Extend { pairs, .. } => {
            per_pair(pairs.len(), out);
        }
        Request::Redrive { ids } => per_pair(ids.len(), out),
        Request::Set { .. } => out.int(-1),
        Request::RedriveMany(_) => {
            out.array(3);
            (0..3).for_each(|_| out.int(0));
        }
        Request::Reap { .. } | Request::Schedules | Request::Groups { .. } | Request::Consumers { .. } => out.array(0),
        Request::Resume { .. } | Request::Unschedule { .. } => out.int(0),
        Request::ReleaseConsumer { .. } | Request::Del { .. } | Request::DelDedup { .. } | Request::Purge { .. } | Request::Trim { .. } | Request::Len { .. } => out.int(0),
        Request::Get { .. } | Request::GetDedup { .. } | Request::Wait { .. } | Request::Info { .. } => out.null_array(),
        Request::Peek { .. } => {
            out.array(2);
            out.text("0");
            out.array(0);
        }
        Request::Alter { .. } => return Err(Error::no_queue()),
    }
    Ok((Outcome::Replied, None))
}

fn admit(queue: &Queue, request: &Request<'_>, turn: &Turn<'_>) -> Result<(), Error> {
    match request {
        Request::Push { payloads, ties, .. } => produce::admit(queue, payloads, ties.dedup.as_ref(), turn),
        Request::Schedule { plan, .. } => slots::check_plan(plan, turn),
        // What is kept of a job has to fit into one batch of ops.
        Request::Ack { pairs, result: Some(result) } if !result.is_empty() && queue.head.policy.keeps_done() => {
            let longest = pairs.iter().filter_map(|(id, _)| queue.job(id)).map(|job| job.payload.len()).max().unwrap_or(0);
            match longest.saturating_add(result.len()) {
                total if total > MAX_PAYLOAD => Err(Error::too_big("the result with its payload", total, MAX_PAYLOAD)),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether an empty LEASE waits instead of replying null.
pub(crate) fn waits(options: &LeaseOptions, turn: &Turn<'_>) -> bool {
    options.block_ms.is_some() && turn.may_block
}

impl Run<'_, '_> {
    /// A verb that may change the queue.
    fn write(&mut self, request: &Request<'_>, out: &mut dyn Sink) -> Result<Outcome, Error> {
        if let Request::Push { payloads, .. } = request {
            if !self.queue.head.last_id.has_next(self.now(), payloads.len()) {
                return Err(Error::new("this queue has no job ids left: its last one is at the end of time"));
            }
        }
        self.due_first(match request {
            // REAP reports the leases that it ends, so it leaves them for itself.
            Request::Reap { .. } => Scope::NotLeases,
            // A push has been promised its place, and a slot must not take it.
            Request::Push { .. } => Scope::NotSlots,
            _ => Scope::All,
        });
        match request {
            Request::Push { payloads, many, options, ties } => self.push(payloads, *many, options, ties, out),
            Request::Lease { consumer, options } => {
                self.take(consumer, options);
                if self.effects.granted().is_empty() && waits(options, self.turn) {
                    return Ok(Outcome::Wait(None));
                }
                self.write_leases(options, out);
            }
            Request::Ack { pairs, result } => {
                out.array(pairs.len());
                for (id, token) in pairs.iter() {
                    out.int(self.ack(id, token, *result));
                }
            }
            Request::AckLease { id, token, consumer, options } => {
                let code = self.ack(*id, *token, None);
                self.take(consumer, options);
                if self.effects.granted().is_empty() && waits(options, self.turn) {
                    return Ok(Outcome::Wait(Some(code)));
                }
                out.array(2);
                out.int(code);
                self.write_leases(options, out);
            }
            Request::Nack { pairs, delay_ms, error, dead } => {
                out.array(pairs.len());
                for (id, token) in pairs.iter() {
                    out.int(self.nack(id, token, *delay_ms, *error, *dead));
                }
            }
            Request::Release { pairs, delay_ms } => {
                out.array(pairs.len());
                for (id, token) in pairs.iter() {
                    out.int(self.release(id, token, *delay_ms));
                }
            }
            Request::ReleaseConsumer { consumer } => out.uint(self.release_consumer(consumer)),
            Request::Extend { pairs, lease_ms } => {
                out.array(pairs.len());
                for (id, token) in pairs.iter() {
                    out.int(self.extend(id, token, *lease_ms));
                }
            }
            Request::Reap { count, which } => self.reap(*count, which, out),
            Request::Redrive { ids } => {
                out.array(ids.len());
                for id in ids.iter() {
                    out.int(self.redrive(id));
                }
            }
            Request::RedriveMany(many) => self.redrive_many(many, out),
            Request::Set { id, priority, when } => out.int(self.set(*id, *priority, *when)),
            Request::Del { ids } => out.uint(ids.iter().map(|id| self.del(id)).sum()),
            Request::DelDedup { keys } => out.uint(keys.iter().map(|key| self.del_dedup(key)).sum()),
            Request::Purge { state, count, reason, before } => out.uint(self.purge(*state, *count, *reason, *before)),
            Request::Trim { bound, count } => out.uint(self.trim(*bound, *count)),
            Request::Schedule { name, plan } => self.schedule(name, plan, out),
            Request::Unschedule { names } => out.uint(names.iter().map(|name| self.unschedule(name)).sum()),
            Request::Pause { side, for_ms, reason } => self.pause(*side, *for_ms, reason, out),
            Request::Resume { side } => out.int(i64::from(self.resume(*side))),
            Request::Create { settings } => {
                self.set_policy(settings);
                out.int(0);
            }
            Request::Alter { settings } => {
                self.set_policy(settings);
                out.ok();
            }
            Request::Get { .. }
            | Request::GetDedup { .. }
            | Request::Peek { .. }
            | Request::Len { .. }
            | Request::Wait { .. }
            | Request::Schedules
            | Request::Groups { .. }
            | Request::Consumers { .. }
            | Request::Info { .. } => {}
        }
        Ok(Outcome::Replied)
    }
}

/// A LEASE that waits for a job.
#[derive(Debug, Clone)]
pub struct Waiter {
    consumer: Box<[u8]>,
    options: LeaseOptions,
    code: Option<i64>,
    /// MLEASE: the reply names the key that had something.
    names_key: bool,
}

impl Waiter {
    /// Makes one of a request that ended with `Outcome::Wait(code)`; None for other requests.
    pub fn new(request: &Request<'_>, code: Option<i64>) -> Option<Waiter> {
        match request {
            Request::Lease { consumer, options } | Request::AckLease { consumer, options, .. } => {
                Some(Waiter { consumer: Box::from(*consumer), options: *options, code, names_key: false })
            }
            _ => None,
        }
    }

    /// One that takes from the first of several queues, for MLEASE.
    pub fn of_many(request: &MultiLease<'_>) -> Waiter {
        Waiter { consumer: request.consumer.into(), options: request.options, code: None, names_key: true }
    }

    /// How long it waits, in ms; 0: for ever. None: not at all.
    pub fn block_ms(&self) -> Option<u64> {
        self.options.block_ms
    }

    /// Leases what there is to it and writes the reply that it waits for. False: there was
    /// nothing, and nothing was written. [`Effects::granted`] tells what it got: if the client is
    /// gone before it reads the reply, [`give_back`] returns it unspent. What a client waits for never does the due work of
    /// others, so this changes no other job, except that one whose time to live is over goes to
    /// dead instead of being leased.
    pub fn grant(&self, key: &[u8], queue: &mut Queue, turn: &Turn<'_>, effects: &mut Effects, out: &mut dyn Sink) -> bool {
        let mut run = Run::new(queue, turn, effects);
        run.take(&self.consumer, &self.options);
        if run.effects.granted().is_empty() {
            return false;
        }
        if let Some(code) = self.code {
            out.array(2);
            out.int(code);
        }
        if self.names_key {
            out.array(2);
            out.bulk(key);
        }
        run.write_leases(&self.options, out);
        true
    }

    /// The reply of a wait that ended empty.
    pub fn timed_out(&self, out: &mut dyn Sink) {
        if let Some(code) = self.code {
            out.array(2);
            out.int(code);
        }
        out.null_array();
    }
}

/// How a job has ended; None: it is still to be done.
pub fn end_of(queue: &Queue, id: JobId) -> Option<End> {
    let Some(job) = queue.job(id) else { return Some(End::Gone) };
    match job.state {
        State::Done => Some(End::Done(Some(job.more().result.clone()))),
        State::Dead => Some(End::Dead),
        _ => None,
    }
}

/// Gives back the leases of a grant whose reply nobody could read: unspent, as RELEASE does. What
/// has been settled or leased anew since is left alone.
pub fn give_back(queue: &mut Queue, leases: &[(JobId, u64)], turn: &Turn<'_>, effects: &mut Effects) {
    let mut run = Run::new(queue, turn, effects);
    for (id, token) in leases {
        run.release(*id, *token, None);
    }
}
