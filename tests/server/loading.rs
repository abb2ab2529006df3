//! How the module comes, and that it stays: loaded twice, with wrong arguments, into a server at
//! work, asked to go. Cases B73 and B74 (see also `odd_arguments.rs` and `persistence.rs`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::harness::{block, jobs, module, stock, wait_until, Server, Stop};

const AT_RUN_TIME: &[&str] = &["enable-module-command local"];
const BUSY: &str = "there is a module 'rq' already";

/// The same module in another file.
fn copy_of_the_module(dir: &Path) -> PathBuf {
    let copy = dir.join("another.so");
    fs::copy(module(), &copy).expect("a copy of the module");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("its permissions");
    copy
}

/// All that the module holds: keys, timers, blocked clients, rules that name its commands.
fn occupy(server: &Server) -> crate::harness::Client {
    stock(server, "q");
    server.push("q due DELAY 600000");
    server.run("ACL SETUSER w on nopass ~* -@all +rq.push");
    block(server, "RQ.LEASE empty w BLOCK 0 LEASE 7200000")
}

/// It works as before.
#[track_caller]
fn is_well(server: &Server, digest: &str, waiter: &crate::harness::Client) {
    assert_eq!(server.digest("q"), digest);
    let user = server.client();
    user.run("AUTH w x");
    user.push("empty x");
    assert_eq!(jobs(&waiter.reply()).len(), 1);
    let timed = server.push("timed x DELAY 50");
    wait_until("the timer", || server.state("timed", &timed) == "ready");
    assert_eq!(server.run("MODULE LIST").array().iter().filter(|one| one.fields()["name"] == "rq").count(), 1);
    assert_eq!(server.server_info("rq")["rq_panics"], "0");
}

#[test]
fn b74_it_is_not_unloaded_whatever_there_is() {
    let mut server = Server::with(&[AT_RUN_TIME, &["appendonly yes", "appendfsync always", "rq.expiry-grace 0"]].concat());
    // With nothing at all, then with everything.
    assert!(server.error("MODULE UNLOAD rq").contains("data types"));
    let waiter = occupy(&server);
    let digest = server.digest("q");
    let text = server.error("MODULE UNLOAD rq");
    assert!(text.contains("data types"), "it says why: {text}");
    is_well(&server, &digest, &waiter);
    server.run("DEL empty timed");
    server.run("FLUSHALL");
    assert!(server.error("MODULE UNLOAD rq").contains("data types"), "also when all queues are gone");
    stock(&server, "q");
    let digest = server.digest("q");
    server.restart(Stop::Kill);
    assert_eq!(server.digest("q"), digest);
}

#[test]
fn b74_loaded_twice() {
    let server = Server::with(AT_RUN_TIME);
    let waiter = occupy(&server);
    let digest = server.digest("q");
    let copy = copy_of_the_module(server.dir());
    for line in [
        format!("MODULE LOAD {}", module().display()),
        format!("MODULE LOAD {}", copy.display()),
        format!("MODULE LOADEX {} CONFIG rq.expiry-grace 5 ARGS test-hooks yes", copy.display()),
        format!("MODULE LOAD {}", module().display()),
    ] {
        let before = server.log().matches(BUSY).count();
        assert!(server.error(&line).starts_with("ERR "), "{line}");
        assert_eq!(server.log().matches(BUSY).count(), before + 1, "{line}");
    }
    is_well(&server, &digest, &waiter);
    server.run("DEBUG RELOAD");
    assert_eq!(server.digest("q"), digest);
}

#[test]
fn b74_twice_in_the_configuration() {
    let other = Server::start();
    let copy = copy_of_the_module(other.dir());
    for second in [module(), &copy] {
        let mut server = Server::start();
        server.stop(Stop::Kill);
        let log = server.refuses_to_start(&[&format!("loadmodule \"{}\"", second.display())]);
        assert!(log.contains(BUSY), "{log}");
    }
}

#[test]
fn b74_arguments_that_make_no_sense() {
    let server = Server::with_module(None, AT_RUN_TIME);
    server.run("SET text x");
    let path = module().display();
    for (arguments, told) in [("ARGS nonsense", "unknown argument"), ("ARGS test-hooks maybe", "takes yes or no")] {
        assert!(server.error(format!("MODULE LOADEX {path} {arguments}")).starts_with("ERR "), "{arguments}");
        assert!(server.log().contains(told), "{arguments}: {}", server.log());
    }
    server.error(format!("MODULE LOADEX {path} CONFIG rq.expiry-grace -1"));
    assert_eq!(server.run("MODULE LIST").array().iter().filter(|one| one.fields()["name"] == "rq").count(), 0);
    assert!(server.error("RQ.PUSH q x").contains("unknown command"));
    // It is none the worse for it.
    server.run(format!("MODULE LOADEX {path} CONFIG rq.expiry-grace 77 ARGS test-hooks yes"));
    assert_eq!(server.config("rq.expiry-grace"), "77");
    let waiter = occupy(&server);
    let digest = server.digest("q");
    is_well(&server, &digest, &waiter);
    assert_eq!(server.run("GET text"), "x");
}

/// After the module has loaded, the server finds an option that nobody knows, and wants to unload
/// it. Redis 8 does so, Redis 7.0 only says so; Valkey up to 9.1 follows a null pointer of its own
/// there, with any module that has a data type.
#[test]
fn b74_an_option_that_nobody_knows() {
    let mut server = Server::with_module(None, AT_RUN_TIME);
    if server.is_valkey() {
        return;
    }
    let path = module().display();
    for _ in 0..3 {
        assert!(server.error(format!("MODULE LOADEX {path} CONFIG rq.nonsense 1")).starts_with("ERR "));
        if server.try_run("RQ.LEN q").is_error() {
            server.run(format!("MODULE LOAD {path} test-hooks yes"));
        }
        let waiter = occupy(&server);
        let digest = server.digest("q");
        is_well(&server, &digest, &waiter);
        server.restart(Stop::Kill);
    }
}

#[test]
fn b74_loaded_into_a_server_at_work() {
    let mut server = Server::with_module(None, &[AT_RUN_TIME, &["appendonly yes", "appendfsync always"]].concat());
    let replica = Server::start();
    for n in 0..100 {
        server.run(format!("SET key{n} value"));
    }
    replica.follow(&server);
    server.run(format!("MODULE LOAD {} test-hooks yes", module().display()));
    let q = stock(&server, "q");
    assert_eq!(server.codes(format!("RQ.ACK q {}", q.leased)), [1]);
    crate::harness::check_equal(&server, &replica);
    let soon = server.push("q soon DELAY 50");
    wait_until("the timer", || server.state("q", &soon) == "ready");
    let digest = server.digest("q");
    // The configuration file does not know it yet, so after a restart the server says what it lacks.
    server.stop(Stop::Kill);
    assert!(server.refuses_to_start(&[]).contains("RQ.APPLY"));
    server.use_module(Some(module()));
    server.start_again(&[]);
    assert_eq!(server.digest("q"), digest);
    assert_eq!(server.run("DBSIZE"), 101);
}

/// Each load would leave its own, if timers were not counted.
#[test]
fn b74_a_hundred_reloads_leave_one_timer() {
    let server = Server::with(&["rq.expiry-grace 0"]);
    server.run("RQ.CREATE q LEASE 7200000");
    for n in 0..100 {
        server.push(format!("q x{n} DELAY 7200000"));
        server.run("DEBUG RELOAD");
    }
    assert_eq!(server.server_number("rq", "rq_timers"), 1);
    let soon = server.push("q soon DELAY 50");
    wait_until("the timer", || server.state("q", &soon) == "ready");
    assert_eq!(server.run("RQ.LEN q DELAYED"), 100);
    assert_eq!(server.server_number("rq", "rq_timers"), 1);
}
