//! Differences between what was expected and what came.

use rq_core::Tree;

use crate::support::show;

pub type Difference = String;

/// The difference, if there is one.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), Difference> {
    if expected == got { Ok(()) } else { Err(format!("{what}:\nexpected {expected:?}\n     got {got:?}")) }
}

/// The difference of two replies. What is null in a map may be left out.
pub fn same_tree(what: &str, expected: &Tree, got: &Tree) -> Result<(), Difference> {
    let (expected, got) = (plain(expected), plain(got));
    if expected == got {
        return Ok(());
    }
    if let (Tree::Map(expected), Tree::Map(got)) = (&expected, &got) {
        let lacks = |pairs: &[(Tree, Tree)], others: &[(Tree, Tree)]| -> Vec<String> {
            let lacking = pairs.iter().filter(|pair| !others.contains(pair));
            lacking.map(|(key, value)| format!("{} {}", show(key), show(value))).collect()
        };
        return Err(format!("{what}, in another order, or:\nexpected {:?}\n     got {:?}", lacks(expected, got), lacks(got, expected)));
    }
    Err(format!("{what}:\nexpected {}\n     got {}", show(&expected), show(&got)))
}

fn plain(tree: &Tree) -> Tree {
    match tree {
        Tree::Array(items) => Tree::Array(items.iter().map(plain).collect()),
        Tree::Map(pairs) => {
            let pairs = pairs.iter().filter(|(_, value)| *value != Tree::Null);
            Tree::Map(pairs.map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        other => other.clone(),
    }
}
