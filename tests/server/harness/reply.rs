//! Replies exactly as they came over the wire, so that a test can tell the null array from the
//! null string, and a map from a flat array.

use std::fmt;
use std::ops::Index;

/// One reply.
#[derive(Clone, PartialEq)]
pub enum Reply {
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    /// RESP3 only, as all below `NullArray`.
    Map(Vec<(Reply, Reply)>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// Doubles, booleans, big numbers and verbatim strings: what no command of RQ replies.
    Other(String),
    Push(Vec<Reply>),
}

impl Reply {
    /// Decodes the reply at the beginning of `bytes`, with its length. `Ok(None)`: not all of it
    /// is there. An error: it breaks the protocol.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Reply, usize)>, String> {
        let mut at = 0;
        let reply = decode(bytes, &mut at)?;
        Ok(reply.map(|reply| (reply, at)))
    }

    #[track_caller]
    fn not(&self, wanted: &str) -> ! {
        panic!("expected {wanted}, got {self:?}")
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(n) => *n,
            _ => self.not("an integer"),
        }
    }

    /// A string as bytes.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Bulk(bytes) => bytes,
            _ => self.not("a string"),
        }
    }

    /// A string or a status as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Reply::Status(text) => text,
            Reply::Bulk(bytes) => std::str::from_utf8(bytes).unwrap_or_else(|_| self.not("UTF-8")),
            _ => self.not("a string"),
        }
    }

    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Reply::Error(text) => text,
            _ => self.not("an error"),
        }
    }

    #[track_caller]
    pub fn array(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => self.not("an array"),
        }
    }

    /// An array of integers.
    #[track_caller]
    pub fn ints(&self) -> Vec<i64> {
        self.array().iter().map(Reply::int).collect()
    }

    /// An array of texts.
    #[track_caller]
    pub fn texts(&self) -> Vec<String> {
        self.array().iter().map(|item| item.text().to_owned()).collect()
    }

    /// A map: of RESP3, or the flat array of pairs that RESP2 has.
    #[track_caller]
    pub fn fields(&self) -> Fields {
        let pairs = match self {
            Reply::Map(pairs) => pairs.clone(),
            Reply::Array(items) if items.len() % 2 == 0 => {
                items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
            }
            _ => self.not("a map"),
        };
        Fields(pairs.into_iter().map(|(name, value)| (name.text().to_owned(), value)).collect())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Reply::NullBulk | Reply::NullArray | Reply::Null)
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

/// One line up to CRLF; None if it has not come yet.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a str>, String> {
    let rest = &bytes[*at..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    *at += end + 2;
    std::str::from_utf8(&rest[..end]).map(Some).map_err(|_| format!("a line that is not UTF-8: {rest:?}"))
}

fn decode(bytes: &[u8], at: &mut usize) -> Result<Option<Reply>, String> {
    let Some(head) = line(bytes, at)? else { return Ok(None) };
    let (kind, value) = head.split_at_checked(1).ok_or("an empty line")?;
    let number = || value.parse::<i64>().map_err(|_| format!("no number: {head:?}"));
    Ok(Some(match kind {
        "+" => Reply::Status(value.to_owned()),
        "-" => Reply::Error(value.to_owned()),
        ":" => Reply::Int(number()?),
        "_" => Reply::Null,
        "," | "#" | "(" => Reply::Other(head.to_owned()),
        "$" | "=" | "!" => match usize::try_from(number()?) {
            Err(_) => Reply::NullBulk,
            Ok(len) => {
                let Some(body) = bytes.get(*at..*at + len + 2) else { return Ok(None) };
                *at += len + 2;
                let text = body.strip_suffix(b"\r\n").ok_or("a string without its end")?.to_vec();
                match kind {
                    "$" => Reply::Bulk(text),
                    "!" => Reply::Error(String::from_utf8_lossy(&text).into_owned()),
                    _ => Reply::Other(String::from_utf8_lossy(&text).into_owned()),
                }
            }
        },
        "*" | "%" | "~" | ">" => match usize::try_from(number()?) {
            Err(_) => Reply::NullArray,
            Ok(len) => {
                let mut items = Vec::new();
                for _ in 0..if kind == "%" { 2 * len } else { len } {
                    let Some(item) = decode(bytes, at)? else { return Ok(None) };
                    items.push(item);
                }
                match kind {
                    "%" => Reply::Map(items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()),
                    ">" => Reply::Push(items),
                    _ => Reply::Array(items),
                }
            }
        },
        _ => return Err(format!("an unknown kind of reply: {head:?}")),
    }))
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Status(text) => write!(f, "+{text}"),
            Reply::Error(text) => write!(f, "-{text}"),
            Reply::Int(n) => write!(f, "{n}"),
            Reply::Bulk(bytes) if bytes.len() > 200 => write!(f, "\"{}...\" ({})", bytes[..200].escape_ascii(), bytes.len()),
            Reply::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Array(items) | Reply::Push(items) => f.debug_list().entries(items).finish(),
            Reply::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(name, value)| (name, value))).finish(),
            Reply::NullBulk => f.write_str("(null string)"),
            Reply::NullArray => f.write_str("(null array)"),
            Reply::Null => f.write_str("(null)"),
            Reply::Other(text) => write!(f, "({text})"),
        }
    }
}

impl PartialEq<i64> for Reply {
    fn eq(&self, other: &i64) -> bool {
        matches!(self, Reply::Int(n) if n == other)
    }
}

/// A string or a status.
impl PartialEq<str> for Reply {
    fn eq(&self, other: &str) -> bool {
        match self {
            Reply::Status(text) => text == other,
            Reply::Bulk(bytes) => bytes == other.as_bytes(),
            _ => false,
        }
    }
}

impl PartialEq<&str> for Reply {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<String> for Reply {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

/// A map with text as names, in the order of the reply.
#[derive(Clone, PartialEq)]
pub struct Fields(pub Vec<(String, Reply)>);

impl Fields {
    /// The value, unless it is null or not there.
    pub fn get(&self, name: &str) -> Option<&Reply> {
        self.0.iter().find(|(each, _)| each == name).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// An integer.
    #[track_caller]
    pub fn int(&self, name: &str) -> i64 {
        self[name].int()
    }

    /// Several integers, to compare in one line.
    #[track_caller]
    pub fn ints<const N: usize>(&self, names: [&str; N]) -> [i64; N] {
        names.map(|name| self.int(name))
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl Index<&str> for Fields {
    type Output = Reply;

    #[track_caller]
    fn index(&self, name: &str) -> &Reply {
        match self.0.iter().find(|(each, _)| each == name) {
            Some((_, value)) => value,
            None => panic!("no {name} in {self:?}"),
        }
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, value))).finish()
    }
}
