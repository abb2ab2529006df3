//! What a command leaves behind for the shell: its ops as one batch, and what is to be told.

use crate::apply::Applied;
use crate::canary::Fault;
use crate::codec;
use crate::id::JobId;
use crate::job::{Slot, State};
use crate::op::{Event, Op};
use crate::policy::Policy;
use crate::queue::Queue;
use crate::random::Random;
use crate::schedule::{NoCalendar, Slots};
use crate::sink::Sink;
use crate::timings::Recent;
use crate::wire::Writer;

/// What the world looks like to one command: the shell fills it once.
#[derive(Clone)]
pub struct Turn<'a> {
    /// Unix ms.
    pub now: u64,
    /// Fresh random bits, for jitter.
    pub seed: u64,
    /// During the grace no lease expires by itself.
    pub hold_expiry: bool,
    /// Whether LEASE may wait; false in MULTI, scripts and wherever blocking is denied.
    pub may_block: bool,
    /// A fresh random number, for a queue that is made.
    pub incarnation: u64,
    /// The policy of a queue that PUSH makes, if it is not the usual one. In a box: it is large, and
    /// hardly ever asked for.
    pub defaults: Option<Box<Policy>>,
    /// The longest payload that is accepted: `rq.max-payload`.
    pub max_payload: usize,
    /// Schedules make no jobs now: the server is out of memory, or would evict them.
    pub bar_slots: bool,
    /// What knows calendars.
    pub slots: &'a dyn Slots,
    /// Figures of this process, for INFO.
    pub local: Local,
    /// The last token that this node knows of, whatever queue it was of: one that is deleted and made
    /// again, or restored as it was, must not give the same ones out again.
    pub last_token: u64,
}

impl Turn<'_> {
    /// A turn at a time, with nothing else said: EVERY is known, CRON is not.
    pub fn at(now: u64) -> Turn<'static> {
        Turn {
            now,
            seed: 0,
            hold_expiry: false,
            may_block: false,
            incarnation: 0,
            defaults: None,
            max_payload: crate::limits::MAX_PAYLOAD,
            bar_slots: false,
            slots: &NoCalendar,
            local: Local::default(),
            last_token: 0,
        }
    }
}

/// How a job ended, for who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was finished; its result, if it is kept.
    Done(Option<Box<[u8]>>),
    /// It went to dead.
    Dead,
    /// It was removed.
    Gone,
}

impl End {
    /// Writes the reply of WAIT.
    pub fn write(&self, out: &mut dyn Sink) {
        let (state, result) = match self {
            End::Gone => return out.null_array(),
            End::Done(result) => (State::Done, result.as_deref()),
            End::Dead => (State::Dead, None),
        };
        out.array(2);
        out.text(state.name());
        match result {
            Some(result) => out.bulk(result),
            None => out.null(),
        }
    }
}

/// Figures of this process only: in no snapshot, and on no replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Local {
    /// Refused tokens.
    pub stale: u64,
    /// Waiting LEASE calls.
    pub blocked: u64,
    /// Dropped duplicates.
    pub duplicates: u64,
    /// Pushes refused by MAXLIVE or MAXLIVEBYTES.
    pub full: u64,
    /// Of the last one to two minutes.
    pub recent: Recent,
}

/// What one or several requests did. Reused: [`Effects::clear`].
#[derive(Debug, Default)]
pub struct Effects {
    batch: Writer,
    events: Vec<Event>,
    granted: Vec<(JobId, u64)>,
    /// Where these jobs are.
    granted_slots: Vec<Slot>,
    ended: Vec<(JobId, End)>,
    /// How long jobs had waited that were leased, and had run that were settled, in ms.
    waits: Vec<u64>,
    runs: Vec<u64>,
    watch_ends: bool,
    /// How many events there are of each kind, and the kinds in the order of their first ones.
    counts: [u32; Event::ALL.len()],
    kinds: Vec<Event>,
    stale: u64,
    duplicates: u64,
    nothing: u64,
    last_token: u64,
}

impl Effects {
    /// Nothing yet.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.events.clear();
        self.begin_granting();
        self.ended.clear();
        self.waits.clear();
        self.runs.clear();
        self.counts = Default::default();
        self.kinds.clear();
        self.watch_ends = false;
        self.stale = 0;
        self.duplicates = 0;
        self.nothing = 0;
        self.last_token = 0;
    }

    /// The batch of ops; empty if nothing was changed.
    pub fn batch(&self) -> &[u8] {
        self.batch.bytes()
    }

    /// What happened, one per state change, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The leases that the last request or waiter got: ids and tokens.
    pub fn granted(&self) -> &[(JobId, u64)] {
        &self.granted
    }

    /// Forgets the leases of an earlier request.
    pub(crate) fn begin_granting(&mut self) {
        self.granted.clear();
        self.granted_slots.clear();
    }

    /// A token was given that other queues are to know.
    pub(crate) fn saw_token(&mut self, token: u64) {
        self.last_token = token;
    }

    pub(crate) fn grant(&mut self, id: JobId, token: u64, slot: Slot) {
        self.granted.push((id, token));
        self.granted_slots.push(slot);
    }

    /// The last token that was given, if other queues are to know it; 0: none was.
    pub fn last_token(&self) -> u64 {
        self.last_token
    }

    /// The same leases, with the places of their jobs, as long as nobody moves them.
    pub(crate) fn granted_jobs(&self) -> impl ExactSizeIterator<Item = (JobId, u64, Slot)> + '_ {
        self.granted.iter().zip(&self.granted_slots).map(|((id, token), slot)| (*id, *token, *slot))
    }

    /// The jobs that ended, and how, if [`Effects::watch_ends`] asked for them.
    pub fn ended(&self) -> &[(JobId, End)] {
        &self.ended
    }

    /// From now on, tell which jobs end: somebody waits for some of this queue.
    pub fn watch_ends(&mut self, watch: bool) {
        self.watch_ends = watch;
    }

    /// A job was leased that had been ready for so many ms.
    pub(crate) fn waited(&mut self, ms: u64) {
        self.waits.push(ms);
    }

    /// A job was settled so many ms after it was delivered.
    pub(crate) fn ran(&mut self, ms: u64) {
        self.runs.push(ms);
    }

    /// For how many ms each job was ready that was leased.
    pub(crate) fn waits(&self) -> &[u64] {
        &self.waits
    }

    /// How many ms after its delivery each job was settled by ACK or NACK.
    pub(crate) fn runs(&self) -> &[u64] {
        &self.runs
    }

    /// How often each kind of event happened, in the order of their first ones.
    pub fn kinds(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        self.kinds.iter().map(|event| (*event, self.count(*event)))
    }

    /// How often it happened.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counts.get(event as usize).copied().unwrap_or(0).into()
    }

    fn happened(&mut self, event: Event) {
        self.events.push(event);
        let Some(count) = self.counts.get_mut(event as usize) else { return };
        if *count == 0 {
            self.kinds.push(event);
        }
        *count = count.saturating_add(1);
    }

    /// Notes the end of a job.
    pub(crate) fn watch(&mut self, op: &Op<'_>) {
        if !self.watch_ends {
            return;
        }
        let end = match op {
            Op::Finish { id, keep } => Some((*id, End::Done(keep.map(Box::from)))),
            Op::Bury { id, .. } => Some((*id, End::Dead)),
            Op::Drop { id } => Some((*id, End::Gone)),
            _ => None,
        };
        self.ended.extend(end);
    }

    /// How many tokens were refused.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// How many ops did not fit the job they named: more than none on a replica means that it
    /// had diverged.
    pub fn misfits(&self) -> u64 {
        self.nothing
    }

    /// How many duplicates were dropped.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// A duplicate was dropped: nothing is stored, but it is told.
    pub(crate) fn refused_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
        self.happened(Event::Duplicate);
    }

    pub(crate) fn refused_token(&mut self) {
        self.stale = self.stale.saturating_add(1);
    }

    pub(crate) fn note(&mut self, applied: Applied) {
        match applied {
            Applied::Told(event) => self.happened(event),
            Applied::Changed => {}
            Applied::Nothing => self.nothing = self.nothing.saturating_add(1),
        }
    }

    pub(crate) fn record(&mut self, op: &Op<'_>, now: u64) {
        self.batch.begin(now);
        codec::encode(op, &mut self.batch);
    }
}

/// One request under way on one queue.
pub(crate) struct Run<'q, 't> {
    pub(crate) queue: &'q mut Queue,
    pub(crate) turn: &'t Turn<'t>,
    pub(crate) effects: &'q mut Effects,
    pub(crate) random: Random,
}

impl<'q, 't> Run<'q, 't> {
    pub(crate) fn new(queue: &'q mut Queue, turn: &'t Turn<'t>, effects: &'q mut Effects) -> Run<'q, 't> {
        // Requests that share a batch must not share their jitter.
        let random = Random::new(turn.seed ^ effects.batch.bytes().len() as u64);
        Run { queue, turn, effects, random }
    }

    pub(crate) fn now(&self) -> u64 {
        self.turn.now
    }

    /// Makes a decision a fact: into the batch, and onto the queue.
    pub(crate) fn commit(&mut self, op: &Op<'_>) {
        self.commit_one(op);
        // The end of a job lets go of the duplicate that was held behind it.
        while let Some((ended, _)) = self.queue.dedup.next_pending() {
            if Fault::HeldDuplicateIsLost.is_on() || !self.queue.head.last_id.has_next(self.turn.now, 1) {
                break;
            }
            let id = self.queue.head.last_id.next(self.turn.now);
            self.commit_one(&Op::Unhold { ended, id });
        }
    }

    fn commit_one(&mut self, op: &Op<'_>) {
        self.effects.watch(op);
        self.effects.record(op, self.turn.now);
        let applied = self.queue.apply_op(op, self.turn.now);
        debug_assert!(applied != Applied::Nothing, "a decision that does not fit: {op:?}");
        self.effects.note(applied);
        if let (Op::Push { id, .. }, true) = (op, Fault::YoungestFirst.is_on()) {
            let place = crate::limits::MAX_TIME_MS.saturating_sub(id.ms);
            self.commit_one(&Op::Set { id: *id, priority: None, due: Some(crate::op::Due::Ready(place)) });
        }
    }
}
