//! PUSH, MPUSH with their dedup keys; CREATE, ALTER.

use std::collections::BTreeSet;

use crate::dedup::Owner;
use crate::effects::{Run, Turn};
use crate::error::Error;
use crate::id::{IdText, JobId};
use crate::job::State;
use crate::op::{Contents, DedupKey, Due, Op};
use crate::pause::Pause;
use crate::policy::Setting;
use crate::queue::Queue;
use crate::request::{DedupOptions, JobOptions, Ties};
use crate::sink::Sink;

/// What becomes of a pushed job; the number is its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A duplicate: dropped.
    Dropped = 0,
    Stored = 1,
    /// What waited under its key got its contents.
    Replaced = 2,
    /// Held behind the job that has its key.
    Held = 3,
}

/// What becomes of a job with this key, and which job has the key.
fn fate(queue: &Queue, key: &[u8], options: &DedupOptions<'_>, now: u64) -> (Fate, JobId) {
    let Some(Owner { job: id, .. }) = queue.dedup.owner(key, now) else { return (Fate::Stored, JobId::ZERO) };
    let job = queue.job(*id).filter(|job| job.state.is_live() && job.more().dedup.as_deref() == Some(key));
    let fate = match job {
        None => Fate::Dropped,
        Some(job) if job.state.waits() && job.more().first_delivered_at == 0 => {
            if options.replace { Fate::Replaced } else { Fate::Dropped }
        }
        Some(_) if options.keep_last || options.replace => Fate::Held,
        Some(_) => Fate::Dropped,
    };
    (fate, *id)
}

/// The bytes of what a push takes the place of.
fn makes_room(queue: &Queue, key: &[u8], fate: Fate, id: JobId) -> u64 {
    match fate {
        Fate::Replaced => queue.job(id).map_or(0, |job| job.size()),
        Fate::Held => {
            let held = queue.dedup.find(key).and_then(|(_, owner)| owner.held.as_deref());
            held.map_or(0, |held| held.payload.len() as u64)
        }
        Fate::Stored | Fate::Dropped => 0,
    }
}

/// Back-pressure: whether there is room for what a push would add. It is asked before anything is
/// changed, also before the due work, so that a refusal changes nothing.
pub(crate) fn admit(queue: &Queue, payloads: &[&[u8]], dedup: Option<&DedupOptions<'_>>, turn: &Turn<'_>) -> Result<(), Error> {
    if let Some(pause) = Pause::on(queue.head.paused_in.as_deref(), turn.now) {
        return Err(Error::paused(pause));
    }
    if let Some(payload) = payloads.iter().find(|payload| payload.len() > turn.max_payload) {
        return Err(Error::too_big("the payload", payload.len(), turn.max_payload));
    }
    let (max_jobs, max_bytes) = queue.head.policy.max_live();
    if max_jobs.is_none() && max_bytes.is_none() {
        return Ok(());
    }
    let (mut jobs, mut bytes, mut freed, mut batch) = (0u64, 0u64, 0u64, BTreeSet::new());
    for (n, payload) in payloads.iter().enumerate() {
        let key = dedup.and_then(|dedup| Some((dedup, *dedup.keys.get(n)?)));
        let fate = match key {
            None => Fate::Stored,
            Some((_, key)) if !batch.insert(key) => Fate::Dropped,
            Some((dedup, key)) => {
                let (fate, id) = fate(queue, key, dedup, turn.now);
                freed = freed.saturating_add(makes_room(queue, key, fate, id));
                fate
            }
        };
        jobs = jobs.saturating_add(u64::from(fate == Fate::Stored));
        bytes = bytes.saturating_add(if fate == Fate::Dropped { 0 } else { payload.len() as u64 });
    }
    let (live, held) = (queue.live(), queue.live_bytes());
    if max_jobs.is_some_and(|max| jobs > 0 && live.saturating_add(jobs) > max) {
        return Err(Error::full("jobs", live, "MAXLIVE", max_jobs));
    }
    if max_bytes.is_some_and(|max| bytes > freed && held.saturating_sub(freed).saturating_add(bytes) > max) {
        return Err(Error::full("bytes", held, "MAXLIVEBYTES", max_bytes));
    }
    Ok(())
}

impl Run<'_, '_> {
    pub(crate) fn push(
        &mut self,
        payloads: &[&[u8]],
        many: bool,
        options: &JobOptions,
        ties: &Ties<'_>,
        out: &mut dyn Sink,
    ) {
        if many {
            out.array(payloads.len());
        }
        let Ties { group, dedup } = *ties;
        let mut text = IdText::new();
        for (n, payload) in payloads.iter().enumerate() {
            let key = dedup.and_then(|dedup| Some((dedup, *dedup.keys.get(n)?)));
            let (id, code) = match key {
                None => (self.push_new(payload, options, group, None), Fate::Stored),
                Some((dedup, key)) => self.push_deduped(payload, options, group, &dedup, key),
            };
            if dedup.is_some() {
                out.array(2);
            }
            out.bulk(id.write(&mut text));
            if dedup.is_some() {
                out.int(code as i64);
            }
        }
    }

    fn push_new(&mut self, payload: &[u8], options: &JobOptions, group: Option<&[u8]>, dedup: Option<DedupKey<'_>>) -> JobId {
        let now = self.now();
        let at = options.when.at(now);
        let id = self.queue.head.last_id.next(now);
        let contents = Contents { due: (at > now).then_some(at), options: *options, group, dedup, payload };
        self.commit(&Op::Push { id, contents });
        id
    }

    fn push_deduped(
        &mut self,
        payload: &[u8],
        options: &JobOptions,
        group: Option<&[u8]>,
        dedup: &DedupOptions<'_>,
        key: &[u8],
    ) -> (JobId, Fate) {
        let now = self.now();
        let op_key = DedupKey { key, window_ms: dedup.window_ms };
        let (fate, id) = fate(self.queue, key, dedup, now);
        let at = options.when.at(now);
        match fate {
            Fate::Stored => return (self.push_new(payload, options, group, Some(op_key)), fate),
            Fate::Dropped => self.effects.refused_duplicate(),
            Fate::Held => {
                let due = (at > now).then_some(at);
                let contents = Contents { due, options: *options, group, dedup: Some(op_key), payload };
                if self.queue.dedup.find(key).is_some_and(|(_, owner)| owner.holds(&contents)) {
                    self.effects.refused_duplicate();
                } else {
                    self.commit(&Op::Hold { contents });
                }
            }
            Fate::Replaced => {
                // Replacing may put the job off, but not past MAXWAIT after the first push.
                let at = match dedup.max_wait_ms {
                    Some(ms) => at.min(id.ms.saturating_add(ms)),
                    None => at,
                };
                let job = self.queue.job(id);
                let job = job.as_ref();
                let ready = job.is_some_and(|job| job.state == State::Ready);
                let due = match at {
                    at if at > now => Some(Due::Delayed(at)).filter(|_| ready || job.is_some_and(|job| job.place != at)),
                    _ if ready => None,
                    _ => Some(Due::Ready(now)),
                };
                let same = job.is_some_and(|job| job.priority == options.priority && *job.payload == *payload);
                let window = self.queue.dedup.find(key).is_some_and(|(_, owner)| owner.renewed(dedup.window_ms, now) != owner.until);
                if same && due.is_none() && !window {
                    self.effects.refused_duplicate();
                } else {
                    self.commit(&Op::Replace { id, priority: options.priority, due, window_ms: dedup.window_ms, payload });
                }
            }
        }
        (id, fate)
    }

    /// Sets the options that differ from what they are.
    pub(crate) fn set_policy(&mut self, settings: &[Setting]) {
        for setting in settings {
            if !self.queue.head.policy.has(setting) {
                self.commit(&Op::Policy(*setting));
            }
        }
    }
}
