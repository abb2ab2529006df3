//! How slots are moved from node to node.

use super::client::wait_until;
use super::cluster::Cluster;
use super::reply::Reply;

/// How a slot is moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// By SETSLOT and MIGRATE, as every server can.
    KeyByKey,
    /// By the server itself: Valkey 9, Redis 8.4.
    AtOnce,
}

impl Cluster {
    /// Whether the servers can move slots [`How::AtOnce`].
    pub fn moves_at_once(&self) -> bool {
        let node = &self.nodes[0];
        node.version() >= if node.is_valkey() { (9, 0) } else { (8, 4) }
    }

    /// Moves a slot, and waits until all know.
    #[track_caller]
    pub fn move_slot(&self, slot: i64, to: usize, how: How) {
        match how {
            How::KeyByKey => self.move_keys(slot, to),
            How::AtOnce => {
                let from = self.owner(slot).expect("somebody serves it");
                self.begin_move(slot, from, to);
                // It may have ended in failure.
                wait_until("the move", || {
                    let there = self.owner(slot) == Some(to);
                    if !there && self.move_state(from, to) == Moving::Failed {
                        self.begin_move(slot, from, to);
                    }
                    there
                });
            }
        }
        self.wait_owner(slot, to);
    }

    /// One key after another, as redis-cli --cluster reshard does it.
    #[track_caller]
    fn move_keys(&self, slot: i64, to: usize) {
        let from = self.owner(slot).expect("somebody serves it");
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        for (node, word, other) in [(target, "IMPORTING", from), (source, "MIGRATING", to)] {
            let line = format!("CLUSTER SETSLOT {slot} {word} {}", self.id(other));
            // It is refused while the node believes in a move at once, whose other end may be dead.
            wait_until(&line, || {
                let done = !node.try_run(&line).is_error();
                if !done && !node.is_valkey() {
                    node.try_run("CLUSTER MIGRATION CANCEL ALL");
                }
                done
            });
        }
        loop {
            let keys = source.run(format!("CLUSTER GETKEYSINSLOT {slot} 100")).texts();
            if keys.is_empty() {
                break;
            }
            let port = target.port.to_string();
            let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "REPLACE", "KEYS"];
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let words = [&words, &keys[..]].concat();
            // A target that was started a moment ago refuses; then all of them are still here.
            wait_until("MIGRATE", || !source.cmd(&words).is_error());
        }
        for node in [target, source] {
            node.run(format!("CLUSTER SETSLOT {slot} NODE {}", self.id(to)));
        }
    }

    /// Begins to move a slot at once.
    #[track_caller]
    pub fn begin_move(&self, slot: i64, from: usize, to: usize) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        // It is refused while what another one has left is being removed.
        wait_until("a move's begin", || {
            let reply = match source.is_valkey() {
                true => source.try_run(format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", self.id(to))),
                false => target.try_run(format!("CLUSTER MIGRATION IMPORT {slot} {slot}")),
            };
            // Redis also tries a move again by itself, and may have done it meanwhile.
            !reply.is_error() || self.owner(slot) == Some(to)
        });
    }

    /// Gives up all moves between the two. False: there was none any more.
    #[track_caller]
    pub fn cancel_moves(&self, from: usize, to: usize) -> bool {
        let reply = match self.nodes[from].is_valkey() {
            true => self.nodes[from].try_run("CLUSTER CANCELSLOTMIGRATIONS"),
            false => self.nodes[to].try_run("CLUSTER MIGRATION CANCEL ALL"),
        };
        !reply.is_error() && reply != 0
    }

    /// How the last move between the two goes, as the node that was asked to do it says.
    #[track_caller]
    pub fn move_state(&self, from: usize, to: usize) -> Moving {
        let moves = match self.nodes[from].is_valkey() {
            true => self.nodes[from].run("CLUSTER GETSLOTMIGRATIONS"),
            false => self.nodes[to].run("CLUSTER MIGRATION STATUS ALL"),
        };
        // The newest comes first.
        let Some(newest) = moves.array().first().map(Reply::fields) else { return Moving::None };
        match newest["state"].text() {
            "success" | "completed" => Moving::Done,
            "failed" | "cancelled" | "canceled" => Moving::Failed,
            _ => Moving::UnderWay,
        }
    }
}

/// How a move goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moving {
    None,
    UnderWay,
    Done,
    Failed,
}
