//! Where replies go: the core writes them piece by piece, so nothing is copied on the way.

/// A reply under construction. The caller of `array` and `map` writes as many elements
/// afterwards as it announced.
pub trait Sink {
    /// An integer.
    fn int(&mut self, value: i64);
    /// A binary-safe string.
    fn bulk(&mut self, value: &[u8]);
    /// The head of an array with so many elements.
    fn array(&mut self, len: usize);
    /// The head of a map with so many pairs of key and value; a flat array in RESP2.
    fn map(&mut self, pairs: usize);
    /// The status reply `OK`.
    fn ok(&mut self);
    /// Nothing, where a single value was expected.
    fn null(&mut self);
    /// Nothing, where an array was expected: `*-1` in RESP2, `_` in RESP3.
    fn null_array(&mut self);

    /// A string known to be text.
    fn text(&mut self, value: &str) {
        self.bulk(value.as_bytes());
    }
    /// An unsigned number; those above `i64::MAX` do not occur.
    fn uint(&mut self, value: u64) {
        self.int(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// A reply as a tree, for tests, simulators and JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// An integer.
    Int(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Tree>),
    /// A map, its pairs in order.
    Map(Vec<(Tree, Tree)>),
    /// The status `OK`.
    Ok,
    /// Null.
    Null,
    /// The null array.
    NullArray,
}

/// A sink that builds a [`Tree`].
#[derive(Default)]
pub struct TreeSink {
    open: Vec<(bool, usize, Vec<Tree>)>,
    done: Option<Tree>,
}

impl TreeSink {
    /// An empty sink.
    pub fn new() -> TreeSink {
        TreeSink::default()
    }

    /// The reply, if a whole one was written.
    pub fn finish(self) -> Option<Tree> {
        if self.open.is_empty() { self.done } else { None }
    }

    fn put(&mut self, tree: Tree) {
        let mut tree = tree;
        loop {
            let Some((_, left, items)) = self.open.last_mut() else {
                self.done = Some(tree);
                return;
            };
            items.push(tree);
            *left = left.saturating_sub(1);
            if *left > 0 {
                return;
            }
            let Some((map, _, items)) = self.open.pop() else { return };
            tree = close(map, items);
        }
    }

    fn head(&mut self, map: bool, len: usize) {
        if len == 0 {
            self.put(close(map, Vec::new()));
        } else {
            self.open.push((map, len, Vec::new()));
        }
    }
}

fn close(map: bool, items: Vec<Tree>) -> Tree {
    if !map {
        return Tree::Array(items);
    }
    let mut pairs = Vec::new();
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    Tree::Map(pairs)
}

impl Sink for TreeSink {
    fn int(&mut self, value: i64) {
        self.put(Tree::Int(value));
    }
    fn bulk(&mut self, value: &[u8]) {
        self.put(Tree::Bulk(value.to_vec()));
    }
    fn array(&mut self, len: usize) {
        self.head(false, len);
    }
    fn map(&mut self, pairs: usize) {
        self.head(true, pairs.saturating_mul(2));
    }
    fn ok(&mut self) {
        self.put(Tree::Ok);
    }
    fn null(&mut self) {
        self.put(Tree::Null);
    }
    fn null_array(&mut self) {
        self.put(Tree::NullArray);
    }
}
