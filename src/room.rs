//! Room in a queue's place: when the server takes queues over and over, others have to go.
//!
//! The server samples keys of each database and keeps those that were not used for longest, by a
//! clock of whole seconds. While all keys are of the same second the first databases fill what it
//! keeps; if queues are there, they hide the cache in the others, and each comes back at once.
//! So other keys are evicted here, as the server would: the readiest of a few random ones.

use crate::api::{call, memory_ratio, random_other, Ctx, OwnedStr};
use crate::node::{add, Node};

/// So many keys are looked at in each database, as the server does by default.
const SAMPLES: usize = 5;
/// So many go at once: about half a millisecond.
const AT_ONCE: usize = 16;
/// Not just enough, or the server would take a queue again for the next write.
const ENOUGH: f32 = 0.99;

/// Evicts other keys than queues until there is a little room, or enough was done for once. False:
/// none was found.
pub fn make(node: &Node, ctx: &Ctx) -> bool {
    for _ in 0..AT_ONCE {
        if memory_ratio() < ENOUGH {
            break;
        }
        let Some((db, key)) = readiest(ctx) else { return false };
        // It fails if an administrator has renamed the command.
        if !ctx.select(db) || call(ctx, c"UNLINK", &[key.get().bytes()], true).is_err() {
            return false;
        }
        add(&node.rescue.others_evicted, 1);
    }
    true
}

/// The readiest to go of a few keys of all databases. Afterwards the context is in some database.
fn readiest(ctx: &Ctx) -> Option<(i32, OwnedStr)> {
    let mut best: Option<(i32, OwnedStr, i64)> = None;
    for db in (0..).take_while(|db| ctx.select(*db)) {
        if ctx.keys() == 0 {
            continue;
        }
        for (key, score) in (0..SAMPLES).filter_map(|_| random_other(ctx)) {
            if best.as_ref().is_none_or(|(.., least)| score > *least) {
                best = Some((db, key, score));
            }
        }
    }
    best.map(|(db, key, _)| (db, key))
}
