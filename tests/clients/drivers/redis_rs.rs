//! Drives redis-rs: `redis_rs PORT DB PROTOCOL`; see clients.py.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{self, BufRead};

use redis::{pipe, Cmd, Connection, Value};
use serde_json::{json, Value as Json};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, db, protocol] = args.as_slice() else { panic!("PORT DB PROTOCOL") };
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/{db}?protocol=resp{protocol}")).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    for line in io::stdin().lock().lines() {
        let request: Json = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let commands: Vec<Cmd> = array(&request["commands"]).iter().map(command).collect();
        let replies = if request["do"] == "call" {
            commands.iter().map(|command| call(&mut connection, command)).collect()
        } else {
            together(&mut connection, commands, request["do"] == "multi")
        };
        println!("{}", Json::Array(replies));
    }
}

fn array(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn command(words: &Json) -> Cmd {
    let mut command = Cmd::new();
    for word in array(words) {
        command.arg(from_hex(word.as_str().unwrap_or_default()));
    }
    command
}

fn call(connection: &mut Connection, command: &Cmd) -> Json {
    match command.query::<Value>(connection) {
        Ok(reply) => spelled(&reply),
        Err(error) => json!({ "error": message(error.code(), error.detail()) }),
    }
}

fn together(connection: &mut Connection, commands: Vec<Cmd>, atomic: bool) -> Vec<Json> {
    let mut pipeline = pipe();
    if atomic {
        pipeline.atomic();
    }
    pipeline.ignore_errors();
    for command in commands {
        pipeline.add_command(command);
    }
    match pipeline.query::<Vec<Value>>(connection) {
        Ok(replies) => replies.iter().map(spelled).collect(),
        Err(error) => vec![json!({ "error": error.to_string() })],
    }
}

fn spelled(reply: &Value) -> Json {
    match reply {
        Value::Nil => Json::Null,
        Value::Int(n) => json!(n),
        Value::BulkString(text) => json!({ "text": to_hex(text) }),
        Value::SimpleString(text) => json!({ "text": to_hex(text.as_bytes()) }),
        Value::Okay => json!({ "text": to_hex(b"OK") }),
        Value::Array(replies) => replies.iter().map(spelled).collect(),
        Value::Map(pairs) => {
            let pairs: Vec<Json> = pairs.iter().map(|(name, value)| json!([spelled(name), spelled(value)])).collect();
            json!({ "map": pairs })
        }
        Value::ServerError(error) => json!({ "error": message(Some(error.code()), error.details()) }),
        other => json!(format!("{other:?}")),
    }
}

fn message(code: Option<&str>, detail: Option<&str>) -> String {
    format!("{} {}", code.unwrap_or_default(), detail.unwrap_or_default())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).filter_map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
