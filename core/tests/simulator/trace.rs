//! What happened in a run, as lines for a person and as one number for comparing runs.

use std::fmt;

#[derive(Default)]
pub struct Trace {
    digest: Fnv,
    keep: bool,
    pub lines: Vec<String>,
    line: String,
}

impl Trace {
    /// With `keep` the lines themselves are kept, not only their digest.
    pub fn new(keep: bool) -> Trace {
        Trace { keep, ..Trace::default() }
    }

    pub fn say(&mut self, what: fmt::Arguments<'_>) {
        self.line.clear();
        fmt::Write::write_fmt(&mut self.line, what).expect("a string takes all");
        self.digest.add(self.line.as_bytes());
        if self.keep {
            self.lines.push(self.line.clone());
        }
    }

    pub fn digest(&self) -> u64 {
        self.digest.0
    }
}

/// A digest that is the same on every machine (FNV-1a).
#[derive(Clone, Copy)]
pub struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn of(bytes: &[u8]) -> u64 {
        let mut digest = Fnv::default();
        digest.add(bytes);
        digest.0
    }
}
