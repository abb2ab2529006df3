//! A primary with its AOF and a replica, and what of the past each of them has.

use std::collections::VecDeque;

use super::ledger::Ledger;
use super::node::{Node, Step};

/// One step of the timeline: what changed, and how all was after it.
struct Entry {
    batches: Vec<Vec<u8>>,
    digest: u64,
    ledger: Ledger,
}

/// The files of the primary: a whole queue at one position, and the batches after it.
struct Disk {
    base: Vec<Vec<u8>>,
    base_at: u64,
    tail: VecDeque<(u64, Vec<Vec<u8>>)>,
    /// What is on the disk for sure.
    synced: u64,
}

pub struct Cluster {
    pub primary: Node,
    pub replica: Node,
    /// What the monotonic clocks of both show.
    pub true_us: u64,
    disk: Disk,
    /// The timeline from position `first` on.
    log: VecDeque<Entry>,
    first: u64,
    /// What the replica has applied; None: it is cut off, and needs a whole copy.
    replicated: Option<u64>,
}

impl Cluster {
    /// Begins with what the primary has now, which is on the disk and on the replica.
    pub fn new(primary: Node, replica: Node, ledger: Ledger, true_us: u64) -> Result<Cluster, String> {
        let entry = Entry { batches: Vec::new(), digest: primary.digest(), ledger };
        let disk = Disk { base: primary.parts(), base_at: 0, tail: VecDeque::new(), synced: 0 };
        let mut cluster = Cluster { primary, replica, true_us, disk, log: VecDeque::from([entry]), first: 0, replicated: None };
        cluster.full_sync(true)?;
        Ok(cluster)
    }

    fn last(&self) -> u64 {
        self.first + self.log.len() as u64 - 1
    }

    fn entry(&self, at: u64) -> &Entry {
        &self.log[usize::try_from(at - self.first).expect("a position")]
    }

    /// The primary did a step: it is written to the AOF and sent to the replica.
    pub fn record(&mut self, step: &Step, ledger: &Ledger) {
        if step.batches.is_empty() {
            // What was judged stays judged, e.g. that a lease was refused: nothing to go back to.
            return;
        }
        self.log.push_back(Entry { batches: step.batches.clone(), digest: self.primary.digest(), ledger: ledger.clone() });
        let last = self.last();
        self.disk.tail.push_back((last, step.batches.clone()));
        self.forget();
    }

    /// What is on disk and replica will not be gone back to.
    fn forget(&mut self) {
        let keep = self.disk.synced.min(self.replicated.unwrap_or(u64::MAX));
        while self.first < keep {
            self.log.pop_front();
            self.first += 1;
        }
    }

    pub fn fsync(&mut self) {
        self.disk.synced = self.last();
        self.forget();
    }

    /// Writes the AOF anew.
    pub fn rewrite(&mut self) {
        self.disk = Disk { base: self.primary.parts(), base_at: self.last(), tail: VecDeque::new(), synced: self.last() };
        self.forget();
    }

    /// The replica gets up to so many steps. It must be what the primary was after each.
    pub fn replicate(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            let Some(at) = self.replicated.filter(|at| *at < self.last()).map(|at| at + 1) else { break };
            let entry = &self.log[usize::try_from(at - self.first).expect("a position")];
            for batch in &entry.batches {
                self.replica.apply(batch, self.true_us).map_err(|error| format!("on the replica: {error}"))?;
            }
            if self.replica.digest() != entry.digest {
                return Err("the replica has the same batches and is not the same".to_string());
            }
            self.replicated = Some(at);
        }
        self.forget();
        Ok(())
    }

    pub fn lag(&self) -> Option<u64> {
        self.replicated.map(|at| self.last() - at)
    }

    /// The replica loses its connection for so long that it needs a whole copy.
    pub fn cut_off(&mut self) {
        self.replicated = None;
    }

    /// The replica gets a whole copy.
    pub fn full_sync(&mut self, strictly: bool) -> Result<(), String> {
        self.replica.load(&self.primary.parts(), strictly, self.true_us).map_err(|error| format!("full sync: {error}"))?;
        self.replicated = Some(self.last());
        self.same_as(self.last(), &self.replica, "the replica after a full sync")
    }

    fn same_as(&self, at: u64, node: &Node, who: &str) -> Result<(), String> {
        match node.digest() == self.entry(at).digest {
            true => node.check(),
            false => Err(format!("{who} is not what was saved")),
        }
    }

    /// The primary dies and starts again from its disk: what was not synced is gone. Returns
    /// what is true then.
    pub fn restart(&mut self, strictly: bool) -> Result<Ledger, String> {
        let synced = self.disk.synced;
        self.disk.tail.retain(|(at, _)| *at <= synced);
        self.primary.load(&self.disk.base, strictly, self.true_us).map_err(|error| format!("loading the file: {error}"))?;
        for (at, batches) in self.disk.tail.iter().filter(|(at, _)| *at > self.disk.base_at) {
            for batch in batches {
                self.primary.apply(batch, self.true_us).map_err(|error| format!("replaying step {at}: {error}"))?;
            }
        }
        self.same_as(synced, &self.primary, "the queue after the restart")?;
        self.back_to(synced);
        // A primary that starts anew has another history: nobody can go on with the old one.
        self.cut_off();
        Ok(self.entry(synced).ledger.clone())
    }

    /// The primary is loaded out of its own snapshot, losing nothing.
    pub fn reload(&mut self, strictly: bool) -> Result<(), String> {
        let parts = self.primary.parts();
        self.primary.load(&parts, strictly, self.true_us).map_err(|error| format!("reload: {error}"))?;
        self.same_as(self.last(), &self.primary, "the queue after the reload")
    }

    /// The replica takes over: what it did not get is gone. None: there is no replica to do so.
    pub fn fail_over(&mut self) -> Option<Ledger> {
        let at = self.replicated?;
        self.back_to(at);
        std::mem::swap(&mut self.primary, &mut self.replica);
        self.cut_off();
        self.rewrite();
        Some(self.entry(at).ledger.clone())
    }

    fn back_to(&mut self, at: u64) {
        self.log.truncate(usize::try_from(at - self.first).expect("a position") + 1);
    }

    /// At the end: primary and replica are the same, byte for byte.
    pub fn must_be_equal(&mut self) -> Result<(), String> {
        if self.replicated.is_none() {
            self.full_sync(true)?;
        }
        self.replicate(u64::MAX)?;
        match self.primary.parts() == self.replica.parts() {
            true => Ok(()),
            false => Err("primary and replica differ at the end".to_string()),
        }
    }
}
