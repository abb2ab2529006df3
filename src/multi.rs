//! MLEASE: the first of several queues that has something.

use std::rc::Rc;

use rq_core::{due, parse_multi_lease, Waiter};

use crate::api::{Argv, Ctx, Flags, Key, Mode, Str};
use crate::node::Node;
use crate::sink::Reply;
use crate::waiters::Want;
use crate::{blocking, replicate, run, timer};

/// Due jobs of one queue before its own work, as for any verb.
const DUE_STEPS: u32 = 128;

/// Runs the command. In a cluster the server has refused keys of several slots before.
pub fn lease(node: &Node, ctx: &Ctx, argv: &Argv<'_>) {
    run::with_slices(argv, 1, |arguments| {
        let request = match parse_multi_lease(arguments) {
            Ok(request) => request,
            Err(error) => return ctx.error(&error.to_string()),
        };
        let keys: Vec<Str<'_>> = (2..).map_while(|at| argv.get(at)).take(request.keys.len()).collect();
        // A wrong one is refused before anything is done to the others.
        if keys.iter().any(|key| Key::open(ctx, *key, Mode::Glance).is_err()) {
            return ctx.error(run::WRONG_TYPE);
        }
        let waiter = Waiter::of_many(&request);
        let flags = ctx.flags();
        if keys.iter().any(|key| take(node, ctx, *key, &waiter, flags)) {
            return timer::arm(node, ctx);
        }
        let may_block = node.turn(node.time.now(), flags).may_block;
        match waiter.block_ms().filter(|_| may_block) {
            Some(ms) => blocking::wait(node, ctx, &keys, Want::Lease(Rc::new(waiter)), ms),
            None => waiter.timed_out(&mut Reply(ctx)),
        }
        timer::arm(node, ctx);
    });
}

/// Takes from one queue what there is; false if there is nothing.
fn take(node: &Node, ctx: &Ctx, key: Str<'_>, waiter: &Waiter, flags: Flags) -> bool {
    let (db, name) = (ctx.db(), key.bytes());
    let Ok(mut opened) = Key::open(ctx, key, Mode::Write) else { return false };
    let Some(value) = opened.value() else { return false };
    let queue = &mut value.queue;
    node.time.not_paused();
    let now = node.time.now_for(queue.newest_ms());
    let turn = node.turn(now, flags);
    let mut effects = node.take_effects();
    effects.watch_ends(node.waiters.borrow().watch(db, name));
    due(queue, &turn, DUE_STEPS, &mut effects);
    // Waiters come before newcomers, but not in the middle of a transaction or a script.
    if node.waiters.borrow().wait_for(db, name) && queue.may_lease(turn.now) {
        if flags.intersects(Flags::MULTI | Flags::LUA) {
            node.waiters.borrow_mut().mark(db, name);
        } else {
            blocking::hand_out(node, (db, name), queue, &turn, &mut effects);
        }
    }
    let taken = waiter.grant(name, queue, &turn, &mut effects, &mut Reply(ctx));
    value.record(&effects, now.ms);
    let next = value.look_again_at(now.ms, now.no_expiry_before_ms);
    node.index.borrow_mut().learn(db, name, &value.told, next);
    opened.close(!effects.batch().is_empty());
    blocking::tell_ends(node, (db, name), effects.ended());
    replicate::publish(node, ctx, key, &effects);
    node.keep_effects(effects);
    taken
}
