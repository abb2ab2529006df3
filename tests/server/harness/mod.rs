//! What the tests stand on: real servers, a client, and the checks that end every test.

mod client;
mod cluster;
mod launch;
mod reply;
mod resharding;
mod roamer;
mod scene;
mod server;
mod stock;
mod traffic;

pub use cluster::Cluster;
pub use client::{ids, jobs, patience, wait_until, Client, Job};
pub use reply::{Fields, Reply};
pub use resharding::{How, Moving};
pub use scene::{check_equal, Scene};
pub use launch::module;
pub use server::{block, crowd_out, outgrow, Server, Stop};
pub use stock::{stock, Stock};
pub use traffic::Traffic;

// What only tests/chaos uses, which has this folder as well.
#[allow(unused_imports)]
pub use roamer::Roamer;
#[allow(unused_imports)]
pub use scene::{check_counters, check_files};
