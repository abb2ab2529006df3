//! A client of a cluster: it goes after redirections, with one connection to each node.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use super::client::{patience, Client};
use super::reply::Reply;

/// What passes by itself: a slot is moved, a node changes sides.
const PASSING: [&str; 6] = ["TRYAGAIN", "CLUSTERDOWN", "READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN"];

/// See the module.
pub struct Roamer {
    /// Where to ask if nothing else is known.
    seeds: Vec<u16>,
    turn: usize,
    at: u16,
    links: HashMap<u16, Client>,
}

impl Roamer {
    pub fn new(seeds: Vec<u16>) -> Roamer {
        let at = *seeds.first().expect("a node");
        Roamer { seeds, turn: 0, at, links: HashMap::new() }
    }

    /// Runs a command, which may fail, over connections that may not.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Reply {
        self.ask(line).unwrap_or_else(|error| panic!("{line}: the connection was lost: {error}"))
    }

    /// Runs a command. An error: the connection was lost, and nobody knows whether it was done.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> io::Result<Reply> {
        let deadline = Instant::now() + patience();
        let mut asking = None;
        while Instant::now() < deadline {
            let at = asking.unwrap_or(self.at);
            let Some(reply) = self.try_at(at, asking.take().is_some(), line)? else {
                self.elsewhere();
                continue;
            };
            let Reply::Error(text) = &reply else { return Ok(reply) };
            let word = text.split(' ').next().unwrap_or("");
            match (word, text.rsplit_once(':')) {
                ("MOVED", Some((_, port))) => self.at = port.parse().expect("a port"),
                ("ASK", Some((_, port))) => asking = Some(port.parse().expect("a port")),
                _ if PASSING.contains(&word) => {
                    // The server ends the connection itself.
                    if word == "UNBLOCKED" {
                        self.links.remove(&at);
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => return Ok(reply),
            }
        }
        panic!("{line}: no answer within {:?}", patience());
    }

    /// Whether a replica has all that the last command has written.
    pub fn is_safe(&mut self) -> bool {
        let Some(client) = self.links.get(&self.at) else { return false };
        let reply = client.try_send_bytes(b"WAIT 1 5000\r\n").and_then(|()| client.next_reply());
        if reply.is_err() {
            self.links.remove(&self.at);
        }
        matches!(reply, Ok(Reply::Int(1..)))
    }

    /// None: nobody is there, and nothing was sent.
    fn try_at(&mut self, port: u16, asking: bool, line: &str) -> io::Result<Option<Reply>> {
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.links.entry(port) {
            match Client::connect(port) {
                Ok(client) => _ = vacant.insert(client),
                Err(_) => return Ok(None),
            }
        }
        let client = &self.links[&port];
        let ask = || {
            if asking {
                client.try_send_bytes(b"ASKING\r\n")?;
                client.next_reply()?;
            }
            client.try_send_bytes(format!("{line}\r\n").as_bytes())?;
            client.next_reply()
        };
        let reply = ask();
        if reply.is_err() {
            self.links.remove(&port);
            self.elsewhere();
        }
        reply.map(Some)
    }

    /// The next node in turn may know more.
    fn elsewhere(&mut self) {
        self.turn += 1;
        self.at = self.seeds[self.turn % self.seeds.len()];
        std::thread::sleep(Duration::from_millis(5));
    }
}
