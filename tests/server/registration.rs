//! What the server tells and checks about the commands: COMMAND, access control, options, INFO.

use crate::harness::{check_equal, stock, Reply, Scene, Server, Stop};

/// Every command: its name, arity, flags, and what it does to its key; nothing if it has none.
pub const COMMANDS: &[(&str, i64, &str, &str)] = &[
    ("rq.push", -3, "write denyoom fast", "RW insert"),
    ("rq.mpush", -4, "write denyoom", "RW insert"),
    ("rq.lease", -3, "write blocking", "RW access update"),
    ("rq.mlease", -4, "write blocking", "RW access update"),
    ("rq.ack", -4, "write fast", "RW update"),
    ("rq.acklease", -5, "write blocking", "RW access update"),
    ("rq.nack", -4, "write fast", "RW update"),
    ("rq.release", -4, "write fast", "RW update"),
    ("rq.extend", -4, "write fast", "RW update"),
    ("rq.reap", -2, "write", "RW access update"),
    ("rq.redrive", -3, "write", "RW update"),
    ("rq.set", -5, "write fast", "RW update"),
    ("rq.del", -3, "write fast", "RW update"),
    ("rq.purge", -3, "write", "RW update"),
    ("rq.trim", -4, "write", "RW update"),
    ("rq.get", -3, "readonly fast", "RO access"),
    ("rq.wait", -3, "readonly blocking", "RO access"),
    ("rq.peek", -3, "readonly", "RO access"),
    ("rq.len", -2, "readonly fast", "RO access"),
    ("rq.info", -2, "readonly fast", "RO access"),
    ("rq.schedule", -6, "write denyoom", "RW insert"),
    ("rq.unschedule", -3, "write", "RW update"),
    ("rq.schedules", 2, "readonly", "RO access"),
    ("rq.pause", -2, "write fast", "RW insert"),
    ("rq.resume", -2, "write fast", "RW update"),
    ("rq.groups", -2, "readonly", "RO access"),
    ("rq.consumers", -2, "readonly", "RO access"),
    ("rq.queues", -1, "readonly", ""),
    ("rq.doctor", -1, "readonly", "RO access"),
    ("rq.help", -1, "readonly fast", ""),
    ("rq.xtrim", -4, "write", "RW update"),
    ("rq.create", -2, "write denyoom fast", "RW insert"),
    ("rq.alter", -4, "write fast", "RW update"),
    ("rq.apply", 3, "write admin noscript", "RW access update"),
];

/// Those that have a key, and a call of each with enough arguments, for the key `q`.
pub fn calls() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let keyed = COMMANDS.iter().filter(|(.., access)| !access.is_empty());
    keyed.map(|(name, arity, _, access)| (*name, *access, call(name, *arity)))
}

fn call(name: &str, arity: i64) -> String {
    match name {
        "rq.mlease" => return "rq.mlease 1 q x".to_owned(),
        "rq.doctor" => return "rq.doctor JSON KEY q".to_owned(),
        _ => {}
    }
    let arguments = (arity.unsigned_abs() as usize).saturating_sub(2);
    format!("{name} q{}", " x".repeat(arguments))
}

#[test]
fn command_info() {
    let server = Server::start();
    let names = server.run("COMMAND LIST FILTERBY MODULE rq").texts();
    assert_eq!(names.len(), COMMANDS.len(), "{names:?}");
    for (name, arity, flags, _) in COMMANDS {
        let reply = server.run(format!("COMMAND INFO {name}"));
        let info = reply.array()[0].array();
        assert_eq!(info[0], *name);
        assert_eq!(info[1], *arity, "{name}");
        let told = info[2].texts();
        for flag in ["write", "readonly", "denyoom", "blocking", "fast", "admin", "noscript"] {
            assert_eq!(told.iter().any(|one| one == flag), flags.split(' ').any(|one| one == flag), "{flag} of {name}");
        }
        // Numbered keys, and one after a keyword, are found otherwise: see COMMAND GETKEYS.
        let place = i64::from(!["rq.mlease", "rq.queues", "rq.doctor", "rq.help"].contains(name));
        assert_eq!(info[3..6], [Reply::Int(place), Reply::Int(place), Reply::Int(place)], "the place of the key in {name}");
    }
}

#[test]
fn b75_command_getkeysandflags() {
    let server = Server::start();
    for (name, access, line) in calls() {
        assert_eq!(server.run(format!("COMMAND GETKEYS {line}")).texts(), ["q"], "{name}");
        let reply = server.run(format!("COMMAND GETKEYSANDFLAGS {line}"));
        let key = reply.array()[0].array();
        assert_eq!((key[0].text(), key[1].texts().join(" ").as_str()), ("q", access), "{name}");
    }
    // Without a key there is none.
    for line in ["RQ.QUEUES COUNT 5", "RQ.HELP PUSH", "RQ.DOCTOR", "RQ.DOCTOR JSON"] {
        assert!(server.error(format!("COMMAND GETKEYS {line}")).starts_with("ERR "), "{line}");
    }
    assert_eq!(server.run("COMMAND GETKEYS RQ.DOCTOR key JSON").texts(), ["JSON"]);
    // Whatever follows, and whatever it is spelled like.
    let line = "COMMAND GETKEYS RQ.PUSH KEYS x DELAY 5 PRIORITY 3";
    assert_eq!(server.run(line).texts(), ["KEYS"]);
}

#[test]
fn command_docs() {
    let server = Server::start();
    for (name, ..) in COMMANDS {
        let reply = server.run(format!("COMMAND DOCS {name}"));
        let docs = reply.array()[1].fields();
        for part in ["summary", "complexity"] {
            assert!(docs[part].text().len() > 3, "{part} of {name}");
        }
        assert_eq!(docs["group"], "module");
        let first = docs["arguments"].array()[0].fields();
        let expected = match *name {
            "rq.mlease" => ("numkeys", "integer"),
            "rq.queues" => ("n", "integer"),
            "rq.help" => ("command", "string"),
            "rq.xtrim" => ("stream", "key"),
            _ => ("key", "key"),
        };
        assert_eq!((first["name"].text(), first["type"].text()), expected, "{name}");
    }
    let push = server.run("COMMAND DOCS rq.push").array()[1].fields();
    let arguments: Vec<String> = push["arguments"].array().iter().map(|one| format!("{one:?}")).collect();
    for option in ["DELAY", "AT", "PRIORITY", "LEASE", "MAXDELIVERIES", "TTL"] {
        assert!(arguments.iter().any(|one| one.contains(&format!("\"{option}\""))), "{option} in {arguments:?}");
    }
}

#[test]
fn access_categories() {
    let server = Server::start();
    if server.is_redis_7_0() {
        return assert!(server.run("ACL CAT").texts().iter().all(|one| one != "rq"), "7.0 has none for modules");
    }
    // The server's own list of a category (ACL CAT) lacks modules on Valkey 8.0.
    let own = server.run("ACL CAT").texts().iter().any(|one| one == "rq");
    for (name, _, flags, _) in COMMANDS {
        let reply = server.run(format!("COMMAND INFO {name}"));
        let told = reply.array()[0].array()[6].texts();
        let has = |flag: &str| flags.split(' ').any(|one| one == flag);
        for (category, belongs) in [
            ("@write", has("write")),
            ("@read", has("readonly")),
            ("@blocking", has("blocking")),
            ("@fast", has("fast")),
            ("@slow", !has("fast")),
            ("@admin", has("admin")),
            ("@dangerous", has("admin")),
            ("@rq", own),
        ] {
            assert_eq!(told.iter().any(|one| one == category), belongs, "{category} of {name}: {told:?}");
        }
    }
    if own {
        server.run("ACL SETUSER worker on nopass ~* -@all +@rq -rq.purge");
        let client = server.client();
        client.run("AUTH worker x");
        client.push("q x");
        assert!(client.error("RQ.PURGE q READY").starts_with("NOPERM "));
        assert!(client.error("GET q").starts_with("NOPERM "));
    }
}

#[test]
fn b75_key_permissions() {
    let server = Server::start();
    server.push("q x");
    for (user, keys, allowed) in [
        ("reader", "%R~q", "RO"),
        ("writer", "%W~q", "W"),
        ("both", "~q", "all"),
        ("stranger", "~other*", "none"),
    ] {
        server.run(format!("ACL SETUSER {user} on nopass {keys} +@all"));
        for (name, access, line) in calls() {
            let reply = server.run(format!("ACL DRYRUN {user} {line}"));
            let may = match allowed {
                "RO" => access.starts_with("RO"),
                "W" => !access.contains("access"),
                "all" => true,
                _ => false,
            };
            assert_eq!(reply == "OK", may, "{name} by the {user}: {reply:?}");
        }
    }
    for line in ["RQ.QUEUES", "RQ.HELP", "RQ.DOCTOR"] {
        assert_eq!(server.run(format!("ACL DRYRUN stranger {line}")), "OK", "{line} needs no key");
    }
    server.run("ACL SETUSER idle on nopass ~* -@all");
    for (name, arity, ..) in COMMANDS {
        let line = format!("ACL DRYRUN idle {}", call(name, *arity));
        assert_ne!(server.run(&line), "OK", "{line}");
    }
    let reader = server.client();
    reader.run("AUTH reader x");
    assert_eq!(reader.run("RQ.LEN q"), 1);
    assert!(reader.error("RQ.PUSH q x").starts_with("NOPERM "));
    assert!(reader.error("RQ.LEN other").starts_with("NOPERM "));
}

#[test]
fn apply_is_not_for_clients() {
    let server = Server::with(&["appendonly yes", "appendfsync always"]);
    stock(&server, "q");
    let batches = applied(&server);
    assert!(batches.len() > 5, "the AOF has what was decided");
    let digest = server.digest("q");
    for words in [&batches[0], &batches[batches.len() - 1]] {
        assert!(server.cmd(words).is_error());
        server.run("MULTI");
        let queued = server.cmd(words);
        assert!(queued.is_error() || server.run("EXEC").array()[0].is_error());
        if queued.is_error() {
            server.error("EXEC");
        }
    }
    let script = server.cmd(&[b"EVAL".as_slice(), b"return redis.call('RQ.APPLY', KEYS[1], ARGV[1])", b"1", b"q", &batches[0][2]]);
    assert!(script.is_error());
    assert_eq!(server.digest("q"), digest);
    // For a migration tool the owner may allow it: then it does what a replica does.
    let target = Server::with(&["rq.accept-apply yes"]);
    let replica = target.replica(&[]);
    for words in &batches {
        assert_eq!(target.cmd(words), "OK");
    }
    assert_eq!(target.digest("q"), digest);
    check_equal(&target, &replica);
    for nonsense in [&b""[..], b"x", &[0xff; 100], &batches[0][2][..3]] {
        assert!(target.cmd(&[b"RQ.APPLY".as_slice(), b"q", nonsense]).is_error(), "{nonsense:?}");
    }
    assert_eq!(target.digest("q"), digest);
    target.run("SET text x");
    assert!(target.cmd(&[b"RQ.APPLY".as_slice(), b"text", &batches[0][2]]).error().starts_with("WRONGTYPE "));
    target.run("CONFIG SET rq.accept-apply no");
    assert!(target.cmd(&batches[0]).is_error());
}

/// The file of the AOF that is written now.
pub fn newest_aof(server: &Server) -> std::path::PathBuf {
    let folder = server.dir().join("appendonlydir");
    let files = std::fs::read_dir(folder).expect("the AOF").map(|entry| entry.expect("a file").path());
    files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max().expect("a file")
}

/// The RQ.APPLY commands in the AOF of a server.
pub fn applied(server: &Server) -> Vec<Vec<Vec<u8>>> {
    let bytes = std::fs::read(newest_aof(server)).expect("the AOF");
    let mut rest = bytes.as_slice();
    let mut all = Vec::new();
    while let Some((command, len)) = Reply::decode(rest).expect("an AOF of commands") {
        let words: Vec<Vec<u8>> = command.array().iter().map(|word| word.bytes().to_vec()).collect();
        if words[0].eq_ignore_ascii_case(b"rq.apply") {
            all.push(words);
        }
        rest = &rest[len..];
    }
    all
}

#[test]
fn only_apply_is_sent_and_it_names_its_key() {
    let server = Server::with(&["appendonly yes", "appendfsync always"]);
    stock(&server, "q");
    server.multi(&["RQ.PUSH q x", "RQ.LEASE q w", "RQ.LEASE absent w", "RQ.REAP q CONSUMER w"]);
    for words in applied(&server) {
        assert_eq!((words.len(), words[1].as_slice()), (3, b"q".as_slice()));
    }
    let aof = std::fs::read_dir(server.dir().join("appendonlydir")).expect("the AOF");
    for path in aof.map(|entry| entry.expect("a file").path()) {
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("a file")).to_uppercase();
        for verb in ["RQ.PUSH", "RQ.LEASE", "RQ.REAP", "RQ.NACK"] {
            assert!(!text.contains(verb), "{verb} would be decided again");
        }
    }
}

#[test]
fn the_options_of_the_module() {
    let mut server = Server::start();
    let shown = server.run("CONFIG GET rq.*").fields();
    let guard = if server.is_redis_7_0() { "refuse" } else { "rescue" };
    for (name, default) in [("rq.expiry-grace", "10000"), ("rq.eviction-guard", guard), ("rq.accept-apply", "no")] {
        assert_eq!(shown[name], default, "{name}");
    }
    for (line, valid) in [
        ("rq.expiry-grace 0", true),
        ("rq.expiry-grace 5000", true),
        ("rq.expiry-grace -1", false),
        ("rq.expiry-grace x", false),
        ("rq.eviction-guard off", true),
        ("rq.eviction-guard maybe", false),
        ("rq.accept-apply 2", false),
        ("rq.tick-budget 99", false),
        ("rq.tick-budget 100000", true),
        ("rq.defaults LEASE", false),
        ("rq.no-such-option 1", false),
    ] {
        assert_eq!(!server.try_run(format!("CONFIG SET {line}")).is_error(), valid, "{line}");
    }
    let set_defaults = |text: &str| server.cmd(&["CONFIG", "SET", "rq.defaults", text]);
    assert!(set_defaults("NONSENSE 1").is_error());
    let refusal = set_defaults("LEASE 0");
    assert!(matches!(&refusal, Reply::Error(text) if text.contains("LEASE must be an integer from")), "{refusal:?}");
    assert_eq!(set_defaults("  LEASE 60000 backoff 10 20"), "OK");
    server.run("CONFIG REWRITE");
    server.stop(Stop::Shutdown);
    let rewritten = std::fs::read_to_string(server.dir().join("server.conf")).expect("the configuration");
    assert!(rewritten.contains("rq.expiry-grace 5000"), "{rewritten}");
    assert!(rewritten.contains("rq.eviction-guard off"), "{rewritten}");
    assert!(rewritten.contains("rq.tick-budget 100000"), "{rewritten}");
    let defaults = rewritten.lines().find(|line| line.starts_with("rq.defaults ")).expect("the defaults");
    let server = Server::with(&[defaults]);
    assert_eq!(server.run("CONFIG GET rq.defaults").fields()["rq.defaults"], "  LEASE 60000 backoff 10 20");
    server.push("q x");
    assert_eq!(server.info("q").int("lease"), 60_000);
}

#[test]
fn new_queues_begin_with_the_defaults() {
    let s = Scene::new();
    s.push("old x");
    let set_defaults = |text: &str| assert_eq!(s.cmd(&["CONFIG", "SET", "rq.defaults", text]), "OK");
    set_defaults("LEASE 60000 MAXDELIVERIES 3 KEEPDONE 5");
    s.push("pushed x");
    s.run("RQ.CREATE created LEASE 1000");
    s.run("RQ.SCHEDULE scheduled s EVERY 1000 PAYLOAD x");
    s.multi(&["RQ.PUSH within x".to_owned()]);
    set_defaults("");
    s.push("late x");
    for (key, lease, deliveries) in [
        ("old", 30_000, 20),
        ("pushed", 60_000, 3),
        ("created", 1_000, 3),
        ("scheduled", 60_000, 3),
        ("within", 60_000, 3),
        ("late", 30_000, 20),
    ] {
        assert_eq!(s.info(key).ints(["lease", "maxdeliveries"]), [lease, deliveries], "{key}");
    }
    s.verify();
}

#[test]
fn info_has_a_section() {
    let server = Server::start();
    server.push("q x");
    server.push("r x");
    let info = server.server_info("rq");
    assert_eq!((info["rq_queues"].text(), info["rq_panics"].text()), ("2", "0"));
    assert!(info["rq_version"].text().starts_with(|first: char| first.is_ascii_digit()));
    let worker = server.client();
    worker.send_line("RQ.LEASE absent w BLOCK 0");
    server.wait_blocked(1);
    assert_eq!(server.server_number("rq", "rq_blocked_clients"), 1);
    assert_eq!(server.info("q").int("blocked-clients"), 0);
    assert!(server.run("INFO everything").text().contains("rq_queues:2"));
}

#[test]
fn info_counts_what_happens_and_sums_up_what_is_there() {
    let server = Server::start();
    server.run("RQ.MPUSH jobs:a,b=c 3 x y z");
    let jobs = server.lease("jobs:a,b=c w COUNT 2");
    server.codes(format!("RQ.ACK jobs:a,b=c {}", jobs[0]));
    server.codes(format!("RQ.ACK jobs:a,b=c {}", jobs[0]));
    server.codes(format!("RQ.NACK jobs:a,b=c {} DEAD", jobs[1]));
    server.codes(format!("RQ.ACK jobs:a,b=c {} 1", jobs[1].id));
    let nine = server.client();
    nine.run("SELECT 9");
    nine.run("RQ.CREATE q MAXLIVE 1");
    nine.push("q x DELAY 7200000");
    assert!(nine.error("RQ.PUSH q x").starts_with("FULL "));
    let info = server.server_info("rq");
    for (name, value) in [
        ("pushed_total", "4"), ("leased_total", "2"), ("acked_total", "1"), ("nacked_total", "0"), ("dead_total", "1"),
        ("refused_tokens_total", "1"), ("refused_full_total", "1"), ("queues", "2"), ("summed_queues", "2"), ("ready_jobs", "1"),
        ("delayed_jobs", "1"), ("leased_jobs", "0"), ("dead_jobs", "1"), ("done_jobs", "0"),
    ] {
        assert_eq!(info[format!("rq_{name}").as_str()], value, "{name}");
    }
    assert!(info["rq_queue_bytes"].text().parse::<u64>().expect("a number") > 500);
    let lines = server.server_info("rq_queues");
    assert_eq!(lines.names(), ["rq_queue0", "rq_queue1"], "and nothing else");
    let first = lines["rq_queue0"].text();
    assert!(first.starts_with("db=0,key=jobs:a\\x2cb\\x3dc,ready=1,delayed=0,leased=0,dead=1,done=0,bytes="), "{first}");
    assert!(lines["rq_queue1"].text().starts_with("db=9,key=q,ready=0,delayed=1,"), "{lines:?}");
    // One name and one value a line.
    for line in server.run("INFO rq").text().lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let (name, value) = line.split_once(':').expect("a value");
        assert!(name.starts_with("rq_") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        assert!(!value.is_empty(), "{line}");
    }
    // A replica counts what it decides: nothing.
    let replica = server.replica(&[]);
    assert_eq!(replica.server_info("rq")["rq_pushed_total"], "0");
    assert_eq!(replica.server_info("rq")["rq_ready_jobs"], "1");
}

#[test]
fn help() {
    let server = Server::start();
    let lines = server.run("RQ.HELP").texts();
    for (name, ..) in COMMANDS {
        let name = name.to_uppercase();
        assert!(lines.iter().any(|line| *line == name || line.starts_with(&format!("{name} "))), "{name}");
        let one = server.run(format!("RQ.HELP {name}")).texts();
        assert!(one[0].starts_with(&name) && lines.contains(&one[0]), "{one:?}");
        assert!(one.iter().any(|line| line.starts_with("    Reply: ")) && one.iter().any(|line| line.starts_with("    Cost: ")), "{one:?}");
        assert_eq!(server.run(format!("RQ.HELP {}", name.trim_start_matches("RQ.").to_lowercase())).texts(), one);
    }
    assert!(server.error("RQ.HELP nonsense").starts_with("ERR there is no command \"nonsense\""));
    assert!(server.error("RQ.HELP PUSH LEASE").starts_with("ERR wrong number of arguments"));
}

#[test]
fn the_module_stays_loaded() {
    let server = Server::start();
    server.push("q x");
    let modules = server.run("MODULE LIST");
    assert!(modules.array().iter().any(|module| module.fields()["name"] == "rq"), "{modules:?}");
    assert!(server.try_run("MODULE UNLOAD rq").is_error());
    assert_eq!(server.lease_one("q w").text(), "x");
    // The calls that are counted have the verbs' names.
    let stats = server.server_info("commandstats");
    assert!(stats["cmdstat_rq.push"].text().starts_with("calls=1,"));
    assert!(stats["cmdstat_rq.lease"].text().starts_with("calls=1,"));
}
