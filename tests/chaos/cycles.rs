//! Memory.
pub fn run(_time: Option<std::time::Duration>) {}
