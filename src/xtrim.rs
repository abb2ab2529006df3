//! XTRIM: ack-aware trimming of a native stream, which Redis has from 8.2 on and Valkey lacks.
//!
//! An entry goes if every consumer group is past it and none has it pending; on a stream without
//! groups any entry goes. Oldest first, until the threshold is met. What goes is told to replicas
//! and the AOF as the `XDEL` that it is.

use std::collections::BTreeSet;

use rq_core::Tree;

use crate::api::{call, Argv, Ctx, Str};

/// So many entries are looked at in one go.
const PAGE: usize = 256;
/// What `~` removes at the most without LIMIT: a hundred nodes of a hundred, as the server does.
const DEFAULT_LIMIT: u64 = 10_000;

/// The id of an entry.
type EntryId = (u64, u64);

/// Until when to trim.
enum Threshold {
    MaxLen(u64),
    MinId(EntryId),
}

/// One consumer group.
struct Group {
    name: Vec<u8>,
    last: EntryId,
    pending: bool,
}

/// Runs the command.
pub fn command(ctx: &Ctx, key: Str<'_>, argv: &Argv<'_>) {
    let words: Vec<&[u8]> = (2..).map_while(|at| argv.get(at)).map(Str::bytes).collect();
    match parse(&words).and_then(|(threshold, limit)| trim(ctx, key, &threshold, limit)) {
        Ok(removed) => ctx.reply_int(i64::try_from(removed).unwrap_or(i64::MAX)),
        Err(error) => ctx.error(&error),
    }
}

/// `MAXLEN|MINID [=|~] threshold [LIMIT n]`: the threshold, and the most entries to remove.
fn parse(words: &[&[u8]]) -> Result<(Threshold, u64), String> {
    let syntax = || "ERR syntax error: RQ.XTRIM takes MAXLEN|MINID [=|~] threshold [LIMIT n]".to_string();
    let (how, rest) = words.split_first().ok_or_else(syntax)?;
    let (about, rest) = match rest.split_first() {
        Some((word, rest)) if **word == *b"~" => (true, rest),
        Some((word, rest)) if **word == *b"=" => (false, rest),
        _ => (false, rest),
    };
    let (value, rest) = rest.split_first().ok_or_else(syntax)?;
    let threshold = if how.eq_ignore_ascii_case(b"MAXLEN") {
        let len = number(value).ok_or_else(|| format!("ERR MAXLEN must be an integer from 0, not {}", rq_core::quote(value)))?;
        Threshold::MaxLen(len)
    } else if how.eq_ignore_ascii_case(b"MINID") {
        let id = entry_id(value).ok_or_else(|| format!("ERR MINID must be a stream id, not {}", rq_core::quote(value)))?;
        Threshold::MinId(id)
    } else {
        return Err(syntax());
    };
    let limit = match rest {
        [] if about => DEFAULT_LIMIT,
        [] => u64::MAX,
        [word, _] if word.eq_ignore_ascii_case(b"LIMIT") && !about => {
            return Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into());
        }
        [word, n] if word.eq_ignore_ascii_case(b"LIMIT") => match number(n) {
            // As the server has it: 0 is no limit.
            Some(0) => u64::MAX,
            Some(n) => n,
            None => return Err(format!("ERR LIMIT must be an integer from 0, not {}", rq_core::quote(n))),
        },
        _ => return Err(syntax()),
    };
    Ok((threshold, limit))
}

/// A number in its one canonical spelling, as the server has it.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|n: &u64| n.to_string().as_bytes() == text)
}

/// `ms-seq`, or `ms` for its first entry.
fn entry_id(text: &[u8]) -> Option<EntryId> {
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let ms = number(parts.next()?)?;
    match parts.next() {
        Some(seq) => Some((ms, number(seq)?)),
        None => Some((ms, 0)),
    }
}

fn id_text(id: EntryId) -> Vec<u8> {
    format!("{}-{}", id.0, id.1).into_bytes()
}

fn items(tree: Tree) -> Vec<Tree> {
    match tree {
        Tree::Array(items) => items,
        _ => Vec::new(),
    }
}

fn trim(ctx: &Ctx, key: Str<'_>, threshold: &Threshold, limit: u64) -> Result<u64, String> {
    let name = key.bytes();
    let len = match call(ctx, c"XLEN", &[name], false)? {
        Tree::Int(len) => u64::try_from(len).unwrap_or(0),
        _ => 0,
    };
    if len == 0 {
        return Ok(0);
    }
    let wanted = match threshold {
        Threshold::MaxLen(max) => len.saturating_sub(*max),
        Threshold::MinId(_) => u64::MAX,
    };
    let wanted = wanted.min(limit);
    let groups = groups(ctx, name)?;
    let behind = groups.iter().map(|group| group.last).min();
    let mut removed = 0u64;
    let mut from = Some((0, 0));
    while let (Some(start), true) = (from, removed < wanted) {
        // No group that is behind lets anything later go.
        let end = match threshold {
            Threshold::MinId((0, 0)) => break,
            Threshold::MinId(min) => behind.map_or(before(*min), |behind| behind.min(before(*min))),
            Threshold::MaxLen(_) => behind.unwrap_or((u64::MAX, u64::MAX)),
        };
        if start > end {
            break;
        }
        let page = page(ctx, name, start, end)?;
        let (Some(first), Some(last)) = (page.first(), page.last()) else { break };
        from = if page.len() < PAGE { None } else { after(*last) };
        let pending = pending(ctx, name, &groups, *first, *last)?;
        let room = usize::try_from(wanted.saturating_sub(removed)).unwrap_or(usize::MAX);
        let gone: Vec<Vec<u8>> = page.iter().filter(|id| !pending.contains(id)).take(room).map(|id| id_text(*id)).collect();
        if gone.is_empty() {
            continue;
        }
        let mut args: Vec<&[u8]> = vec![name];
        args.extend(gone.iter().map(Vec::as_slice));
        if let Tree::Int(n) = call(ctx, c"XDEL", &args, true)? {
            removed = removed.saturating_add(u64::try_from(n).unwrap_or(0));
        }
    }
    Ok(removed)
}

fn before(id: EntryId) -> EntryId {
    match id {
        (ms, 0) => (ms.saturating_sub(1), u64::MAX),
        (ms, seq) => (ms, seq.saturating_sub(1)),
    }
}

fn after(id: EntryId) -> Option<EntryId> {
    match id {
        (ms, u64::MAX) => Some((ms.checked_add(1)?, 0)),
        (ms, seq) => Some((ms, seq.saturating_add(1))),
    }
}

fn groups(ctx: &Ctx, key: &[u8]) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for group in items(call(ctx, c"XINFO", &[b"GROUPS", key], false)?) {
        let (mut name, mut last, mut pending) = (Vec::new(), None, true);
        let mut fields = items(group).into_iter();
        while let (Some(Tree::Bulk(field)), Some(value)) = (fields.next(), fields.next()) {
            match (field.as_slice(), value) {
                (b"name", Tree::Bulk(value)) => name = value,
                (b"last-delivered-id", Tree::Bulk(value)) => last = entry_id(&value),
                (b"pending", Tree::Int(n)) => pending = n > 0,
                _ => {}
            }
        }
        let last = last.ok_or("ERR the server does not tell how far a group has come")?;
        groups.push(Group { name, last, pending });
    }
    Ok(groups)
}

/// The next entries, by their ids.
fn page(ctx: &Ctx, key: &[u8], start: EntryId, end: EntryId) -> Result<Vec<EntryId>, String> {
    let count = PAGE.to_string();
    let found = call(ctx, c"XRANGE", &[key, &id_text(start), &id_text(end), b"COUNT", count.as_bytes()], false)?;
    Ok(items(found).into_iter().filter_map(first_id).collect())
}

/// The entries between two that some group has pending.
fn pending(ctx: &Ctx, key: &[u8], groups: &[Group], first: EntryId, last: EntryId) -> Result<BTreeSet<EntryId>, String> {
    let mut pending = BTreeSet::new();
    let count = PAGE.to_string();
    for group in groups.iter().filter(|group| group.pending) {
        let mut from = Some(first);
        // More may be pending than there are entries: those that were deleted stay pending.
        while let Some(start) = from.filter(|start| *start <= last) {
            let range = [key, &group.name, &id_text(start), &id_text(last), count.as_bytes()];
            let rows = items(call(ctx, c"XPENDING", &range, false)?);
            let ids: Vec<EntryId> = rows.into_iter().filter_map(first_id).collect();
            from = if ids.len() < PAGE { None } else { ids.last().and_then(|id| after(*id)) };
            pending.extend(ids);
        }
    }
    Ok(pending)
}

/// The id that begins a row of XRANGE or XPENDING.
fn first_id(row: Tree) -> Option<EntryId> {
    match items(row).into_iter().next() {
        Some(Tree::Bulk(id)) => entry_id(&id),
        _ => None,
    }
}
