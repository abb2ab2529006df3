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
        let (ms, rest) = leading(text)?;
        let seq = u32::try_from(decimal(rest.strip_prefix(b"-")?)?).ok()?;
        (ms <= MAX_TIME_MS).then_some(JobId { ms, seq })
    }

    /// Writes the id into `buffer` and returns the part that was written.
    pub fn write(self, buffer: &mut IdText) -> &[u8] {
        if buffer.ms != Some(self.ms) {
            buffer.start = digits(&mut buffer.text, DASH, self.ms);
            buffer.ms = Some(self.ms);
        }
        let len = self.seq.checked_ilog10().map_or(1, |tens| (tens as usize).saturating_add(1));
        let end = DASH.saturating_add(1).saturating_add(len);
        digits(&mut buffer.text, end, u64::from(self.seq));
        buffer.text.get(buffer.start..end).unwrap_or(&[])
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Room for the text of one id, so that a reply allocates nothing for it. The ids of a batch begin
/// alike, so what is there is used again.
pub struct IdText {
    text: [u8; 32],
    /// The milliseconds that are written there, up to the dash, and from where on.
    ms: Option<u64>,
    start: usize,
}

/// The place of the dash: after it there is room for all that 32 bits can be.
const DASH: usize = 20;

impl IdText {
    /// An empty buffer.
    pub fn new() -> IdText {
        let mut text = [0; 32];
        text[DASH] = b'-';
        IdText { text, ms: None, start: DASH }
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
    // Two at a time, as long as there are two.
    while n >= 10 {
        let (tens, rest) = (n / 100, n % 100);
        at = at.saturating_sub(2);
        if let Some([high, low]) = buffer.get_mut(at..).and_then(|from| from.first_chunk_mut()) {
            (*high, *low) = (b'0' | (rest / 10) as u8, b'0' | (rest % 10) as u8);
        }
        n = tens;
    }
    if n > 0 || at == end {
        at = at.saturating_sub(1);
        if let Some(b) = buffer.get_mut(at) {
            *b = b'0' | n as u8;
        }
    }
    at
}

/// A decimal number in its one canonical spelling, of at most 19 digits: no bound that is set to
/// numbers anywhere has more.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    leading(text).and_then(|(n, rest)| rest.is_empty().then_some(n))
}

/// The number that a text begins with, and what follows it.
fn leading(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut n, mut rest) = (0u64, text);
    while let Some((eight, after)) = rest.split_first_chunk() {
        let Some(digits) = eight_digits(*eight) else { break };
        n = n.wrapping_mul(100_000_000).wrapping_add(digits);
        rest = after;
    }
    while let Some((byte, after)) = rest.split_first() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
        rest = after;
    }
    let len = text.len().saturating_sub(rest.len());
    let canonical = matches!(len, 1..=19) && (len == 1 || text.first() != Some(&b'0'));
    canonical.then_some((n, rest))
}

/// The number that eight digits make, all at once: first in pairs, then in fours.
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);
    let digits = u64::from_le_bytes(text) ^ ZEROS;
    // Above 9 a byte of them has a high bit, or gets one when 6 is added.
    if (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0 != 0 {
        return None;
    }
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        let mut text = IdText::new();
        let ids = [(0, 0), (1_700_000_000_000, u32::MAX), (1_700_000_000_000, 9), (1_700_000_000_000, 10), (7, 10), (MAX_TIME_MS, 0)];
        for id in ids.map(|(ms, seq)| JobId { ms, seq }) {
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
    fn numbers_have_one_spelling() {
        let mut n = 1u64;
        for _ in 0..2_000 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (n >> 1) >> (n % 60);
            let text = number.to_string();
            assert_eq!(decimal(text.as_bytes()), Some(number).filter(|_| text.len() < 20));
            let id = JobId { ms: number % 1_000_000_000_000, seq: n as u32 };
            assert_eq!(id.write(&mut IdText::new()), id.to_string().as_bytes());
            // One wrong character anywhere, of all there are.
            let at = n as usize % text.len();
            let mut wrong = text.into_bytes();
            wrong[at] = (n >> 8) as u8;
            let right = wrong.iter().all(u8::is_ascii_digit) && (wrong[0] != b'0' || wrong.len() == 1);
            assert_eq!(decimal(&wrong).is_some(), right, "{wrong:?}");
        }
        for (text, number) in [("0", Some(0)), ("10000000", Some(10_000_000)), ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("10000000000000000000", None), ("00000000", None), ("", None)] {
            assert_eq!(decimal(text.as_bytes()), number, "{text}");
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
