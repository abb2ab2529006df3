//! A whole queue as batches of ops, and back; and batches from a primary onto a queue.

use crate::apply::Applied;
use crate::canary::Fault;
use crate::codec::{decode, encode};
use crate::effects::Effects;
use crate::limits::{MAX_BATCH, SNAPSHOT_CHUNK};
use crate::groups::Groups;
use crate::op::{GroupState, Op, QueueTurns};
use crate::queue::Queue;
use crate::rate::Grants;
use crate::stored::encode_job;
use crate::wire::{Malformed, Reader, Writer};

/// The first byte of a stored job; the rest of it is written without a copy of the job.
const PUT: u8 = 2;

impl Queue {
    /// Hands out the queue as batches of about 64 KB, each of which leaves a valid queue: first
    /// what it knows beside its jobs, then the jobs in the order of their ids. The same bytes for
    /// equal queues.
    pub fn snapshot(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut batch = Writer::default();
        batch.begin(self.head.newest_ms);
        encode(&Op::Reset(Box::new(self.head.clone())), &mut batch);
        for (_, slot) in self.jobs.iter() {
            let Some(job) = self.jobs.get(slot) else { continue };
            let size = batch.bytes().len().saturating_add(usize::try_from(job.bytes).unwrap_or(usize::MAX));
            if size > SNAPSHOT_CHUNK {
                emit(batch.bytes());
                batch.clear();
                batch.begin(self.head.newest_ms);
            }
            batch.byte(PUT);
            encode_job(&job, self.consumer(&job), self.group(&job), &mut batch);
        }
        for (key, owner) in self.dedup.iter() {
            if Fault::SnapshotLosesWindows.is_on() && owner.until > 0 {
                continue;
            }
            let held = owner.held.as_ref().map_or(0, |held| held.payload.len());
            if batch.bytes().len().saturating_add(held) > SNAPSHOT_CHUNK {
                emit(batch.bytes());
                batch.clear();
                batch.begin(self.head.newest_ms);
            }
            encode(&Op::Key { key, owner: Box::new(owner.clone()) }, &mut batch);
        }
        for (_, group) in self.groups.after(None) {
            if batch.bytes().len() > SNAPSHOT_CHUNK {
                emit(batch.bytes());
                batch.clear();
                batch.begin(self.head.newest_ms);
            }
            let state = GroupState { pause: group.pause.clone(), turns: Groups::turns_of(group), grants: group.grants.clone() };
            encode(&Op::Group { name: &group.name, state: Box::new(state) }, &mut batch);
        }
        for (name, schedule) in self.schedules.iter() {
            if batch.bytes().len().saturating_add(schedule.plan.payload.len()) > SNAPSHOT_CHUNK {
                emit(batch.bytes());
                batch.clear();
                batch.begin(self.head.newest_ms);
            }
            encode(&Op::Schedule { name, schedule: Box::new(schedule.clone()) }, &mut batch);
        }
        let (counter, bare) = self.groups.turns();
        let turns = QueueTurns { counter, bare, grants: Grants::clone(&self.grants) };
        // Also turns of zero: reading the jobs of groups back gives out some.
        if turns != QueueTurns::default() || !self.groups.is_empty() {
            encode(&Op::Turns(Box::new(turns)), &mut batch);
        }
        emit(batch.bytes());
    }
}

/// Decodes a whole batch before anything is applied, so that one that does not decode changes
/// nothing.
fn validate(batch: &[u8]) -> Result<(), Malformed> {
    if batch.len() > MAX_BATCH {
        return Err(Malformed { at: 0, what: "longer than 16 MB" });
    }
    let (mut reader, now) = Reader::open(batch)?;
    while !reader.is_at_end() {
        decode(&mut reader, now)?;
    }
    Ok(())
}

/// Applies a batch from a primary, an AOF or a snapshot. The batch's time.
///
/// # Errors
/// The batch does not decode: nothing was changed.
pub fn apply(queue: &mut Queue, batch: &[u8], effects: &mut Effects) -> Result<u64, Malformed> {
    validate(batch)?;
    apply_ops(queue, Reader::open(batch)?, effects)
}

fn apply_ops(queue: &mut Queue, from: (Reader<'_>, u64), effects: &mut Effects) -> Result<u64, Malformed> {
    let (mut reader, now) = from;
    while !reader.is_at_end() {
        let op = decode(&mut reader, now)?;
        if Fault::ReplicaSkipsExtensions.is_on() && matches!(op, Op::Extend { .. }) {
            continue;
        }
        effects.watch(&op);
        effects.note(queue.apply_op(&op, now));
    }
    Ok(now)
}

/// Applies a batch to an absent key. The batch's time, and the queue if the batch made one: other
/// ops about nothing are misfits.
///
/// # Errors
/// The batch does not decode: nothing was changed.
pub fn apply_absent(batch: &[u8], effects: &mut Effects) -> Result<(u64, Option<Queue>), Malformed> {
    validate(batch)?;
    let (mut reader, now) = Reader::open(batch)?;
    let mut queue = match reader.is_at_end() {
        true => return Ok((now, None)),
        false => match decode(&mut reader, now)? {
            Op::Create { incarnation } => Queue::new(incarnation),
            reset @ Op::Reset(_) => {
                let mut queue = Queue::new(0);
                queue.apply_op(&reset, now);
                queue
            }
            _ => {
                effects.note(Applied::Nothing);
                return Ok((now, None));
            }
        },
    };
    queue.head.newest_ms = queue.head.newest_ms.max(now);
    apply_ops(&mut queue, (reader, now), effects)?;
    Ok((now, Some(queue)))
}

/// Reads a snapshot, strictly: it must be exactly what [`Queue::snapshot`] writes of some valid
/// queue. For RDB files and RESTORE, whose bytes may come from anybody.
#[derive(Debug, Default)]
pub struct Loader {
    queue: Option<Queue>,
    /// The kind of the last op: they come in the order in which they are written.
    stage: Stage,
    /// The last group's name.
    group: Option<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Jobs,
    Keys,
    Groups,
    Schedules,
    /// The last op of all.
    Turns,
}

impl Loader {
    /// Nothing read yet.
    pub fn new() -> Loader {
        Loader::default()
    }

    /// Reads the next batch.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn feed(&mut self, batch: &[u8]) -> Result<(), Malformed> {
        if batch.len() > MAX_BATCH {
            return Err(Malformed { at: 0, what: "longer than 16 MB" });
        }
        let (mut reader, now) = Reader::open(batch)?;
        while !reader.is_at_end() {
            let op = decode(&mut reader, now)?;
            let stage = match &op {
                Op::Key { .. } => Stage::Keys,
                Op::Group { .. } => Stage::Groups,
                Op::Schedule { .. } => Stage::Schedules,
                Op::Turns(_) => Stage::Turns,
                _ => Stage::Jobs,
            };
            if stage < self.stage || self.stage == Stage::Turns {
                return Err(reader.wrong("not the order of a snapshot"));
            }
            self.stage = stage;
            match (&mut self.queue, &op) {
                (empty @ None, Op::Reset(header)) if header.newest_ms == now => {
                    let mut queue = Queue::new(header.incarnation);
                    queue.head = (**header).clone();
                    *empty = Some(queue);
                }
                (Some(queue), Op::Put(stored)) => {
                    let head = &queue.head;
                    let more = &stored.facts.more;
                    if stored.facts.id <= queue.jobs.last() || stored.facts.id > head.last_id {
                        return Err(reader.wrong("ids out of order"));
                    }
                    if more.token > head.last_token || more.lease_ms > head.longest_lease_ms || head.newest_ms != now {
                        return Err(reader.wrong("a job newer than its queue"));
                    }
                    if queue.apply_op(&op, now) == Applied::Nothing {
                        return Err(reader.wrong("a job twice"));
                    }
                }
                (Some(queue), Op::Key { key, owner }) => {
                    let ordered = queue.dedup.iter().next_back().is_none_or(|(last, _)| last[..] < **key);
                    if !ordered || owner.job > queue.head.last_id || queue.apply_op(&op, now) == Applied::Nothing {
                        return Err(reader.wrong("a dedup key that does not fit"));
                    }
                }
                (Some(queue), Op::Schedule { name, .. }) => {
                    if queue.schedules.iter().next_back().is_some_and(|(last, _)| last[..] >= **name) {
                        return Err(reader.wrong("schedules out of order"));
                    }
                    queue.apply_op(&op, now);
                }
                (Some(queue), Op::Group { name, .. }) => {
                    if self.group.replace(Box::from(*name)).is_some_and(|last| last[..] >= **name) {
                        return Err(reader.wrong("groups out of order"));
                    }
                    if queue.apply_op(&op, now) == Applied::Nothing {
                        return Err(reader.wrong("a group without jobs"));
                    }
                }
                (Some(queue), Op::Turns(_)) => {
                    queue.apply_op(&op, now);
                }
                _ => return Err(reader.wrong("not the ops of a snapshot")),
            }
        }
        Ok(())
    }

    /// The queue.
    ///
    /// # Errors
    /// Nothing was read.
    pub fn finish(self) -> Result<Queue, Malformed> {
        self.queue.ok_or(Malformed { at: 0, what: "no queue in it" })
    }
}
