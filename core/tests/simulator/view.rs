//! A queue as its clients see it, by PEEK.

use super::call::{id_of, Id};
use super::node::Node;
use crate::support::{at, items};
use rq_core::Tree;

/// One job.
#[derive(Debug)]
pub struct View {
    pub id: Id,
    pub state: String,
    pub priority: i64,
    pub group: Option<String>,
    pub key: Option<String>,
    pub schedule: Option<String>,
    pub slot_at: u64,
    pub due_at: u64,
    pub deliveries: u64,
    pub max_deliveries: u64,
    pub failures: u64,
    pub expiries: u64,
    pub token: u64,
    pub deadline: u64,
    pub reason: Option<String>,
    pub payload: String,
}

impl View {
    fn of(tree: &Tree) -> View {
        let Tree::Map(pairs) = tree else { panic!("no map: {tree:?}") };
        let find = |name: &str| {
            let found = pairs.iter().find(|(key, _)| matches!(key, Tree::Bulk(key) if key == name.as_bytes()));
            &found.unwrap_or_else(|| panic!("no {name}")).1
        };
        let text = |name: &str| match find(name) {
            Tree::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let number = |name: &str| match find(name) {
            Tree::Int(n) => *n as u64,
            _ => 0,
        };
        View {
            id: id_of(&text("id").expect("an id")),
            state: text("state").expect("a state"),
            priority: number("priority") as i64,
            group: text("group"),
            key: text("dedup"),
            schedule: text("schedule"),
            slot_at: number("slot-at"),
            due_at: number("due-at"),
            deliveries: number("deliveries"),
            max_deliveries: number("max-deliveries"),
            failures: number("failures"),
            expiries: number("expiries"),
            token: number("token"),
            deadline: number("deadline"),
            reason: text("reason"),
            payload: text("payload").expect("a payload"),
        }
    }
}

/// All jobs of a node.
pub fn views(node: &mut Node, true_us: u64) -> Vec<View> {
    let mut all = Vec::new();
    for state in ["READY", "DELAYED", "LEASED", "DEAD", "DONE"] {
        let page = node.run_words("RQ.PEEK", &[state.as_bytes(), b"COUNT", b"1000"], true_us);
        let page = page.reply.expect("PEEK is not refused");
        let before = all.len();
        all.extend(items(at(&page, 1)).iter().map(View::of));
        assert!(all[before..].iter().all(|view| view.state.eq_ignore_ascii_case(state)), "PEEK {state} shows others");
    }
    all
}
