//! The one path of all commands: arguments, key, core, replication, events, reply.
//!
//! Nothing about jobs is decided here, and nothing is remembered of a queue beyond its key.

use std::rc::Rc;

use rq_core::table::{Command, Verb};
use rq_core::{execute, execute_absent, Code, Effects, Outcome, Queue, Recent, Request, TreeSink, Turn, Waiter};

use crate::api::{Argv, Ctx, Flags, Key, Mode, Str};
use crate::node::{add, Node};
use crate::sink::{Json, Reply};
use crate::types::Value;
use crate::waiters::Want;
use crate::{apply, blocking, doctor, guard, help, multi, queues, replicate, timer, xtrim};

/// The server's own words.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// So many arguments need no memory of their own.
const SHORT: usize = 16;

/// Runs a command of the table.
pub fn command(node: &Node, ctx: &Ctx, command: &Command, argv: &Argv<'_>) {
    let given = i32::try_from(argv.len()).unwrap_or(i32::MAX);
    let fits = if command.arity < 0 { given >= -command.arity } else { given == command.arity };
    if !fits {
        return ctx.wrong_arity();
    }
    match command.verb {
        Verb::MLease => return multi::lease(node, ctx, argv),
        Verb::Queues => return queues::list(node, ctx, argv),
        Verb::Doctor => return doctor::command(node, ctx, argv),
        Verb::Help => return help::command(ctx, argv),
        _ => {}
    }
    let Some(key) = argv.get(1) else { return ctx.wrong_arity() };
    match command.verb {
        Verb::Apply => return apply::command(node, ctx, key, argv),
        Verb::XTrim => return xtrim::command(ctx, key, argv),
        _ => {}
    }
    with_slices(argv, 2, |arguments| match rq_core::parse(command.verb, arguments) {
        Err(error) => ctx.error(&error.to_string()),
        Ok(request) if command.verb.writes() => write(node, ctx, command.verb, key, &request),
        Ok(request) => read(node, ctx, key, &request),
    });
}

/// The arguments from the `from`th on, as slices of the server's own strings.
pub fn with_slices<R>(argv: &Argv<'_>, from: usize, then: impl FnOnce(&[&[u8]]) -> R) -> R {
    let slices = (from..argv.len()).filter_map(|at| argv.get(at)).map(Str::bytes);
    let mut short: [&[u8]; SHORT] = [&[]; SHORT];
    match short.get_mut(..argv.len().saturating_sub(from)) {
        Some(room) => {
            room.iter_mut().zip(slices).for_each(|(place, slice)| *place = slice);
            then(room)
        }
        None => then(&slices.collect::<Vec<_>>()),
    }
}

/// A command that changes nothing, on any node.
fn read(node: &Node, ctx: &Ctx, key: Str<'_>, request: &Request<'_>) {
    let Ok(mut opened) = Key::open(ctx, key, Mode::Read) else { return ctx.error(WRONG_TYPE) };
    let flags = ctx.flags();
    let now = node.time.now_in(ctx, flags, opened.queue().map_or(0, |queue| queue.newest_ms()));
    let mut turn = node.turn(now, flags);
    if let Request::Info { .. } = request {
        turn.local = node.index.borrow().local(ctx.db(), key.bytes());
        turn.local.blocked = node.waiters.borrow().count(ctx.db(), key.bytes()) as u64;
        turn.local.recent = opened.value().map_or_else(Recent::default, |value| value.recent(now.ms));
    }
    // A read has no effects; its empty buffers cost nothing.
    let mut effects = Effects::new();
    let mut run = |out: &mut dyn rq_core::Sink| match opened.queue() {
        Some(queue) => execute(queue, request, &turn, &mut effects, out),
        None => execute_absent(request, &turn, &mut effects, out).map(|(outcome, _)| outcome),
    };
    if let Request::Wait { id, block_ms } = request {
        return match run(&mut Reply(ctx)) {
            Ok(Outcome::Wait(_)) => blocking::wait(node, ctx, &[key], Want::End(*id), block_ms.unwrap_or(0)),
            Ok(Outcome::Replied) => {}
            Err(error) => ctx.error(&error.to_string()),
        };
    }
    if !matches!(request, Request::Info { json: true }) {
        if let Err(error) = run(&mut Reply(ctx)) {
            ctx.error(&error.to_string());
        }
        return;
    }
    let mut tree = TreeSink::new();
    let result = run(&mut tree).map_err(|error| error.to_string());
    match result.map(|_| tree.finish()) {
        Err(error) => ctx.error(&error),
        Ok(Some(rq_core::Tree::NullArray | rq_core::Tree::Null) | None) => ctx.reply_null(),
        Ok(Some(tree)) => match serde_json::to_vec(&Json(&tree)) {
            Ok(text) => ctx.reply_bulk(&text),
            Err(error) => ctx.error(&format!("ERR no JSON can be made of this: {error}")),
        },
    }
}

/// What is known while a command that writes is under way.
struct Writing<'w> {
    node: &'w Node,
    db: i32,
    key: &'w [u8],
    request: &'w Request<'w>,
    turn: &'w Turn<'w>,
    no_expiry_before: u64,
    /// Whether anybody waits for this key.
    waited_for: bool,
    /// Whether this is in the middle of a transaction or a script: nothing is given away there.
    in_the_middle: bool,
}

/// What came of it.
struct Written {
    outcome: Result<Outcome, rq_core::Error>,
    /// The queue is to be looked at at this time, if that is earlier than before.
    look_at: Option<u64>,
}

/// A command that may change the queue.
fn write(node: &Node, ctx: &Ctx, verb: Verb, key: Str<'_>, request: &Request<'_>) {
    let flags = ctx.flags();
    let Ok(mut opened) = Key::open(ctx, key, Mode::Write) else { return ctx.error(WRONG_TYPE) };
    let newest_ms = opened.queue().map(|queue| queue.newest_ms());
    if let Some(refusal) = guard::refusal(node, verb, newest_ms.is_none(), flags) {
        return ctx.error(&refusal);
    }
    // An operator may have to stop workers just when memory is full; a new key needs some.
    if verb == Verb::Pause && newest_ms.is_none() && flags.contains(Flags::OOM) {
        return ctx.error("OOM command not allowed when used memory > 'maxmemory': the queue does not exist, and to pause it makes it");
    }
    node.time.not_paused();
    let now = node.time.now_in(ctx, flags, newest_ms.unwrap_or(0));
    let mut turn = node.turn(now, flags);
    if newest_ms.is_none() {
        turn.defaults = node.options.policy();
    }
    let (db, name) = (ctx.db(), key.bytes());
    let writing = Writing {
        node,
        db,
        key: name,
        request,
        turn: &turn,
        no_expiry_before: now.no_expiry_before_ms,
        waited_for: node.waiters.borrow().wait_for(db, name),
        in_the_middle: flags.intersects(Flags::MULTI | Flags::LUA),
    };
    let mut effects = node.take_effects();
    effects.watch_ends(node.waiters.borrow().watch(db, name));
    let written = match opened.value() {
        Some(value) => writing.on_queue(value, &mut effects, &mut Reply(ctx)),
        None => writing.on_absent(&mut opened, &mut effects, &mut Reply(ctx)),
    };
    opened.close(!effects.batch().is_empty());

    let full = matches!(&written.outcome, Err(error) if error.code == Code::Full);
    add(&node.count.full, u64::from(full));
    if effects.stale() > 0 || effects.duplicates() > 0 || full {
        node.index.borrow_mut().count(db, name, |local| {
            local.stale = local.stale.saturating_add(effects.stale());
            local.duplicates = local.duplicates.saturating_add(effects.duplicates());
            local.full = local.full.saturating_add(u64::from(full));
        });
    }
    blocking::tell_ends(node, (db, name), effects.ended());
    replicate::publish(node, ctx, key, &effects);
    node.keep_effects(effects);
    match written.outcome {
        Ok(Outcome::Replied) => {}
        Ok(Outcome::Wait(code)) => {
            if let Some(waiter) = Waiter::new(request, code) {
                let block_ms = waiter.block_ms().unwrap_or(0);
                return blocking::wait(node, ctx, &[key], Want::Lease(Rc::new(waiter)), block_ms);
            }
        }
        Err(error) => ctx.error(&error.to_string()),
    }
    if writing.waited_for {
        timer::arm(node, ctx);
    } else if let Some(at) = written.look_at {
        timer::arm_for(node, ctx, now, at);
    }
}

impl Writing<'_> {
    fn on_queue(&self, value: &mut Value, effects: &mut Effects, out: &mut Reply<'_>) -> Written {
        let queue = &mut value.queue;
        // Waiters come before newcomers: after a transaction there may be something for them.
        if matches!(self.request, Request::Lease { .. } | Request::AckLease { .. }) {
            self.hand_out(queue, effects, false);
        }
        let outcome = execute(queue, self.request, self.turn, effects, out);
        self.hand_out(queue, effects, self.node.serve_late.get());
        if matches!(self.request, Request::Create { .. } | Request::Alter { .. }) {
            value.timings.iter_mut().for_each(|timings| timings.begin_anew());
        }
        value.record(effects, self.turn.now);
        Written { outcome, look_at: self.tell_index(value) }
    }

    fn on_absent(&self, key: &mut Key<'_>, effects: &mut Effects, out: &mut Reply<'_>) -> Written {
        match execute_absent(self.request, self.turn, effects, out) {
            Err(error) => Written { outcome: Err(error), look_at: None },
            Ok((outcome, None)) => Written { outcome: Ok(outcome), look_at: None },
            Ok((outcome, Some(queue))) => {
                let mut value = Box::new(Value::from(queue));
                self.hand_out(&mut value.queue, effects, self.node.serve_late.get());
                value.record(effects, self.turn.now);
                let look_at = self.tell_index(&value);
                key.set(value);
                Written { outcome: Ok(outcome), look_at }
            }
        }
    }

    /// When the queue is to be looked at, if that is news.
    fn tell_index(&self, value: &Value) -> Option<u64> {
        let at = value.look_again_at(self.turn.now, self.no_expiry_before);
        self.node.index.borrow_mut().learn(self.db, self.key, &value.told, at).then_some(at).flatten()
    }

    fn hand_out(&self, queue: &mut Queue, effects: &mut Effects, later: bool) {
        if !self.waited_for || !queue.may_lease(self.turn.now) {
            return;
        }
        if self.in_the_middle || later {
            self.node.waiters.borrow_mut().mark(self.db, self.key);
        } else {
            blocking::hand_out(self.node, (self.db, self.key), queue, self.turn, effects);
        }
    }
}
