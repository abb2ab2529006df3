//! Which queue has something to do when, by database and key.
//!
//! A hint, and no more: when an entry's time has come, its key is opened and looked at, and an
//! entry without a queue behind it is dropped. An entry may be too early, which costs a look; it
//! must not be too late, or a job would be. So whoever brings a queue under a key tells this, a
//! queue that was missed all the same is found by a slow sweep, and a time that has become later
//! is corrected only when it comes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use rq_core::Local;

/// Look at once: what is known may be wrong.
const SOON: u64 = 0;

/// What the index has been told of one queue. It is kept with the queue, so that a command that
/// has nothing new to tell need not look anything up.
pub struct Told(Cell<u64>);

impl Told {
    const NOTHING: u64 = u64::MAX;
    const NEVER: u64 = u64::MAX - 1;

    /// The index may know nothing of the queue under the key that it has now.
    pub fn nothing(&self) {
        self.0.set(Told::NOTHING);
    }

    fn time(at: Option<u64>) -> u64 {
        at.map_or(Told::NEVER, |at| at.min(Told::NEVER))
    }
}

impl Default for Told {
    fn default() -> Told {
        Told(Cell::new(Told::NOTHING))
    }
}

/// See the module.
#[derive(Default)]
pub struct Index {
    known: BTreeMap<i32, HashMap<Rc<[u8]>, Entry>>,
    times: BTreeSet<(u64, i32, Rc<[u8]>)>,
    /// What is being loaded beside the data that are served; it will replace them.
    beside: Option<Box<Index>>,
}

#[derive(Default)]
struct Entry {
    /// When it is to be looked at, Unix ms.
    at: Option<u64>,
    /// Figures of this process.
    local: Local,
}

impl Index {
    /// The queue under this key is to be looked at at this time, not earlier.
    pub fn set(&mut self, db: i32, key: &[u8], at: Option<u64>) {
        let queues = self.known.entry(db).or_default();
        let Some((key, entry)) = queues.get_key_value(key) else {
            let key: Rc<[u8]> = Rc::from(key);
            queues.insert(Rc::clone(&key), Entry { at, local: Local::default() });
            if let Some(at) = at {
                self.times.insert((at, db, key));
            }
            return;
        };
        if entry.at == at {
            return;
        }
        let key = Rc::clone(key);
        let before = queues.get_mut(&key).and_then(|entry| std::mem::replace(&mut entry.at, at));
        if let Some(before) = before {
            self.times.remove(&(before, db, Rc::clone(&key)));
        }
        if let Some(at) = at {
            self.times.insert((at, db, key));
        }
    }

    /// The queue under this key was looked at: it is to be looked at again at this time.
    pub fn correct(&mut self, db: i32, key: &[u8], told: &Told, at: Option<u64>) {
        self.set(db, key, at);
        told.0.set(Told::time(at));
    }

    /// The queue under this key is to be looked at at this time; an earlier one that is known
    /// already stands. Whether that was news.
    pub fn learn(&mut self, db: i32, key: &[u8], told: &Told, at: Option<u64>) -> bool {
        let time = Told::time(at);
        if told.0.get() <= time {
            return false;
        }
        let known = self.known.get(&db).and_then(|queues| queues.get(key));
        let stands = match (known, at) {
            (Some(entry), Some(at)) => entry.at.is_some_and(|known| known <= at),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !stands {
            self.set(db, key, at);
        }
        told.0.set(time);
        true
    }

    /// A queue was loaded from a file or a payload.
    pub fn loaded(&mut self, db: i32, key: &[u8]) {
        match &mut self.beside {
            Some(beside) => beside.set(db, key, Some(SOON)),
            None => self.set(db, key, Some(SOON)),
        }
    }

    /// Something has happened to a key: look, if there was a queue.
    pub fn doubt(&mut self, db: i32, key: &[u8]) {
        if self.contains(db, key) {
            self.set(db, key, Some(SOON));
        }
    }

    /// Something has happened to many keys.
    pub fn doubt_all(&mut self) {
        let known = self.known.iter().flat_map(|(db, queues)| queues.keys().map(|key| (*db, Rc::clone(key))));
        for (db, key) in known.collect::<Vec<_>>() {
            self.set(db, &key, Some(SOON));
        }
    }

    /// Whether a queue is known under this key.
    pub fn contains(&self, db: i32, key: &[u8]) -> bool {
        self.known.get(&db).is_some_and(|queues| queues.contains_key(key))
    }

    /// There is no queue under this key.
    pub fn forget(&mut self, db: i32, key: &[u8]) {
        let Some(queues) = self.known.get_mut(&db) else { return };
        if let Some((key, entry)) = queues.remove_entry(key) {
            if let Some(at) = entry.at {
                self.times.remove(&(at, db, key));
            }
        }
        if queues.is_empty() {
            self.known.remove(&db);
        }
    }

    /// When the next entry is due.
    pub fn first(&self) -> Option<u64> {
        self.times.first().map(|(at, ..)| *at)
    }

    /// The earliest entry, if it is due. Until it is set anew it stays in as due a second later:
    /// should the look at it fail, it must neither be lost nor be in everyone's way.
    pub fn take_due(&mut self, now: u64) -> Option<(i32, Rc<[u8]>)> {
        let (at, db, key) = self.times.first()?;
        if *at > now {
            return None;
        }
        let (db, key) = (*db, Rc::clone(key));
        self.set(db, &key, Some(now.saturating_add(1_000)));
        Some((db, key))
    }

    /// A queue of which what is known may be wrong. It stays in until it is set anew.
    pub fn doubtful(&self) -> Option<(i32, Rc<[u8]>)> {
        let (at, db, key) = self.times.first()?;
        (*at == SOON).then(|| (*db, Rc::clone(key)))
    }

    /// How many queues are known.
    pub fn len(&self) -> usize {
        self.known.values().map(HashMap::len).sum()
    }

    /// Counts for a queue.
    pub fn count(&mut self, db: i32, key: &[u8], count: impl FnOnce(&mut Local)) {
        if !self.contains(db, key) {
            self.set(db, key, Some(SOON));
        }
        if let Some(entry) = self.known.get_mut(&db).and_then(|queues| queues.get_mut(key)) {
            count(&mut entry.local);
        }
    }

    /// The figures of a queue.
    pub fn local(&self, db: i32, key: &[u8]) -> Local {
        self.known.get(&db).and_then(|queues| queues.get(key)).map_or_else(Local::default, |entry| entry.local)
    }

    /// Some of the known queues of all databases, in no order.
    pub fn some(&self, max: usize) -> Vec<(i32, Rc<[u8]>)> {
        let all = self.known.iter().flat_map(|(db, queues)| queues.keys().map(|key| (*db, Rc::clone(key))));
        all.take(max).collect()
    }

    /// Known queues of a database, in no order.
    pub fn keys(&self, db: i32) -> Vec<Rc<[u8]>> {
        self.known.get(&db).map_or_else(Vec::new, |queues| queues.keys().map(Rc::clone).collect())
    }

    /// A database was emptied; all of them below 0.
    pub fn flushed(&mut self, db: i32) {
        if db < 0 {
            self.known.clear();
            self.times.clear();
        } else if self.known.remove(&db).is_some() {
            self.times.retain(|(_, of, _)| *of != db);
        }
    }

    /// Two databases have changed places.
    pub fn swapped(&mut self, a: i32, b: i32) {
        let (of_a, of_b) = (self.known.remove(&a), self.known.remove(&b));
        self.times.retain(|(_, db, _)| *db != a && *db != b);
        for (db, queues) in [(a, of_b), (b, of_a)] {
            let Some(queues) = queues else { continue };
            for (key, entry) in &queues {
                if let Some(at) = entry.at {
                    self.times.insert((at, db, Rc::clone(key)));
                }
            }
            self.known.insert(db, queues);
        }
    }

    /// From now on what is loaded is not yet served.
    pub fn begin_beside(&mut self) {
        self.beside = Some(Box::default());
    }

    /// What was loaded is served from now on, or was dropped.
    pub fn end_beside(&mut self, served: bool) {
        if let (Some(beside), true) = (self.beside.take(), served) {
            *self = *beside;
        }
    }
}
