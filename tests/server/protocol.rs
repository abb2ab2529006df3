//! The shape of every reply, byte by byte, in RESP2, RESP3, MULTI and Lua; and that a well-kept
//! client library makes of them what it should.

use std::collections::HashMap;

use crate::harness::{stock, Client, Reply, Scene, Server};

/// The kinds of a reply, without its values: what a client has to expect.
fn shape(reply: &Reply) -> String {
    let list = |items: &[Reply]| items.iter().map(shape).collect::<Vec<_>>().join(" ");
    match reply {
        Reply::Status(text) => format!("+{text}"),
        Reply::Error(_) => "error".to_owned(),
        Reply::Int(_) => "int".to_owned(),
        Reply::Bulk(_) => "str".to_owned(),
        Reply::Array(items) | Reply::Push(items) => format!("[{}]", list(items)),
        Reply::Map(_) => "map".to_owned(),
        Reply::NullBulk => "$-1".to_owned(),
        Reply::NullArray => "*-1".to_owned(),
        Reply::Null => "_".to_owned(),
        Reply::Other(text) => text.clone(),
    }
}

/// (line, its shape in RESP2, in RESP3 if it differs); `@` is the key. Each on a new stock.
fn golden(q: &crate::harness::Stock) -> Vec<(String, &'static str, &'static str)> {
    let (leased, dead, ready) = (&q.leased, &q.dead, &q.ready);
    vec![
        ("RQ.PUSH @ x".to_owned(), "str", ""),
        ("RQ.MPUSH @ 2 x y".to_owned(), "[str str]", ""),
        ("RQ.LEASE @ w".to_owned(), "[[str int int str int]]", ""),
        ("RQ.LEASE absent w".to_owned(), "*-1", "_"),
        ("RQ.LEASE absent w BLOCK 1".to_owned(), "*-1", "_"),
        (format!("RQ.ACK @ {leased}"), "[int]", ""),
        (format!("RQ.ACK @ {leased} {ready} 1"), "[int int]", ""),
        (format!("RQ.NACK @ {leased}"), "[int]", ""),
        (format!("RQ.RELEASE @ {leased}"), "[int]", ""),
        ("RQ.RELEASE @ CONSUMER worker".to_owned(), "int", ""),
        (format!("RQ.EXTEND @ {leased}"), "[int]", ""),
        (format!("RQ.ACKLEASE @ {leased} w"), "[int [[str int int str int]]]", ""),
        (format!("RQ.ACKLEASE absent {leased} w"), "[int *-1]", "[int _]"),
        (format!("RQ.ACKLEASE absent {leased} w BLOCK 1"), "[int *-1]", "[int _]"),
        ("RQ.REAP @ CONSUMER worker".to_owned(), "[[str str int str]]", ""),
        ("RQ.REAP @".to_owned(), "[]", ""),
        (format!("RQ.REDRIVE @ {dead}"), "[int]", ""),
        ("RQ.REDRIVE @ COUNT 5".to_owned(), "[int int int]", ""),
        (format!("RQ.SET @ {ready} PRIORITY 5"), "int", ""),
        (format!("RQ.DEL @ {ready}"), "int", ""),
        ("RQ.PURGE @ READY".to_owned(), "int", ""),
        ("RQ.GET @ 1700000000000-0".to_owned(), "*-1", "_"),
        ("RQ.PEEK absent READY".to_owned(), "[str []]", ""),
        ("RQ.PEEK @ READY".to_owned(), "", "[str [map]]"),
        (format!("RQ.GET @ {ready}"), "", "map"),
        ("RQ.INFO @".to_owned(), "", "map"),
        ("RQ.INFO @ JSON".to_owned(), "str", ""),
        ("RQ.INFO absent".to_owned(), "*-1", "_"),
        ("RQ.LEN @".to_owned(), "int", ""),
        ("RQ.CREATE @".to_owned(), "int", ""),
        ("RQ.ALTER @ LEASE 7200000".to_owned(), "+OK", ""),
        ("RQ.ALTER absent LEASE 5".to_owned(), "error", ""),
    ]
}

#[test]
fn b76_shapes_in_resp2_and_resp3() {
    let s = Scene::new();
    let clients = [s.client(), s.client3()];
    let count = golden(&stock(&s, "q")).len();
    for n in 0..count {
        for (version, client) in clients.iter().enumerate() {
            for wrapped in [false, true] {
                s.run("DEL q");
                let (line, resp2, resp3) = golden(&stock(&s, "q")).swap_remove(n);
                let wanted = if version == 1 && !resp3.is_empty() { resp3 } else { resp2 };
                if wanted.is_empty() {
                    continue; // a flat array of pairs, compared below
                }
                let line = line.replace('@', "q");
                if wrapped {
                    let replies = run_in_multi(client, &line);
                    assert_eq!(shape(&replies), wanted, "RESP{} in MULTI: {line}", version + 2);
                } else {
                    assert_eq!(shape(&client.try_run(&line)), wanted, "RESP{}: {line}", version + 2);
                }
            }
        }
    }
    s.verify();
}

fn run_in_multi(client: &Client, line: &str) -> Reply {
    client.run("MULTI");
    client.run(line);
    client.run("EXEC").array()[0].clone()
}

#[test]
fn a_map_of_resp3_is_the_flat_array_of_resp2() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let (two, three) = (s.client(), s.client3());
    for id in [&q.ready, &q.scheduled, &q.retrying, &q.leased.id, &q.dead] {
        let flat = two.run(format!("RQ.GET q {id}"));
        let Reply::Map(pairs) = three.run(format!("RQ.GET q {id}")) else { panic!("no map") };
        assert_eq!(flat.array().len(), 2 * pairs.len());
        for (pair, (name, value)) in flat.array().chunks(2).zip(&pairs) {
            assert_eq!(&pair[0], name);
            match (&pair[1], value) {
                (Reply::NullBulk, Reply::Null) => {}
                (two, three) => assert_eq!(two, three, "{name:?}"),
            }
        }
    }
    let (flat, map) = (two.info("q"), three.run("RQ.INFO q"));
    assert!(matches!(map, Reply::Map(_)));
    assert_eq!(flat.names(), map.fields().names());
    s.verify();
}

#[test]
fn b76_a_blocked_reply_has_the_shape_of_the_immediate_one() {
    let s = Scene::new();
    for client in [s.client(), s.client3()] {
        for options in ["", "META", "COUNT 2"] {
            s.run("RQ.MPUSH q 2 x x");
            let immediate = client.run(format!("RQ.LEASE q w BLOCK 0 {options} LEASE 7200000"));
            s.run("DEL q");
            client.send_line(format!("RQ.LEASE q w BLOCK 0 {options} LEASE 7200000"));
            s.wait_blocked(1);
            s.run("RQ.MPUSH q 2 x x");
            let blocked = client.reply();
            assert_eq!(shape(&blocked), shape(&immediate), "{options}");
            s.run("DEL q");
        }
        let immediate = client.run("RQ.LEASE q w");
        assert_eq!(client.run("RQ.LEASE q w BLOCK 1"), immediate);
    }
    s.verify();
}

#[test]
fn b76_lua_sees_tables_numbers_and_false() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let eval = |script: &str| s.cmd(&["EVAL", script, "1", "q"]);
    assert_eq!(eval("return redis.call('RQ.LEASE', 'absent', 'w') == false and 1 or 0"), 1);
    assert_eq!(eval("return redis.call('RQ.LEN', KEYS[1]) + 1"), 5);
    assert_eq!(eval("return type(redis.call('RQ.PUSH', KEYS[1], 'x'))"), "string");
    assert_eq!(eval("return redis.call('RQ.LEASE', KEYS[1], 'w')[1][4]"), "ready");
    assert_eq!(eval("return redis.call('RQ.ALTER', KEYS[1], 'LEASE', '7200000').ok"), "OK");
    let get = format!("redis.call('RQ.GET', KEYS[1], '{}')", q.dead);
    assert_eq!(eval(&format!("local flat = {get} return flat[1] .. flat[4]")), "iddead");
    assert_eq!(eval(&format!("redis.setresp(3) return {get}.map.state")), "dead");
    assert_eq!(eval("redis.setresp(3) return redis.call('RQ.LEASE', 'absent', 'w') == nil and 1 or 0"), 1);
    let refused = eval("return redis.pcall('RQ.PUSH', KEYS[1], 'x', 'DELAY', '-1').err");
    assert!(refused.text().starts_with("ERR DELAY must be"), "{refused:?}");
    s.verify();
}

#[test]
fn a_refused_command_in_multi_does_not_stop_the_others() {
    let s = Scene::new();
    let replies = s.multi(&["RQ.PUSH q a", "RQ.PUSH q b DELAY x", "RQ.PUSH q c"]);
    assert!(replies[1].error().starts_with("ERR DELAY"));
    assert_eq!(s.peek("q", "READY"), ["a", "c"]);
    s.verify();
}

#[test]
fn replies_are_bytes_for_bytes_what_the_protocol_says() {
    let server = Server::start();
    let (two, three) = (server.client(), server.client3());
    let raw = |client: &Client, line: &str| {
        client.send_line(line);
        String::from_utf8(client.raw_reply()).expect("text")
    };
    assert_eq!(raw(&two, "RQ.LEASE q w"), "*-1\r\n");
    assert_eq!(raw(&three, "RQ.LEASE q w"), "_\r\n");
    assert_eq!(raw(&three, "RQ.ACKLEASE q 1-0 1 w"), "*2\r\n:-1\r\n_\r\n");
    assert_eq!(raw(&two, "RQ.ACK q 1-0 1 1-1 1"), "*2\r\n:-1\r\n:-1\r\n");
    assert_eq!(raw(&two, "RQ.PEEK q READY"), "*2\r\n$1\r\n0\r\n*0\r\n");
    assert_eq!(raw(&two, "RQ.CREATE q"), ":1\r\n");
    assert_eq!(raw(&two, "RQ.ALTER q LEASE 5"), "+OK\r\n");
    assert_eq!(raw(&two, "RQ.LEN q"), ":0\r\n");
}

/// What RQ.LEASE replies, for a library that turns replies into types.
type Leased = Vec<(String, i64, i64, Vec<u8>, i64)>;

#[test]
fn a_client_library_understands_all_of_it() {
    let s = Scene::new();
    for protocol in ["resp2", "resp3"] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/?protocol={protocol}", s.port)).expect("an address");
        let mut c = client.get_connection().expect("a connection");
        let mut push = || -> String { redis::cmd("RQ.PUSH").arg("q").arg(b"\0\xff".as_slice()).query(&mut c).expect("RQ.PUSH") };
        let ids = [push(), push()];
        let leased: Leased = redis::cmd("RQ.LEASE").arg("q").arg("w").query(&mut c).expect("RQ.LEASE");
        let (id, token, deliveries, payload, lease_ms) = &leased[0];
        assert_eq!((id, *deliveries, payload.as_slice(), *lease_ms), (&ids[0], 1, b"\0\xff".as_slice(), 30_000));
        let job: HashMap<String, redis::Value> = redis::cmd("RQ.GET").arg("q").arg(id).query(&mut c).expect("RQ.GET");
        assert_eq!(job["token"], redis::Value::Int(*token));
        assert_eq!(job["reason"], redis::Value::Nil);
        let next: (i64, Option<Leased>) = redis::cmd("RQ.ACKLEASE").arg("q").arg(id).arg(token).arg("w").query(&mut c).expect("RQ.ACKLEASE");
        assert_eq!((next.0, next.1.as_ref().map(Vec::len)), (1, Some(1)));
        let (id, token) = next.1.map(|jobs| (jobs[0].0.clone(), jobs[0].1)).expect("a job");
        let next: (i64, Option<Leased>) = redis::cmd("RQ.ACKLEASE").arg("q").arg(id).arg(token).arg("w").arg("BLOCK").arg(1).query(&mut c).expect("RQ.ACKLEASE");
        assert_eq!(next, (1, None));
        let none: Option<Leased> = redis::cmd("RQ.LEASE").arg("q").arg("w").query(&mut c).expect("RQ.LEASE");
        assert_eq!(none, None);
        let info: HashMap<String, redis::Value> = redis::cmd("RQ.INFO").arg("q").query(&mut c).expect("RQ.INFO");
        assert_eq!(info["length"], redis::Value::Int(0));
        let refused = redis::cmd("RQ.ALTER").arg("absent").arg("LEASE").arg(5).query::<()>(&mut c).expect_err("refused");
        assert_eq!(refused.code(), Some("NOQUEUE"));
    }
    s.verify();
}
