//! What a request can be refused with: one code, one sentence for a person.

use std::fmt;

use crate::pause::Pause;

/// A refusal. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code that a client can match on.
    pub code: Code,
    /// What was wrong, the value, the range, what to do. One line.
    pub text: String,
}

/// The codes of refusals; the first word of the error reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Syntax, range, arity.
    Err,
    /// A payload or a batch is longer than what can be stored.
    TooBig,
    /// ALTER on an absent key.
    NoQueue,
    /// PAUSE IN.
    Paused,
    /// Back-pressure: MAXLIVE or MAXLIVEBYTES is reached.
    Full,
}

impl Error {
    /// A refusal with code ERR.
    pub fn new(text: impl Into<String>) -> Error {
        Error { code: Code::Err, text: text.into() }
    }

    pub(crate) fn unknown_option(option: &[u8]) -> Error {
        Error::new(format!("syntax error: unknown or misplaced option {}", quote(option)))
    }

    pub(crate) fn missing_value(option: &str) -> Error {
        Error::new(format!("syntax error: {option} needs a value after it"))
    }

    pub(crate) fn twice(option: &str) -> Error {
        Error::new(format!("syntax error: {option} was given twice, or beside an option that excludes it"))
    }

    pub(crate) fn range(option: &str, value: &[u8], low: i64, high: u64) -> Error {
        Error::new(format!("{option} must be an integer from {low} to {high}, not {}", quote(value)))
    }

    pub(crate) fn not_an_id(value: &[u8]) -> Error {
        Error::new(format!("{} is not a job id: it must look like 1700000000000-0", quote(value)))
    }

    pub(crate) fn no_queue() -> Error {
        Error { code: Code::NoQueue, text: "there is no queue at this key: make it with RQ.CREATE or RQ.PUSH".into() }
    }

    pub(crate) fn paused(pause: &Pause) -> Error {
        let until = pause.until.map_or_else(|| "until RQ.RESUME IN".into(), |until| format!("until {until} (Unix ms)"));
        let reason = if pause.reason.is_empty() { String::new() } else { format!(", the reason given being {}", quote(&pause.reason)) };
        Error { code: Code::Paused, text: format!("the queue takes no jobs {until}{reason}: push again later") }
    }

    pub(crate) fn full(what: &str, held: u64, option: &str, max: Option<u64>) -> Error {
        let max = max.unwrap_or(0);
        Error { code: Code::Full, text: format!("the queue holds {held} live {what} and {option} is {max}: push again later, add workers, or raise it with RQ.ALTER") }
    }

    pub(crate) fn too_big(what: &str, len: usize, max: usize) -> Error {
        Error { code: Code::TooBig, text: format!("{what} is {len} bytes long, at most {max} fit: store it elsewhere and push its address, or push fewer at a time") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.code {
            Code::Err => "ERR",
            Code::TooBig => "TOOBIG",
            Code::NoQueue => "NOQUEUE",
            Code::Full => "FULL",
            Code::Paused => "PAUSED",
        };
        write!(f, "{code} {}", self.text)
    }
}

impl std::error::Error for Error {}

/// A client's bytes as they may stand in an error line: escaped, in quotes, cut after 64.
pub fn quote(value: &[u8]) -> String {
    let shown = value.get(..64).unwrap_or(value);
    let more = if shown.len() < value.len() { "..." } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}
