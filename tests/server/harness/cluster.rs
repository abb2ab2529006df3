//! A cluster of real servers on this machine.

use std::net::TcpListener;

use super::client::wait_until;
use super::reply::Reply;
use super::roamer::Roamer;
use super::server::Server;

/// The slots of a cluster.
const SLOTS: u32 = 16_384;

/// Primaries with a part of the slots each, and perhaps replicas.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// So many primaries, then so many replicas, dealt out to the primaries in turn.
    #[track_caller]
    pub fn start(primaries: usize, replicas: usize) -> Cluster {
        Cluster::with(primaries, replicas, &[])
    }

    /// The same, with further lines of configuration for all of them.
    #[track_caller]
    pub fn with(primaries: usize, replicas: usize, config: &[&str]) -> Cluster {
        let nodes: Vec<Server> = (0..primaries + replicas).map(|_| node(config)).collect();
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
        for (n, node) in cluster.nodes.iter().skip(primaries).enumerate() {
            let replicate = format!("CLUSTER REPLICATE {}", cluster.id(n % primaries));
            wait_until("its knowing the primary by name", || !node.try_run(&replicate).is_error());
            wait_until("the replica's link", || node.server_info("replication")["master_link_status"] == "up");
        }
        cluster.wait("all nodes know the replicas", |node| {
            let nodes = node.try_run("CLUSTER NODES");
            !nodes.is_error() && nodes.text().matches("slave").count() == replicas
        });
        cluster.wait_ok();
        cluster
    }

    /// Waits until all nodes serve.
    #[track_caller]
    pub fn wait_ok(&self) {
        self.wait("the cluster", |node| info(node, "cluster_state") == "ok");
    }

    /// Makes one node known to another.
    #[track_caller]
    pub fn meet(&self, node: usize, other: usize) {
        let other = &self.nodes[other];
        self.nodes[node].run(format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, bus_port(other)));
    }

    fn wait(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        wait_until(what, || self.alive().all(&holds));
    }

    fn alive(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_up())
    }

    /// The name of a node within the cluster.
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].run("CLUSTER MYID").text().to_owned()
    }

    /// The node that serves a slot, as it says itself.
    pub fn owner(&self, slot: i64) -> Option<usize> {
        (0..self.nodes.len()).find(|n| {
            let node = &self.nodes[*n];
            node.is_up() && primary_of(node, slot).is_some_and(|id| node.try_run("CLUSTER MYID") == id.as_str())
        })
    }

    /// Waits until a node serves a slot, and all others know.
    #[track_caller]
    pub fn wait_owner(&self, slot: i64, owner: usize) {
        let id = self.id(owner);
        self.wait("the slot's new owner", |node| primary_of(node, slot).as_ref() == Some(&id));
    }

    /// The slot of a key, and the node that serves it.
    #[track_caller]
    pub fn home(&self, key: &str) -> (i64, usize) {
        let slot = self.nodes[0].run(format!("CLUSTER KEYSLOT {key}")).int();
        (slot, self.owner(slot).expect("somebody serves it"))
    }

    /// A node that is a replica of this one.
    #[track_caller]
    pub fn replica_of(&self, primary: usize) -> usize {
        let port = self.nodes[primary].port.to_string();
        let is_it = |n: &usize| {
            let node = &self.nodes[*n];
            node.is_up() && node.server_info("replication").get("master_port").is_some_and(|its| *its == port.as_str())
        };
        (0..self.nodes.len()).find(is_it).expect("a replica")
    }

    /// A client that finds its way.
    pub fn client(&self) -> Roamer {
        Roamer::new(self.alive().map(|node| node.port).collect())
    }

    /// Runs a command where its key is.
    #[track_caller]
    pub fn run(&self, line: &str) -> Reply {
        self.client().run(line)
    }
}

/// The name of the node that serves a slot, as this one has it; None also while it is loading.
fn primary_of(node: &Server, slot: i64) -> Option<String> {
    let reply = node.try_run("CLUSTER SLOTS");
    let Reply::Array(ranges) = &reply else { return None };
    let range = ranges.iter().map(Reply::array).find(|range| (range[0].int()..=range[1].int()).contains(&slot))?;
    Some(range[2].array()[2].text().to_owned())
}

/// A line of CLUSTER INFO; nothing while it is loading.
fn info(node: &Server, name: &str) -> String {
    let reply = node.try_run("CLUSTER INFO");
    if reply.is_error() {
        return String::new();
    }
    let value = reply.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or("").trim().to_owned()
}

fn bus_port(node: &Server) -> String {
    node.config("cluster-port")
}

/// A server in cluster mode. By default its bus takes the port 10,000 above its own, which may not
/// be there. Nobody is taken for dead because the machine is busy: tests say who takes over.
fn node(config: &[&str]) -> Server {
    let bus = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    let bus = format!("cluster-port {bus}");
    let base = ["cluster-enabled yes", &bus, "cluster-node-timeout 15000", "cluster-replica-no-failover yes"];
    Server::with(&[&base, config].concat())
}
