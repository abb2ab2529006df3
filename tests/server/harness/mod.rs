//! What the tests stand on: real servers, a client, and the checks that end every test.

mod client;
mod reply;
mod scene;
mod server;
mod stock;

pub use client::{ids, jobs, wait_until, Client, Job, PATIENCE};
pub use reply::{Fields, Reply};
pub use scene::{check_counters, check_equal, check_files, Scene};
pub use server::{Server, Stop};
pub use stock::{stock, Stock};
