//! QUEUES: which queues there are, as far as the user may read them.

use rq_core::{Sink, State};

use crate::api::{Argv, Ctx, Key, Mode, OwnedStr, Readable};
use crate::node::Node;
use crate::run;
use crate::sink::Reply;

/// The most rows of one reply, and how many without COUNT.
const MAX_ROWS: usize = 10_000;
const ROWS: usize = 1_000;

/// Runs the command.
pub fn list(node: &Node, ctx: &Ctx, argv: &Argv<'_>) {
    let count = run::with_slices(argv, 1, |arguments| match arguments {
        [] => Ok(ROWS),
        [word, n] if word.eq_ignore_ascii_case(b"COUNT") => std::str::from_utf8(n)
            .ok()
            .and_then(|n| n.parse().ok())
            .filter(|count: &usize| (1..=MAX_ROWS).contains(count) && count.to_string().as_bytes() == *n)
            .ok_or_else(|| format!("ERR COUNT must be an integer from 1 to {MAX_ROWS}, not {}", rq_core::quote(n))),
        [word] if word.eq_ignore_ascii_case(b"COUNT") => Err("ERR syntax error: COUNT needs a value after it".into()),
        [first, _, again, ..] if [first, again].iter().all(|word| word.eq_ignore_ascii_case(b"COUNT")) => {
            Err("ERR syntax error: COUNT was given twice, or beside an option that excludes it".into())
        }
        [.., word] => Err(format!("ERR syntax error: unknown or misplaced option {}", rq_core::quote(word))),
    });
    let count = match count {
        Ok(count) => count,
        Err(error) => return ctx.error(&error),
    };
    let now = node.time.now();
    let mut rows = Vec::new();
    each(node, ctx, count, |key, opened| {
        let Some(queue) = opened.queue() else { return };
        let counts = [State::Ready, State::Leased, State::Dead].map(|state| queue.count(state) as u64);
        let age = queue.oldest_ready_ms().map(|since| now.ms.saturating_sub(since));
        rows.push((Box::<[u8]>::from(key), counts, age));
    });
    let mut out = Reply(ctx);
    out.array(rows.len());
    for (key, counts, age) in rows {
        out.array(5);
        out.bulk(&key);
        counts.into_iter().for_each(|count| out.uint(count));
        match age {
            Some(age) => out.uint(age),
            None => out.null(),
        }
    }
}

/// Shows the queues of the caller's database that it may read, by name, `max` at most; false if
/// there are more.
pub fn each(node: &Node, ctx: &Ctx, max: usize, mut look: impl FnMut(&[u8], &mut Key<'_>)) -> bool {
    let mut keys = node.index.borrow().keys(ctx.db());
    keys.sort_unstable();
    let readable = Readable::of(ctx);
    let mut shown = 0;
    for key in keys {
        let name = OwnedStr::new(&key);
        if !readable.as_ref().is_none_or(|readable| readable.may_read(name.get())) {
            continue;
        }
        let Ok(mut opened) = Key::open(ctx, name.get(), Mode::Glance) else { continue };
        if opened.queue().is_none() {
            continue;
        }
        if shown == max {
            return false;
        }
        shown += 1;
        look(&key, &mut opened);
    }
    true
}
