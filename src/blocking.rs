//! Clients that wait for a job, and how they get one.
//!
//! Each is blocked on its key in the server's books, for redirects, role changes and CLIENT
//! UNBLOCK, and stands in a queue of our own by (database, key), which chooses who is next: the
//! server's own signal would wake all of them. Waiters come before newcomers.
//!
//! The life of one: [`wait`], then one of
//! - [`hand_out`]: it gets leases. The reply is written, then the client is let go, upon which
//!   the server calls [`let_go`]: there is nothing more to say then.
//! - its time is over ([`expire`]), or CLIENT UNBLOCK: [`let_go`] writes the empty reply.
//! - it is gone, or was answered by the server with an error: [`gone`].
//!
//! and in each case [`freed`] at last. A grant whose client was gone by then is given back in the
//! next tick. The time to wait is kept here, not by the server: Redis 7.0 handles its timeouts
//! before it delivers replies, so a client that got a job in the last moment would get no reply
//! at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use rq_core::{Effects, JobId, Queue, Turn, Waiter, BATCH_ROOM, MAX_BATCH};

use crate::api::{Blocked, Ctx, Str, WaiterId};
use crate::node::{add, Node};
use crate::sink::Reply;
use crate::timer;

/// How many waiters are served in one go; the tick goes on with the others.
const MAX_GRANTS: usize = 128;

/// Waiting clients.
#[derive(Default)]
pub struct Waiters {
    last_id: WaiterId,
    by_id: HashMap<WaiterId, Waiting>,
    /// Who waits for a key, in the order of their coming, which is that of their numbers.
    queues: BTreeMap<i32, HashMap<Rc<[u8]>, BTreeSet<WaiterId>>>,
    /// Monotonic µs, and who is to be let go then.
    deadlines: BTreeSet<(u64, WaiterId)>,
    /// Keys at which there may be something for those who wait.
    marked: BTreeSet<(i32, Rc<[u8]>)>,
    /// What was given to clients that are gone.
    lost: Vec<Lost>,
}

struct Waiting {
    db: i32,
    key: Rc<[u8]>,
    /// None for moments: when it is being blocked, or served.
    blocked: Option<Blocked>,
    client: u64,
    waiter: Rc<Waiter>,
    deadline_us: Option<u64>,
    /// What it has got.
    granted: Vec<(JobId, u64)>,
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

impl Waiters {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many wait for a key.
    pub fn count(&self, db: i32, key: &[u8]) -> usize {
        self.queue(db, key).map_or(0, BTreeSet::len)
    }

    /// Whether anybody waits for a key.
    pub fn wait_for(&self, db: i32, key: &[u8]) -> bool {
        !self.queues.is_empty() && self.queue(db, key).is_some()
    }

    fn queue(&self, db: i32, key: &[u8]) -> Option<&BTreeSet<WaiterId>> {
        self.queues.get(&db)?.get(key)
    }

    /// Lets the next tick see whether there is something for those who wait for a key.
    pub fn mark(&mut self, db: i32, key: &[u8]) {
        if let Some((key, _)) = self.queues.get(&db).and_then(|queues| queues.get_key_value(key)) {
            self.marked.insert((db, Rc::clone(key)));
        }
    }

    /// The same for all keys that anybody waits for.
    pub fn mark_all(&mut self) {
        for (db, queues) in &self.queues {
            self.marked.extend(queues.keys().map(|key| (*db, Rc::clone(key))));
        }
    }

    /// One of the marked keys.
    pub fn take_marked(&mut self) -> Option<(i32, Rc<[u8]>)> {
        self.marked.pop_first()
    }

    /// Some of what is to be given back.
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.lost.pop()
    }

    /// Whether the tick has something to do for waiters.
    pub fn need_tick(&self) -> bool {
        !self.marked.is_empty() || !self.lost.is_empty()
    }

    /// When the next one is to be let go, in monotonic µs.
    pub fn first_deadline_us(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn enter(&mut self, (db, key): (i32, &[u8]), client: u64, waiter: Waiter, deadline_us: Option<u64>) -> WaiterId {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let id = self.last_id;
        let queues = self.queues.entry(db).or_default();
        let key = match queues.get_key_value(key) {
            Some((key, _)) => Rc::clone(key),
            None => Rc::from(key),
        };
        queues.entry(Rc::clone(&key)).or_default().insert(id);
        if let Some(at) = deadline_us {
            self.deadlines.insert((at, id));
        }
        let waiting = Waiting { db, key, blocked: None, client, waiter: Rc::new(waiter), deadline_us, granted: Vec::new() };
        self.by_id.insert(id, waiting);
        id
    }

    /// Takes a client out of its queue: nobody serves it any more.
    fn leave(&mut self, id: WaiterId) {
        let Some(waiting) = self.by_id.get_mut(&id) else { return };
        if let Some(at) = waiting.deadline_us.take() {
            self.deadlines.remove(&(at, id));
        }
        let Some(queues) = self.queues.get_mut(&waiting.db) else { return };
        if let Some(queue) = queues.get_mut(&waiting.key) {
            queue.remove(&id);
            if queue.is_empty() {
                queues.remove(&waiting.key);
            }
        }
        if queues.is_empty() {
            self.queues.remove(&waiting.db);
        }
    }

    /// Who is next at a key.
    fn next(&self, db: i32, key: &[u8]) -> Option<(WaiterId, Blocked, Rc<Waiter>)> {
        let id = *self.queue(db, key)?.first()?;
        let waiting = self.by_id.get(&id)?;
        Some((id, waiting.blocked?, Rc::clone(&waiting.waiter)))
    }
}

/// Blocks the calling client until there is something for it.
pub fn wait(node: &Node, ctx: &Ctx, key: Str<'_>, waiter: Waiter) {
    let deadline_us = match waiter.block_ms() {
        0 => None,
        ms => Some(node.time.monotonic_us().saturating_add(ms.saturating_mul(1_000))),
    };
    let id = node.waiters.borrow_mut().enter((ctx.db(), key.bytes()), ctx.client(), waiter, deadline_us);
    match Blocked::block(ctx, key, id) {
        Some(blocked) => {
            if let Some(waiting) = node.waiters.borrow_mut().by_id.get_mut(&id) {
                waiting.blocked = Some(blocked);
            }
            timer::arm(node, ctx);
        }
        None => {
            // The server has its reasons. The client gets what it would have got without BLOCK.
            let mut waiters = node.waiters.borrow_mut();
            waiters.leave(id);
            let waiting = waiters.by_id.remove(&id);
            drop(waiters);
            if let Some(waiting) = waiting {
                waiting.waiter.timed_out(&mut Reply(ctx));
            }
        }
    }
}

/// Gives what is ready to those who wait for it, in the order of their coming. What is left over
/// for lack of room in the batch is for the next tick.
pub fn hand_out(node: &Node, (db, key): (i32, &[u8]), queue: &mut Queue, turn: &Turn, effects: &mut Effects) {
    for _ in 0..MAX_GRANTS {
        if !queue.has_ready() || effects.batch().len() > MAX_BATCH.saturating_sub(BATCH_ROOM) {
            break;
        }
        let Some((id, blocked, waiter)) = node.waiters.borrow().next(db, key) else { return };
        let served = blocked.reply(|ctx| waiter.grant(queue, turn, effects, &mut Reply(ctx)));
        if served != Some(true) {
            return;
        }
        let mut waiters = node.waiters.borrow_mut();
        waiters.leave(id);
        if let Some(waiting) = waiters.by_id.get_mut(&id) {
            waiting.granted.extend_from_slice(effects.granted());
        }
        drop(waiters);
        add(&node.count.handed_out, effects.granted().len() as u64);
        blocked.unblock();
    }
    if queue.has_ready() {
        node.waiters.borrow_mut().mark(db, key);
    }
}

/// Lets go those whose time is over, some at a time.
pub fn expire(node: &Node) {
    let now_us = node.time.monotonic_us();
    for _ in 0..MAX_GRANTS {
        let due = {
            let mut waiters = node.waiters.borrow_mut();
            let Some((_, id)) = waiters.deadlines.first().copied().filter(|(at, _)| *at <= now_us) else { return };
            waiters.leave(id);
            waiters.by_id.get(&id).and_then(|waiting| waiting.blocked)
        };
        if let Some(blocked) = due {
            blocked.unblock();
        }
    }
}

/// The server has signalled a key by itself: it was restored, renamed, loaded or swapped in.
///
/// Nothing is served here. On Redis 7.0 a callback that does not serve its client must not have
/// written anything, which cannot be known before it was tried; the next tick serves by our
/// queue, which costs a millisecond in a rare case and keeps one path for all.
pub fn key_ready(node: &Node, ctx: &Ctx, id: WaiterId) {
    let mut waiters = node.waiters.borrow_mut();
    let Some((db, key)) = waiters.by_id.get(&id).map(|waiting| (waiting.db, Rc::clone(&waiting.key))) else { return };
    waiters.mark(db, &key);
    drop(waiters);
    timer::arm(node, ctx);
}

/// The client goes on: if it was not served, this is its reply.
pub fn let_go(node: &Node, ctx: &Ctx, id: WaiterId) {
    let mut waiters = node.waiters.borrow_mut();
    waiters.leave(id);
    let waiter = waiters.by_id.get(&id).filter(|waiting| waiting.granted.is_empty()).map(|waiting| Rc::clone(&waiting.waiter));
    drop(waiters);
    if let Some(waiter) = waiter {
        waiter.timed_out(&mut Reply(ctx));
    }
}

/// The client does not wait any more.
pub fn gone(node: &Node, id: WaiterId) {
    node.waiters.borrow_mut().leave(id);
}

/// The server forgets the client. `gone`: it got no reply of ours.
pub fn freed(node: &Node, ctx: &Ctx, id: WaiterId, gone: bool) {
    let mut waiters = node.waiters.borrow_mut();
    waiters.leave(id);
    let Some(waiting) = waiters.by_id.remove(&id) else { return };
    if gone && !waiting.granted.is_empty() {
        waiters.lost.push(Lost { db: waiting.db, key: waiting.key, client: waiting.client, leases: waiting.granted });
        drop(waiters);
        timer::arm(node, ctx);
    }
}
