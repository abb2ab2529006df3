//! Clients that wait for a job, and how they get one.
//!
//! Each is blocked on its key in the server's books, for redirects, role changes and CLIENT
//! UNBLOCK, and stands in a queue of our own by (database, key), which chooses who is next: the
//! server's own signal would wake all of them. Waiters come before newcomers.
//!
//! The life of one: [`wait`], then one of
//! - [`hand_out`]: it gets leases; or [`tell_ends`]: the job it waits for has ended. The reply is written, then the client is let go, upon which
//!   the server calls [`let_go`]: there is nothing more to say then.
//! - its time is over ([`expire`]), or CLIENT UNBLOCK: [`let_go`] writes the empty reply.
//! - it is gone, or was answered by the server with an error: [`gone`].
//!
//! and in each case [`freed`] at last. A grant whose client was gone by then is given back in the
//! next tick.
//!
//! Redis 7.0 forgets a reply if, before it is delivered, the client's time is over or CLIENT
//! UNBLOCK comes; and the client waits for ever. So the time to wait is kept here, on all
//! servers, and there it is not commands that hand out, but [`timer::serve_waiters`], just before
//! replies are delivered.

use std::rc::Rc;

use rq_core::{end_of, Effects, End, JobId, Queue, Turn, BATCH_ROOM, MAX_BATCH};

use crate::api::{Blocked, Ctx, Str, WaiterId};
use crate::node::{add, Node};
use crate::sink::Reply;
use crate::timer;
use crate::waiters::{Ends, Grant, Lost, Want};

/// How many waiters are served in one go; the tick goes on with the others.
const MAX_GRANTS: usize = 128;

/// Blocks the calling client on keys until there is something for it, for so many ms; 0: for ever.
pub fn wait(node: &Node, ctx: &Ctx, keys: &[Str<'_>], want: Want, block_ms: u64) {
    let deadline_us = match block_ms {
        0 => None,
        ms => Some(node.time.monotonic_us().saturating_add(ms.saturating_mul(1_000))),
    };
    let names: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    let id = node.waiters.borrow_mut().enter(ctx.db(), &names, ctx.client(), want, deadline_us);
    match Blocked::block(ctx, keys, id) {
        Some(blocked) => {
            if let Some(waiting) = node.waiters.borrow_mut().get_mut(id) {
                waiting.blocked = Some(blocked);
            }
            timer::arm(node, ctx);
        }
        None => {
            // The server has its reasons. The client gets what it would have got without BLOCK.
            let waiting = node.waiters.borrow_mut().remove(id);
            if let Some(waiting) = waiting {
                write_nothing(&waiting.want, ctx);
            }
        }
    }
}

/// The reply of a wait that ended empty.
fn write_nothing(want: &Want, ctx: &Ctx) {
    match want {
        Want::Lease(waiter) => waiter.timed_out(&mut Reply(ctx)),
        Want::End(_) => End::Gone.write(&mut Reply(ctx)),
    }
}

/// Gives what is ready to those who wait for it, in the order of their coming. What is left over
/// for lack of room in the batch is for the next tick.
pub fn hand_out(node: &Node, (db, key): (i32, &[u8]), queue: &mut Queue, turn: &Turn<'_>, effects: &mut Effects) {
    for _ in 0..MAX_GRANTS {
        if !queue.may_lease(turn.now) || effects.batch().len() > MAX_BATCH.saturating_sub(BATCH_ROOM) {
            break;
        }
        let Some((id, blocked, waiter)) = node.waiters.borrow().next(db, key) else { return };
        let served = blocked.reply(|ctx| waiter.grant(key, queue, turn, effects, &mut Reply(ctx)));
        if served != Some(true) {
            return;
        }
        let mut waiters = node.waiters.borrow_mut();
        waiters.leave(id);
        if let Some(waiting) = waiters.get_mut(id) {
            waiting.served = true;
            waiting.granted = Some(Grant { key: Rc::from(key), leases: effects.granted().to_vec() });
        }
        drop(waiters);
        add(&node.count.handed_out, effects.granted().len() as u64);
        blocked.unblock();
    }
    if queue.may_lease(turn.now) {
        node.waiters.borrow_mut().mark(db, key);
    }
}

/// Tells those who wait for the ends of these jobs, or lets the tick do it where nothing may come
/// between a reply and its delivery.
pub fn tell_ends(node: &Node, (db, key): (i32, &[u8]), ends: &[(JobId, End)]) {
    if node.serve_late.get() && !ends.is_empty() {
        node.waiters.borrow_mut().tell_later(Ends { db, key: Rc::from(key), ends: ends.to_vec() });
    } else {
        tell(node, (db, key), ends);
    }
}

/// Tells what commands have left. This changes no queue, so it is done on replicas too.
pub fn tell_what_is_left(node: &Node) {
    loop {
        let ends = node.waiters.borrow_mut().take_ends();
        let Some(Ends { db, key, ends }) = ends else { return };
        tell(node, (db, &key), &ends);
    }
}

/// Tells them now.
pub fn tell(node: &Node, (db, key): (i32, &[u8]), ends: &[(JobId, End)]) {
    for (job, end) in ends {
        let watchers = node.waiters.borrow().watchers(db, key, *job);
        for id in watchers {
            let blocked = node.waiters.borrow().get(id).and_then(|waiting| waiting.blocked);
            let Some(blocked) = blocked else { continue };
            if blocked.reply(|ctx| end.write(&mut Reply(ctx))).is_none() {
                continue;
            }
            let mut waiters = node.waiters.borrow_mut();
            waiters.leave(id);
            if let Some(waiting) = waiters.get_mut(id) {
                waiting.served = true;
            }
            drop(waiters);
            blocked.unblock();
        }
    }
}

/// The same after anything may have happened to the key. `queue`: what is there now.
pub fn look_for_ends(node: &Node, (db, key): (i32, &[u8]), queue: Option<&Queue>) {
    let watched = node.waiters.borrow().watched(db, key);
    let ends = watched.into_iter().filter_map(|job| match queue {
        Some(queue) => Some((job, end_of(queue, job)?)),
        None => Some((job, End::Gone)),
    });
    tell(node, (db, key), &ends.collect::<Vec<_>>());
}

/// Lets go those whose time is over, some at a time.
pub fn expire(node: &Node) {
    let now_us = node.time.monotonic_us();
    for _ in 0..MAX_GRANTS {
        let due = {
            let mut waiters = node.waiters.borrow_mut();
            let Some(id) = waiters.take_expired(now_us) else { return };
            waiters.get(id).and_then(|waiting| waiting.blocked)
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
    let Some((db, keys)) = waiters.get(id).map(|waiting| (waiting.db, waiting.keys.clone())) else { return };
    for key in keys {
        waiters.mark(db, &key);
    }
    drop(waiters);
    timer::arm(node, ctx);
}

/// The client goes on: if it was not served, this is its reply.
pub fn let_go(node: &Node, ctx: &Ctx, id: WaiterId) {
    let mut waiters = node.waiters.borrow_mut();
    waiters.leave(id);
    let want = waiters.get(id).filter(|waiting| !waiting.served).map(|waiting| waiting.want.clone());
    drop(waiters);
    if let Some(want) = want {
        write_nothing(&want, ctx);
    }
}

/// The client does not wait any more.
pub fn gone(node: &Node, id: WaiterId) {
    node.waiters.borrow_mut().leave(id);
}

/// The server forgets the client. `gone`: it got no reply of ours.
pub fn freed(node: &Node, ctx: &Ctx, id: WaiterId, gone: bool) {
    let mut waiters = node.waiters.borrow_mut();
    let Some(waiting) = waiters.remove(id) else { return };
    if let (true, Some(Grant { key, leases })) = (gone, waiting.granted) {
        waiters.lose(Lost { db: waiting.db, key, client: waiting.client, leases });
        drop(waiters);
        timer::arm(node, ctx);
    }
}
