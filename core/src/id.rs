//! Job ids: strictly increasing within a queue, like a stream's entry ids.

use std::fmt;

use crate::limits::MAX_TIME_MS;

/// The id of a job, `<ms>-<seq>`: the Unix time of its push in milliseconds, then a number
/// that tells jobs of one millisecond apart. It orders by push.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JobId {
    /// Unix milliseconds, never behind the id before it.
    pub ms: u64,
    /// The place among the jobs of this millisecond.
    pub seq: u32,
}

impl JobId {
    /// The id before every real one.
    pub const ZERO: JobId = JobId { ms: 0, seq: 0 };
    /// The id after every real one.
    pub const MAX: JobId = JobId { ms: u64::MAX, seq: u32::MAX };

    /// The id for a job pushed at `now_ms` after this one: later than this one even if the clock
    /// stepped back.
    pub fn next(self, now_ms: u64) -> JobId {
        if now_ms > self.ms {
            return JobId { ms: now_ms, seq: 0 };
        }
        match self.seq.checked_add(1) {
            Some(seq) => JobId { ms: self.ms, seq },
            None => JobId { ms: self.ms.saturating_add(1), seq: 0 },
        }
    }

    /// Whether `n` jobs can be pushed after this one. Only a queue that was restored with a forged
    /// last id ever runs out of them.
    pub(crate) fn has_next(self, now_ms: u64, n: usize) -> bool {
        let left = u32::MAX.saturating_sub(self.seq);
        now_ms > self.ms || self.ms < MAX_TIME_MS || usize::try_from(left).is_ok_and(|left| left >= n)
    }

    /// Reads `<ms>-<seq>`: two decimal numbers without sign, space or leading zeros, so that an
    /// id has one spelling. None if it is anything else.
    pub fn parse(text: &[u8]) -> Option<JobId> {
        let dash = text.iter().position(|&b| b == b'-')?;
        let (ms, seq) = (text.get(..dash)?, text.get(dash.checked_add(1)?..)?);
        let ms = decimal(ms)?;
        let seq = u32::try_from(decimal(seq)?).ok()?;
        (ms <= MAX_TIME_MS).then_some(JobId { ms, seq })
    }

    /// Writes the id into `buffer` and returns the part that was written.
    pub fn write(self, buffer: &mut IdText) -> &[u8] {
        let mut at = buffer.0.len();
        at = digits(&mut buffer.0, at, u64::from(self.seq));
        at = at.saturating_sub(1);
        if let Some(b) = buffer.0.get_mut(at) {
            *b = b'-';
        }
        at = digits(&mut buffer.0, at, self.ms);
        buffer.0.get(at..).unwrap_or(&[])
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Room for the text of one id, so that a reply allocates nothing for it.
pub struct IdText([u8; 32]);

impl IdText {
    /// An empty buffer.
    pub fn new() -> IdText {
        IdText([0; 32])
    }
}

impl Default for IdText {
    fn default() -> IdText {
        IdText::new()
    }
}

/// Writes `n` in decimal so that it ends before `end`; returns where it begins.
fn digits(buffer: &mut [u8; 32], end: usize, mut n: u64) -> usize {
    let mut at = end;
    loop {
        at = at.saturating_sub(1);
        if let Some(b) = buffer.get_mut(at) {
            *b = b'0'.saturating_add(u8::try_from(n % 10).unwrap_or(0));
        }
        n /= 10;
        if n == 0 {
            return at;
        }
    }
}

/// A decimal number in its one canonical spelling.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    match text {
        [] | [b'0', _, ..] => None,
        _ => text.iter().try_fold(0u64, |n, &b| {
            let digit = b.checked_sub(b'0').filter(|d| *d < 10)?;
            n.checked_mul(10)?.checked_add(u64::from(digit))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        let mut text = IdText::new();
        for id in [JobId { ms: 0, seq: 0 }, JobId { ms: 1_700_000_000_000, seq: u32::MAX }] {
            let written = id.write(&mut text).to_vec();
            assert_eq!(written, id.to_string().into_bytes());
            assert_eq!(JobId::parse(&written), Some(id));
        }
        for bad in ["", "-", "1", "1-", "-1", "01-0", "1-00", "+1-0", "1-0 ", "1-4294967296", "1-1-1",
            "18446744073709551616-0", "x-0"] {
            assert_eq!(JobId::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn ids_grow_when_the_clock_steps_back() {
        let a = JobId::ZERO.next(1000);
        let b = a.next(10);
        let c = JobId { ms: 1000, seq: u32::MAX }.next(1000);
        assert!(a < b && b < c);
        assert_eq!(c, JobId { ms: 1001, seq: 0 });
    }
}
