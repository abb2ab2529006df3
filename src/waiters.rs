//! Who waits for what: for something to lease at some keys, or for the end of a job.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use rq_core::{End, JobId, Waiter};

use crate::api::{Blocked, WaiterId};

/// What a client waits for.
#[derive(Clone)]
pub enum Want {
    /// Something to lease.
    Lease(Rc<Waiter>),
    /// The end of this job.
    End(JobId),
}

/// One waiting client.
pub struct Waiting {
    /// The database it is in.
    pub db: i32,
    /// The keys that it waits for, in the order given.
    pub keys: Vec<Rc<[u8]>>,
    /// None for moments: when it is being blocked.
    pub blocked: Option<Blocked>,
    /// The number of the client.
    pub client: u64,
    /// What it waits for.
    pub want: Want,
    deadline_us: Option<u64>,
    /// It has got its reply.
    pub served: bool,
    /// What it has got.
    pub granted: Option<Grant>,
}

/// What a client has got.
pub struct Grant {
    /// The queue's key.
    pub key: Rc<[u8]>,
    /// Ids and tokens.
    pub leases: Vec<(JobId, u64)>,
}

/// Leases to be given back.
pub struct Lost {
    /// The queue's database.
    pub db: i32,
    /// The queue's key.
    pub key: Rc<[u8]>,
    /// Who got them, and no reply.
    pub client: u64,
    /// Ids and tokens.
    pub leases: Vec<(JobId, u64)>,
}

/// Those who wait at one key.
#[derive(Default)]
struct Line {
    /// For something to lease, in the order of their coming, which is that of their numbers.
    lease: BTreeSet<WaiterId>,
    /// For the end of jobs.
    ends: BTreeSet<(JobId, WaiterId)>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.lease.is_empty() && self.ends.is_empty()
    }
}

/// Waiting clients.
#[derive(Default)]
pub struct Waiters {
    last_id: WaiterId,
    by_id: HashMap<WaiterId, Waiting>,
    lines: BTreeMap<i32, HashMap<Rc<[u8]>, Line>>,
    /// Monotonic µs, and who is to be let go then.
    deadlines: BTreeSet<(u64, WaiterId)>,
    /// Keys at which there may be something for those who wait.
    marked: BTreeSet<(i32, Rc<[u8]>)>,
    /// What was given to clients that are gone.
    lost: Vec<Lost>,
    /// Ends of jobs that are still to be told.
    ends: Vec<Ends>,
}

/// Ends of jobs of one key.
pub struct Ends {
    /// The queue's database.
    pub db: i32,
    /// The queue's key.
    pub key: Rc<[u8]>,
    /// The jobs, and how they ended.
    pub ends: Vec<(JobId, End)>,
}

impl Waiters {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many wait for something to lease at a key.
    pub fn count(&self, db: i32, key: &[u8]) -> usize {
        self.line(db, key).map_or(0, |line| line.lease.len())
    }

    /// Whether anybody waits for something to lease at a key.
    pub fn wait_for(&self, db: i32, key: &[u8]) -> bool {
        !self.lines.is_empty() && self.line(db, key).is_some_and(|line| !line.lease.is_empty())
    }

    /// Whether anybody waits for the end of a job of a key.
    pub fn watch(&self, db: i32, key: &[u8]) -> bool {
        !self.lines.is_empty() && self.line(db, key).is_some_and(|line| !line.ends.is_empty())
    }

    fn line(&self, db: i32, key: &[u8]) -> Option<&Line> {
        self.lines.get(&db)?.get(key)
    }

    /// Lets the next tick see whether there is something for those who wait at a key.
    pub fn mark(&mut self, db: i32, key: &[u8]) {
        if let Some((key, _)) = self.lines.get(&db).and_then(|lines| lines.get_key_value(key)) {
            self.marked.insert((db, Rc::clone(key)));
        }
    }

    /// The same for all keys that anybody waits at.
    pub fn mark_all(&mut self) {
        for (db, lines) in &self.lines {
            self.marked.extend(lines.keys().map(|key| (*db, Rc::clone(key))));
        }
    }

    /// One of the marked keys.
    pub fn take_marked(&mut self) -> Option<(i32, Rc<[u8]>)> {
        self.marked.pop_first()
    }

    /// Leases were given to a client that is gone.
    pub fn lose(&mut self, lost: Lost) {
        self.lost.push(lost);
    }

    /// Some of what is to be given back.
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.lost.pop()
    }

    /// Ends of jobs are to be told later.
    pub fn tell_later(&mut self, ends: Ends) {
        self.ends.push(ends);
    }

    /// Some of the ends that are to be told.
    pub fn take_ends(&mut self) -> Option<Ends> {
        self.ends.pop()
    }

    /// Whether the tick has something to do for waiters.
    pub fn need_tick(&self) -> bool {
        !self.marked.is_empty() || !self.lost.is_empty() || !self.ends.is_empty()
    }

    /// When the next one is to be let go, in monotonic µs.
    pub fn first_deadline_us(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// One whose time is over at `now_us`: it does not wait any more.
    pub fn take_expired(&mut self, now_us: u64) -> Option<WaiterId> {
        let (_, id) = self.deadlines.first().copied().filter(|(at, _)| *at <= now_us)?;
        self.leave(id);
        Some(id)
    }

    /// One more waits.
    pub fn enter(&mut self, db: i32, keys: &[&[u8]], client: u64, want: Want, deadline_us: Option<u64>) -> WaiterId {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let id = self.last_id;
        let lines = self.lines.entry(db).or_default();
        let mut shared = Vec::with_capacity(keys.len());
        for key in keys {
            let key = match lines.get_key_value(*key) {
                Some((key, _)) => Rc::clone(key),
                None => Rc::from(*key),
            };
            let line = lines.entry(Rc::clone(&key)).or_default();
            match want {
                Want::Lease(_) => line.lease.insert(id),
                Want::End(job) => line.ends.insert((job, id)),
            };
            shared.push(key);
        }
        if let Some(at) = deadline_us {
            self.deadlines.insert((at, id));
        }
        let waiting = Waiting { db, keys: shared, blocked: None, client, want, deadline_us, served: false, granted: None };
        self.by_id.insert(id, waiting);
        id
    }

    /// Takes a client out of all lines: nobody serves it any more.
    pub fn leave(&mut self, id: WaiterId) {
        let Some(waiting) = self.by_id.get_mut(&id) else { return };
        if let Some(at) = waiting.deadline_us.take() {
            self.deadlines.remove(&(at, id));
        }
        let Some(lines) = self.lines.get_mut(&waiting.db) else { return };
        for key in &waiting.keys {
            let Some(line) = lines.get_mut(key) else { continue };
            match waiting.want {
                Want::Lease(_) => line.lease.remove(&id),
                Want::End(job) => line.ends.remove(&(job, id)),
            };
            if line.is_empty() {
                lines.remove(key);
            }
        }
        if lines.is_empty() {
            self.lines.remove(&waiting.db);
        }
    }

    /// Forgets a client.
    pub fn remove(&mut self, id: WaiterId) -> Option<Waiting> {
        self.leave(id);
        self.by_id.remove(&id)
    }

    /// A client.
    pub fn get(&self, id: WaiterId) -> Option<&Waiting> {
        self.by_id.get(&id)
    }

    /// A client.
    pub fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiting> {
        self.by_id.get_mut(&id)
    }

    /// Who is next to get something to lease at a key.
    pub fn next(&self, db: i32, key: &[u8]) -> Option<(WaiterId, Blocked, Rc<Waiter>)> {
        let id = *self.line(db, key)?.lease.first()?;
        let waiting = self.by_id.get(&id)?;
        match &waiting.want {
            Want::Lease(waiter) => Some((id, waiting.blocked?, Rc::clone(waiter))),
            Want::End(_) => None,
        }
    }

    /// The keys at which somebody waits for the end of a job.
    pub fn watched_keys(&self) -> Vec<(i32, Rc<[u8]>)> {
        let of = |(db, lines): (&i32, &HashMap<Rc<[u8]>, Line>)| {
            let watched = lines.iter().filter(|(_, line)| !line.ends.is_empty());
            watched.map(|(key, _)| (*db, Rc::clone(key))).collect::<Vec<_>>()
        };
        self.lines.iter().flat_map(of).collect()
    }

    /// Who waits for the end of a job.
    pub fn watchers(&self, db: i32, key: &[u8], job: JobId) -> Vec<WaiterId> {
        let Some(line) = self.line(db, key) else { return Vec::new() };
        line.ends.range((job, 0)..=(job, WaiterId::MAX)).map(|(_, id)| *id).collect()
    }

    /// The jobs of a key whose end somebody waits for.
    pub fn watched(&self, db: i32, key: &[u8]) -> Vec<JobId> {
        let Some(line) = self.line(db, key) else { return Vec::new() };
        let mut jobs: Vec<JobId> = line.ends.iter().map(|(job, _)| *job).collect();
        jobs.dedup();
        jobs
    }
}
