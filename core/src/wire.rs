//! The bytes of ops.
//!
//! A batch is `version, now, op, op, ...`. Numbers are LEB128 varints in their shortest form.
//! Within a batch, ids, times and tokens are written as signed differences (zigzag) to the one
//! before, and a name that is the same as the one before takes one byte; so a LEASE or ACK in a
//! batch takes four to six bytes. A batch can be read without the queue it belongs to.
//!
//! To change the format: raise `VERSION`, keep reading the old one, and keep a golden file of it.

use crate::id::JobId;
use crate::limits::MAX_TIME_MS;

/// The version that is written.
pub(crate) const VERSION: u8 = 1;

/// Bytes that are not what they should be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The offset in the batch.
    pub at: usize,
    /// What was wrong.
    pub what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed ops at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Malformed {}

/// What the next id and token are told apart from.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    now: u64,
    id: JobId,
    token: u64,
}

impl Before {
    fn begin(now: u64) -> Before {
        Before { now, id: JobId { ms: now, seq: 0 }, token: now.saturating_mul(1000) }
    }
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    ((n >> 1) as i64) ^ ((n & 1) as i64).wrapping_neg()
}

/// Writes batches into one buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    before: Before,
    name: (usize, usize),
    error: (usize, usize),
    blob: (usize, usize),
    group: (usize, usize),
}

impl Writer {
    /// Starts a batch at `now` if none is under way.
    pub(crate) fn begin(&mut self, now: u64) {
        if self.bytes.is_empty() {
            self.before = Before::begin(now);
            self.name = (0, 0);
            self.error = (0, 0);
            self.blob = (0, 0);
            self.group = (0, 0);
            self.bytes.push(VERSION);
            self.number(now);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties it; a large buffer is given back.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push((n as u8) | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    pub(crate) fn string(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text);
    }

    fn difference(&mut self, value: u64, before: u64) {
        self.number(zigzag((value as i64).wrapping_sub(before as i64)));
    }

    pub(crate) fn time(&mut self, ms: u64) {
        self.difference(ms, self.before.now);
    }

    pub(crate) fn token(&mut self, token: u64) {
        self.difference(token, self.before.token);
        self.before.token = token;
    }

    pub(crate) fn id(&mut self, id: JobId) {
        self.difference(id.ms, self.before.id.ms);
        if id.ms == self.before.id.ms {
            self.difference(u64::from(id.seq), u64::from(self.before.id.seq));
        } else {
            self.number(u64::from(id.seq));
        }
        self.before.id = id;
    }

    /// A name: its length + 1, or 0 for the one before.
    pub(crate) fn name(&mut self, text: &[u8]) {
        self.name = self.repeated(text, self.name);
    }

    /// An error text, likewise.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.error = self.repeated(text, self.error);
    }

    /// A group's name, likewise.
    pub(crate) fn group(&mut self, text: &[u8]) {
        self.group = self.repeated(text, self.group);
    }

    /// A result, likewise.
    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.blob = self.repeated(bytes, self.blob);
    }

    fn repeated(&mut self, text: &[u8], before: (usize, usize)) -> (usize, usize) {
        let (start, end) = before;
        if start > 0 && self.bytes.get(start..end) == Some(text) {
            self.byte(0);
            return before;
        }
        self.number((text.len() as u64).saturating_add(1));
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        (start, self.bytes.len())
    }
}

/// Reads a batch.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    before: Before,
    name: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    blob: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// Reads the head of a batch; the reader, and the batch's time.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<(Reader<'a>, u64), Malformed> {
        let mut reader = Reader { bytes, at: 0, before: Before::default(), name: None, error: None, blob: None, group: None };
        if reader.byte()? != VERSION {
            return Err(Malformed { at: 0, what: "a version that this module does not know: upgrade it" });
        }
        let now = reader.limited(MAX_TIME_MS, "the batch's time")?;
        reader.before = Before::begin(now);
        Ok((reader, now))
    }

    pub(crate) fn wrong(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.wrong("cut short"))?;
        self.at = self.at.saturating_add(1);
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(self.wrong("a number above 64 bits"));
            }
            n |= part << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(self.wrong("a number that is not in its shortest form"));
                }
                return Ok(n);
            }
        }
        Err(self.wrong("a number above 64 bits"))
    }

    pub(crate) fn limited(&mut self, high: u64, what: &'static str) -> Result<u64, Malformed> {
        let n = self.number()?;
        if n <= high { Ok(n) } else { Err(self.wrong(what)) }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.wrong("a string that is cut short"))?;
        self.at = self.at.saturating_add(taken.len());
        Ok(taken)
    }

    pub(crate) fn string(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = self.limited(max as u64, "a string that is too long")?;
        self.take(len)
    }

    fn difference(&mut self, before: u64) -> Result<u64, Malformed> {
        Ok((before as i64).wrapping_add(unzigzag(self.number()?)) as u64)
    }

    pub(crate) fn time(&mut self) -> Result<u64, Malformed> {
        let ms = self.difference(self.before.now)?;
        if ms <= MAX_TIME_MS { Ok(ms) } else { Err(self.wrong("a time out of range")) }
    }

    pub(crate) fn token(&mut self) -> Result<u64, Malformed> {
        let token = self.difference(self.before.token)?;
        if token > crate::limits::MAX_TOKEN {
            return Err(self.wrong("a token out of range"));
        }
        self.before.token = token;
        Ok(token)
    }

    pub(crate) fn id(&mut self) -> Result<JobId, Malformed> {
        let ms = self.difference(self.before.id.ms)?;
        let seq = if ms == self.before.id.ms {
            self.difference(u64::from(self.before.id.seq))?
        } else {
            self.number()?
        };
        match u32::try_from(seq) {
            Ok(seq) if ms <= MAX_TIME_MS => {
                self.before.id = JobId { ms, seq };
                Ok(self.before.id)
            }
            _ => Err(self.wrong("an id out of range")),
        }
    }

    pub(crate) fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let name = self.repeated(self.name, crate::limits::MAX_NAME)?;
        self.name = Some(name);
        Ok(name)
    }

    pub(crate) fn error(&mut self) -> Result<&'a [u8], Malformed> {
        let error = self.repeated(self.error, crate::limits::MAX_ERROR)?;
        self.error = Some(error);
        Ok(error)
    }

    pub(crate) fn group(&mut self) -> Result<&'a [u8], Malformed> {
        let group = self.repeated(self.group, crate::limits::MAX_NAME)?;
        self.group = Some(group);
        Ok(group)
    }

    pub(crate) fn blob(&mut self) -> Result<&'a [u8], Malformed> {
        let blob = self.repeated(self.blob, crate::limits::MAX_PAYLOAD)?;
        self.blob = Some(blob);
        Ok(blob)
    }

    fn repeated(&mut self, before: Option<&'a [u8]>, max: usize) -> Result<&'a [u8], Malformed> {
        match self.number()?.checked_sub(1) {
            None => before.ok_or_else(|| self.wrong("the same string as none before")),
            Some(len) if len <= max as u64 => self.take(len),
            Some(_) => Err(self.wrong("a string that is too long")),
        }
    }
}
