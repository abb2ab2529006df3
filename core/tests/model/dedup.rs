//! The reference's dedup keys.

use super::job::Job;
use super::op::{Dedup, Id, JobOptions, State};
use super::queue::Reference;

/// A key and who has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub name: Vec<u8>,
    pub owner: Id,
    /// The end of its window; 0: as long as the owner lives.
    pub until: u64,
    pub held: Option<Held>,
}

/// The newest duplicate behind an owner that was delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub payload: Vec<u8>,
    /// When it was to be due, if later than when it was pushed.
    pub due: Option<u64>,
    pub window: u64,
    pub options: JobOptions,
}

/// What becomes of a push.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    Dropped = 0,
    Stored = 1,
    Replaced = 2,
    Held = 3,
}

fn lives(job: &Job) -> bool {
    !matches!(job.state, State::Dead | State::Done)
}

impl Reference {
    /// Who has a key at `now`.
    pub fn owner(&self, name: &[u8], now: u64) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name && (key.until == 0 || key.until > now || key.held.is_some()))
    }

    pub fn fate(&self, name: &[u8], dedup: &Dedup, now: u64) -> (Fate, Id) {
        let Some(key) = self.owner(name, now) else { return (Fate::Stored, (0, 0)) };
        let fate = match self.jobs.iter().find(|job| job.id == key.owner && lives(job)) {
            None => Fate::Dropped,
            Some(job) if job.waits() && job.first_delivered.is_none() && dedup.replace => Fate::Replaced,
            Some(job) if job.waits() && job.first_delivered.is_none() => Fate::Dropped,
            Some(_) if dedup.keep_last || dedup.replace => Fate::Held,
            Some(_) => Fate::Dropped,
        };
        (fate, key.owner)
    }

    pub fn held_bytes(&self) -> u64 {
        self.keys.iter().filter_map(|key| key.held.as_ref()).map(|held| held.payload.len() as u64).sum()
    }

    /// Pushes under a key: the winner and the code.
    pub fn push_as(&mut self, now: u64, payload: &[u8], due: u64, options: &JobOptions, dedup: &Dedup, name: &[u8]) -> (Id, i64) {
        let window = dedup.window.unwrap_or(0);
        let (fate, id) = self.fate(name, dedup, now);
        match fate {
            Fate::Dropped => {}
            Fate::Stored => return (self.push_owner(now, payload, due, options, name, window), 1),
            Fate::Held => {
                let own = JobOptions { when: None, priority: Some(options.priority.unwrap_or(0)), ..options.clone() };
                let held = Held { payload: payload.to_vec(), due: Some(due).filter(|due| *due > now), window, options: own };
                if let Some(key) = self.keys.iter_mut().find(|key| key.name == name) {
                    key.held = Some(held);
                }
            }
            Fate::Replaced => {
                let due = dedup.max_wait.map_or(due, |most| due.min(id.0 + most)).max(now);
                let n = self.jobs.iter().position(|job| job.id == id).unwrap();
                let job = &mut self.jobs[n];
                job.payload = payload.to_vec();
                job.priority = options.priority.unwrap_or(0);
                if due > now || job.state == State::Delayed {
                    job.first_due = due;
                    self.wait(n, now, due);
                }
                self.settle_turns();
                if let Some(key) = self.keys.iter_mut().find(|key| key.name == name && key.until > 0 && window > 0) {
                    key.until = now + window;
                }
            }
        }
        (id, fate as i64)
    }

    pub fn push_owner(&mut self, now: u64, payload: &[u8], due: u64, options: &JobOptions, name: &[u8], window: u64) -> Id {
        let id = self.push(now, payload.to_vec(), due, options);
        self.jobs.last_mut().unwrap().dedup = Some((name.to_vec(), window));
        self.keys.retain(|key| key.name != name);
        let until = if window > 0 { now + window } else { 0 };
        self.keys.push(Key { name: name.to_vec(), owner: id, until, held: None });
        id
    }

    /// A job has ended: what was held behind it follows, or its key is free.
    pub fn ended(&mut self, now: u64, id: Id, deleted: bool) {
        let Some(n) = self.keys.iter().position(|key| key.owner == id) else { return };
        if let Some(held) = self.keys[n].held.take() {
            let name = self.keys.remove(n).name;
            if held.options.group.is_some() {
                self.notes.seen.push("a held duplicate came with its group");
            }
            self.push_owner(now, &held.payload, held.due.unwrap_or(now).max(now), &held.options, &name, held.window);
        } else if self.keys[n].until == 0 || deleted {
            self.keys.remove(n);
        }
    }

    /// Whether a dead job's key is another's now; its own it was only without a window.
    pub fn key_is_taken(&self, id: Id, now: u64) -> bool {
        let job = self.jobs.iter().find(|job| job.id == id);
        let Some((name, 0)) = job.and_then(|job| job.dedup.as_ref()) else { return false };
        self.owner(name, now).is_some_and(|key| key.owner != id)
    }

    /// A redriven job has its key again, if nobody else has.
    pub fn take_key_back(&mut self, id: Id, now: u64) {
        let Some((name, 0)) = self.job(id).and_then(|job| job.dedup.clone()) else { return };
        if self.owner(&name, now).is_none() {
            self.keys.retain(|key| key.name != name);
            self.keys.push(Key { name, owner: id, until: 0, held: None });
        }
    }

    pub fn delete_by_key(&mut self, now: u64, name: &[u8]) -> bool {
        let Some(id) = self.owner(name, now).map(|key| key.owner) else { return false };
        if self.delete(now, id) {
            return true;
        }
        self.keys.retain(|key| key.name != name);
        false
    }
}
