//! DOCTOR: collects what there is to know of this server and its queues. What is to be said about
//! it is decided in `rq_core::doctor`.

use rq_core::doctor::{examine_queue, examine_server, Around, Server};
use rq_core::findings::{Found, NOT_ALL};
use rq_core::{parse_doctor, Sink, Tree};
use serde::Serialize;

use crate::api::{call, Argv, Ctx, Flags, Key, Mode, OwnedStr};
use crate::node::Node;
use crate::sink::Reply;
use crate::{guard, queues, run};

/// How many queues are looked at in one call, and how many findings are told of them.
const MAX_QUEUES: usize = 1_000;
const MAX_FOUND: usize = 1_000;

/// Runs the command.
pub fn command(node: &Node, ctx: &Ctx, argv: &Argv<'_>) {
    run::with_slices(argv, 1, |arguments| match parse_doctor(arguments) {
        Err(error) => ctx.error(&error.to_string()),
        Ok((key, json)) => match findings(node, ctx, key) {
            Err(error) => ctx.error(error),
            Ok(found) if json => write_json(ctx, &found),
            Ok(found) => write(ctx, &found),
        },
    });
}

fn findings(node: &Node, ctx: &Ctx, key: Option<&[u8]>) -> Result<Vec<Found>, &'static str> {
    // Calls into the server before anything is opened or borrowed.
    let server = server(node, ctx);
    let (mut found, mut all) = (Vec::new(), true);
    match key {
        Some(key) => {
            let name = OwnedStr::new(key);
            let mut opened = Key::open(ctx, name.get(), Mode::Glance).map_err(|_| run::WRONG_TYPE)?;
            look(node, ctx, key, &mut opened, &server, &mut found);
        }
        None => {
            all = queues::each(node, ctx, MAX_QUEUES, |key, opened| look(node, ctx, key, opened, &server, &mut found));
        }
    }
    found.sort_by_key(|one| one.severity);
    all &= found.len() <= MAX_FOUND;
    found.truncate(MAX_FOUND);
    // Within one severity the order stays: the server's own first, then by queue.
    let mut whole = Vec::new();
    examine_server(&server, &mut whole);
    whole.append(&mut found);
    if !all {
        whole.push(NOT_ALL.with(&[("count", &MAX_QUEUES)]));
    }
    whole.sort_by_key(|one| one.severity);
    Ok(whole)
}

fn look(node: &Node, ctx: &Ctx, key: &[u8], opened: &mut Key<'_>, server: &Server, found: &mut Vec<Found>) {
    let ttl_ms = opened.ttl_ms();
    let Some(value) = opened.value() else { return };
    let now = node.time.now().ms.max(value.queue.newest_ms());
    let mut local = node.index.borrow().local(ctx.db(), key);
    local.blocked = node.waiters.borrow().count(ctx.db(), key) as u64;
    local.recent = value.recent(now);
    let around = Around { key, now, ttl_ms, bytes: value.bytes() as u64, local };
    examine_queue(&value.queue, &around, server, found);
}

/// What is known of the server. Runs a few of its commands.
fn server(node: &Node, ctx: &Ctx) -> Server {
    let config = Texts::config(ctx);
    let info = Texts::info(ctx);
    let (host, port) = reached_at(ctx).unwrap_or_else(|| ("<this server>".into(), info.get("tcp_port").into()));
    let cluster_node = ctx.flags().contains(Flags::CLUSTER).then(|| match call(ctx, c"CLUSTER", &[b"MYID"], false) {
        Ok(Tree::Bulk(id)) => String::from_utf8_lossy(&id).into_owned(),
        _ => "<its id>".into(),
    });
    let keys_without_ttl = info.0.iter().filter(|(name, _)| name.starts_with("db")).map(|(_, value)| without_ttl(value));
    let queues = node.index.borrow().len() as u64;
    Server {
        primary: ctx.flags().contains(Flags::MASTER),
        cluster_node,
        host,
        port,
        // INFO has them too, where CONFIG is renamed.
        policy: info.get("maxmemory_policy").into(),
        maxmemory: info.number("maxmemory"),
        used: info.number("used_memory"),
        machine: info.number("total_system_memory"),
        other_keys: keys_without_ttl.fold(0, u64::saturating_add).saturating_sub(queues),
        appendonly: info.get("aof_enabled") == "1",
        appendfsync: config.get("appendfsync").into(),
        replicas: info.number("connected_slaves"),
        replicas_needed: config.number("min-replicas-to-write"),
        max_bulk: config.number("proto-max-bulk-len"),
        accept_apply: node.options.accept_apply.get(),
        evicted: (node.guard.queues_lost.get(), node.guard.jobs_lost.get()),
        rescues: guard::rescues(node),
        rescued: node.rescue.revived.get(),
        given_way: node.rescue.given_way(),
        not_applied: node.count.undecodable.get().saturating_add(node.count.misfits.get()),
    }
}

/// `keys=5,expires=2,...`: those without a TTL.
fn without_ttl(line: &str) -> u64 {
    let field = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.parse().ok()).unwrap_or(0u64);
    field("keys=").saturating_sub(field("expires="))
}

/// The address of this server at which the caller has reached it.
fn reached_at(ctx: &Ctx) -> Option<(String, String)> {
    let id = ctx.client().to_string();
    let Ok(Tree::Bulk(client)) = call(ctx, c"CLIENT", &[b"LIST", b"ID", id.as_bytes()], false) else { return None };
    let client = String::from_utf8_lossy(&client).into_owned();
    let (host, port) = client.split_whitespace().find_map(|part| part.strip_prefix("laddr="))?.rsplit_once(':')?;
    let plain = host.trim_matches(['[', ']']);
    // Of a Unix socket it is the path.
    (port != "0" && !plain.contains('/')).then(|| (plain.into(), port.into()))
}

/// Names and values, as the server tells them.
struct Texts(Vec<(String, String)>);

impl Texts {
    fn config(ctx: &Ctx) -> Texts {
        let names = ["appendfsync", "min-replicas-to-write", "proto-max-bulk-len"];
        let words: Vec<&[u8]> = std::iter::once("GET").chain(names).map(str::as_bytes).collect();
        let Ok(Tree::Array(items)) = call(ctx, c"CONFIG", &words, false) else { return Texts(Vec::new()) };
        let texts: Vec<String> = items.iter().filter_map(|item| match item {
            Tree::Bulk(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }).collect();
        Texts(texts.chunks_exact(2).filter_map(|pair| Some((pair.first()?.clone(), pair.last()?.clone()))).collect())
    }

    fn info(ctx: &Ctx) -> Texts {
        let sections: [&[u8]; 5] = [b"server", b"memory", b"persistence", b"replication", b"keyspace"];
        let Ok(Tree::Bulk(text)) = call(ctx, c"INFO", &sections, false) else { return Texts(Vec::new()) };
        let text = String::from_utf8_lossy(&text).into_owned();
        Texts(text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }
}

fn write(ctx: &Ctx, found: &[Found]) {
    let mut out = Reply(ctx);
    out.array(found.len());
    for one in found {
        out.array(4);
        [one.severity.name(), one.code, &one.text, &one.remedy].into_iter().for_each(|text| out.text(text));
    }
}

#[derive(Serialize)]
struct Shown<'f> {
    severity: &'f str,
    code: &'f str,
    finding: &'f str,
    remedy: &'f str,
}

fn write_json(ctx: &Ctx, found: &[Found]) {
    let shown: Vec<Shown<'_>> = found
        .iter()
        .map(|one| Shown { severity: one.severity.name(), code: one.code, finding: &one.text, remedy: &one.remedy })
        .collect();
    match serde_json::to_vec(&shown) {
        Ok(text) => ctx.reply_bulk(&text),
        Err(error) => ctx.error(&format!("ERR no JSON can be made of this: {error}")),
    }
}
