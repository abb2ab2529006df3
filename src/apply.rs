//! `RQ.APPLY`: how a primary's decisions come to its replicas, and from the AOF back to it.
//!
//! Nothing is decided here: no promotion, no expiry, no grant. If there is something to do, the
//! tick of a primary does it.

use rq_core::clock::is_of_our_time;

use crate::api::{log, Argv, Ctx, Flags, Key, Level, Mode, Str};
use crate::node::{add, Node};
use crate::revival::{self, Message, Revival};
use crate::{blocking, replicate, run, timer};

/// For people who try it.
const INTERNAL: &str = "ERR RQ.APPLY is internal: by it a primary tells its replicas and the AOF what it has decided. \
                        For tools that move data, CONFIG SET rq.accept-apply yes lets it pass";

/// Runs the command.
pub fn command(node: &Node, ctx: &Ctx, key: Str<'_>, argv: &Argv<'_>) {
    let flags = ctx.flags();
    let internal = flags.intersects(Flags::REPLICATED | Flags::LOADING) || ctx.must_obey();
    if !internal && !node.options.accept_apply.get() {
        return ctx.error(INTERNAL);
    }
    let Some(batch) = argv.get(2).map(Str::bytes) else { return ctx.wrong_arity() };
    match Message::decode(batch) {
        Some(Message::Spare(revival)) => {
            revival::spare(node, ctx, key, revival);
            ctx.replicate_verbatim();
            return ctx.reply_ok();
        }
        Some(Message::Revive(revival)) => return revive(node, ctx, key, revival),
        None => {}
    }
    let Ok(mut opened) = Key::open(ctx, key, Mode::Write) else { return ctx.error(run::WRONG_TYPE) };
    let now = node.time.now();
    let mut effects = node.take_effects();
    effects.watch_ends(node.waiters.borrow().watch(ctx.db(), key.bytes()));
    let applied = match opened.queue() {
        Some(queue) => rq_core::apply(queue, batch, &mut effects),
        None => rq_core::apply_absent(batch, &mut effects).map(|(time, queue)| {
            if let Some(queue) = queue {
                opened.set(Box::new(queue.into()));
            }
            time
        }),
    };
    let op_time = match applied {
        Ok(op_time) => op_time,
        Err(malformed) => return refuse(node, ctx, key, flags, &malformed.to_string()),
    };
    let (db, name) = (ctx.db(), key.bytes());
    let (there, ready) = opened.value().map_or((false, false), |value| {
        value.forget_old(now.ms);
        let token = value.queue.last_token();
        if is_of_our_time(token, now.ms) {
            node.saw_token(token);
        }
        let next = value.look_again_at(now.ms, now.no_expiry_before_ms);
        node.index.borrow_mut().learn(db, name, &value.told, next);
        (true, value.queue.may_lease(now.ms))
    });
    opened.close(there || !effects.events().is_empty());

    blocking::tell_ends(node, (db, name), effects.ended());
    node.time.observe(op_time);
    if ready {
        node.waiters.borrow_mut().mark(db, name);
    }
    ctx.replicate_verbatim();
    ctx.reply_ok();
    replicate::tell(node, ctx, key, &effects);
    node.keep_effects(effects);
    if !flags.contains(Flags::LOADING) {
        timer::arm(node, ctx);
    }
}

/// The primary has evicted the queue, which is why it was just deleted here, and put it back.
fn revive(node: &Node, ctx: &Ctx, key: Str<'_>, revival: Revival) {
    // Whatever came of it here, others may have the queue.
    ctx.replicate_verbatim();
    let there = revival::put_back(node, ctx, key, revival);
    revival::forget(node);
    if there {
        ctx.reply_ok();
        if !ctx.flags().contains(Flags::LOADING) {
            timer::arm(node, ctx);
        }
        return;
    }
    add(&node.count.missed_revivals, 1);
    let text = format!(
        "RQ.APPLY shall put back the evicted queue {} in database {}, which was not deleted here just before, or whose key is in use",
        rq_core::quote(key.bytes()), ctx.db(),
    );
    log(Level::Warning, &text);
    ctx.error(&format!("ERR {text}"));
}

/// Ops that cannot be read mean that data are lost from here on: a file that goes on being loaded
/// would give a state that never was, so the server stops as it does for a bad RDB file.
fn refuse(node: &Node, ctx: &Ctx, key: Str<'_>, flags: Flags, why: &str) {
    add(&node.count.undecodable, 1);
    let text = format!(
        "RQ.APPLY for the queue {} in database {} does not decode: {why} (RQ {})",
        rq_core::quote(key.bytes()), ctx.db(), env!("CARGO_PKG_VERSION"),
    );
    if flags.contains(Flags::LOADING) && !flags.contains(Flags::REPLICATED) {
        log(Level::Warning, &format!("{text}. The AOF is damaged, or was written by a newer RQ. Stopping, rather than lose jobs"));
        std::process::exit(1);
    }
    log(Level::Warning, &text);
    ctx.error(&format!("ERR {text}"));
}
