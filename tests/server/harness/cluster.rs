//! A cluster of real servers on this machine.

use std::net::TcpListener;

use super::client::{wait_until, Client};
use super::reply::Reply;
use super::server::Server;

/// The slots of a cluster.
const SLOTS: u32 = 16_384;

/// Primaries with a part of the slots each, and perhaps a replica of the first.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// So many primaries, then so many replicas of the first one.
    #[track_caller]
    pub fn start(primaries: usize, replicas: usize) -> Cluster {
        let nodes: Vec<Server> = (0..primaries + replicas).map(|_| node()).collect();
        let cluster = Cluster { nodes };
        for (n, node) in cluster.nodes.iter().enumerate() {
            // Epochs of their own, so that they need not find out who gives way.
            node.run(format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
            if n > 0 {
                cluster.meet(n, 0);
            }
        }
        let share = SLOTS.div_ceil(u32::try_from(primaries).expect("few nodes"));
        for (n, node) in cluster.nodes.iter().take(primaries).enumerate() {
            let from = share * u32::try_from(n).expect("few nodes");
            node.run(format!("CLUSTER ADDSLOTSRANGE {from} {}", (from + share).min(SLOTS) - 1));
        }
        cluster.wait("all nodes know all", |node| info(node, "cluster_known_nodes") == cluster.nodes.len().to_string());
        for node in &cluster.nodes[primaries..] {
            node.run(format!("CLUSTER REPLICATE {}", cluster.id(0)));
            wait_until("the replica's link", || node.server_info("replication")["master_link_status"] == "up");
        }
        let replicas_of_first = format!("CLUSTER REPLICAS {}", cluster.id(0));
        cluster.wait("all nodes know the replicas", |node| node.run(&replicas_of_first).array().len() == replicas);
        cluster.wait("the cluster", |node| info(node, "cluster_state") == "ok");
        cluster
    }

    /// Makes one node known to another.
    #[track_caller]
    pub fn meet(&self, node: usize, other: usize) {
        let other = &self.nodes[other];
        self.nodes[node].run(format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, bus_port(other)));
    }

    fn wait(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        wait_until(what, || self.nodes.iter().all(&holds));
    }

    /// The name of a node within the cluster.
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].run("CLUSTER MYID").text().to_owned()
    }

    /// The node that serves a slot, as it says itself.
    pub fn owner(&self, slot: i64) -> Option<usize> {
        (0..self.nodes.len()).find(|n| {
            let (node, id) = (&self.nodes[*n], self.id(*n));
            let ranges = node.run("CLUSTER SLOTS");
            ranges.array().iter().any(|range| {
                let [from, to, primary, ..] = range.array() else { panic!("not a range: {range:?}") };
                (from.int()..=to.int()).contains(&slot) && primary.array()[2].text() == id
            })
        })
    }

    /// Waits until a node serves a slot, and all others know.
    #[track_caller]
    pub fn wait_owner(&self, slot: i64, owner: usize) {
        let id = self.id(owner);
        self.wait("the slot's new owner", |node| {
            let ranges = node.run("CLUSTER SLOTS");
            ranges.array().iter().any(|range| {
                let range = range.array();
                (range[0].int()..=range[1].int()).contains(&slot) && range[2].array()[2].text() == id
            })
        });
    }

    /// Runs a command where its key is, going after redirections as clients do.
    #[track_caller]
    pub fn run(&self, line: &str) -> Reply {
        let mut at = 0;
        let mut asking = false;
        let mut reply = None;
        wait_until(&format!("an answer to {line}"), || {
            let client: Client = self.nodes[at].client();
            if asking {
                client.run("ASKING");
            }
            let answer = client.try_run(line);
            asking = false;
            if answer.is_error() {
                let text = answer.error().to_owned();
                let word = text.split(' ').next().unwrap_or("");
                if let ("MOVED" | "ASK", Some((_, port))) = (word, text.rsplit_once(':')) {
                    asking = word == "ASK";
                    let port: u16 = port.parse().expect("a port");
                    at = self.nodes.iter().position(|node| node.port == port).expect("a node of this cluster");
                    return false;
                }
                // It is being moved, or its node has changed sides.
                if ["TRYAGAIN", "CLUSTERDOWN", "READONLY", "UNBLOCKED"].contains(&word) {
                    return false;
                }
            }
            reply = Some(answer);
            true
        });
        reply.expect("it was waited for")
    }
}

fn info(node: &Server, name: &str) -> String {
    let info = node.run("CLUSTER INFO").text().to_owned();
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("").trim().to_owned()
}

fn bus_port(node: &Server) -> String {
    node.config("cluster-port")
}

/// A server in cluster mode. By default its bus takes the port 10,000 above its own, which may not
/// be there.
fn node() -> Server {
    let bus = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    Server::with(&["cluster-enabled yes", &format!("cluster-port {bus}"), "cluster-node-timeout 15000"])
}
