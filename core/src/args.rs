//! A cursor over the arguments of a command. Whatever is left over in the end is refused.

use crate::error::Error;
use crate::id::JobId;
use crate::limits::{MAX_NAME, MAX_SPAN_MS, MAX_TIME_MS, MAX_TOKEN, MIN_AT_MS};

/// The arguments after the command's name, read from left to right.
pub(crate) struct Args<'a> {
    all: &'a [&'a [u8]],
    at: usize,
}

/// An option's name in upper case, for matching; too long for any option: empty.
pub(crate) struct Keyword([u8; 16], usize);

impl Keyword {
    pub(crate) fn new(word: &[u8]) -> Keyword {
        let mut upper = [0; 16];
        match upper.get_mut(..word.len()) {
            Some(room) => {
                room.copy_from_slice(word);
                room.make_ascii_uppercase();
                Keyword(upper, word.len())
            }
            None => Keyword(upper, 0),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or(&[])
    }
}

impl<'a> Args<'a> {
    pub(crate) fn new(all: &'a [&'a [u8]]) -> Args<'a> {
        Args { all, at: 0 }
    }

    /// The next argument, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let value = self.all.get(self.at)?;
        self.at = self.at.saturating_add(1);
        Some(value)
    }

    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        self.all.get(self.at).copied()
    }

    /// What is left, without moving on.
    pub(crate) fn remaining(&self) -> &'a [&'a [u8]] {
        self.all.get(self.at..).unwrap_or(&[])
    }

    /// The next `n` arguments at once.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [&'a [u8]]> {
        let end = self.at.checked_add(n)?;
        let taken = self.all.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// All arguments that are left.
    pub(crate) fn rest(&mut self) -> &'a [&'a [u8]] {
        let rest = self.all.get(self.at..).unwrap_or(&[]);
        self.at = self.all.len();
        rest
    }

    /// The next argument as an option's name, with its spelling for error messages.
    pub(crate) fn option(&mut self) -> Option<(Keyword, &'a [u8])> {
        let word = self.next()?;
        Some((Keyword::new(word), word))
    }

    /// The value of an option.
    pub(crate) fn value(&mut self, option: &str) -> Result<&'a [u8], Error> {
        self.next().ok_or_else(|| Error::missing_value(option))
    }

    /// An unsigned number as the value of an option.
    pub(crate) fn number(&mut self, option: &str, low: u64, high: u64) -> Result<u64, Error> {
        let value = self.value(option)?;
        number(option, value, low, high)
    }

    /// A bound as the value of an option; -1 is none.
    pub(crate) fn bound(&mut self, option: &str, high: u64) -> Result<Option<u64>, Error> {
        let value = self.value(option)?;
        if value == b"-1" {
            return Ok(None);
        }
        number(option, value, 0, high).map(Some).map_err(|_| Error::range(option, value, -1, high))
    }

    /// PRIORITY.
    pub(crate) fn priority(&mut self) -> Result<i8, Error> {
        let value = self.value("PRIORITY")?;
        std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok())
            // One spelling, as all numbers have: no sign without need, no leading zeros.
            .filter(|n: &i8| n.to_string().as_bytes() == value)
            .ok_or_else(|| Error::range("PRIORITY", value, -128, 127))
    }

    /// A delay in ms.
    pub(crate) fn delay(&mut self) -> Result<u64, Error> {
        self.number("DELAY", 0, MAX_SPAN_MS)
    }

    /// A point in time in Unix ms.
    pub(crate) fn unix_ms(&mut self, option: &str) -> Result<u64, Error> {
        let value = self.value(option)?;
        match number(option, value, 0, MAX_TIME_MS) {
            Ok(ms) if ms < MIN_AT_MS => Err(Error::new(format!(
                "{option} takes Unix milliseconds, {ms} looks like seconds: multiply by 1000 (from {MIN_AT_MS} to {MAX_TIME_MS})"
            ))),
            Ok(ms) => Ok(ms),
            Err(_) => Err(Error::range(option, value, MIN_AT_MS as i64, MAX_TIME_MS)),
        }
    }

    /// A job id as the next argument.
    pub(crate) fn id(&mut self) -> Result<JobId, Error> {
        let value = self.value("the job id")?;
        JobId::parse(value).ok_or_else(|| Error::not_an_id(value))
    }

    /// Refuses what is left over.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        match self.next() {
            None => Ok(()),
            Some(extra) => Err(Error::unknown_option(extra)),
        }
    }
}

/// A decimal number within a range; the error names the option, the value and the range.
pub(crate) fn number(option: &str, value: &[u8], low: u64, high: u64) -> Result<u64, Error> {
    crate::id::decimal(value)
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| Error::range(option, value, i64::try_from(low).unwrap_or(i64::MAX), high))
}

/// A fencing token.
pub(crate) fn token(value: &[u8]) -> Result<u64, Error> {
    number("the token", value, 0, MAX_TOKEN)
}

/// A consumer's name.
pub(crate) fn consumer(value: &[u8]) -> Result<&[u8], Error> {
    if value.len() > MAX_NAME {
        return Err(Error::new(format!("a consumer's name has at most {MAX_NAME} bytes, not {}", value.len())));
    }
    Ok(value)
}
