//! How an eviction and its revival come to pass, on the primary, its replicas and in the AOF.
//!
//! In the place of a batch of ops, RQ.APPLY carries one of two messages. The server sends the first,
//! its own DEL and the second in one transaction; but not if what made it evict was SCAN or RANDOMKEY:
//! then they come one by one, and a file may end between them, or a link. So from the first message on
//! the queue is kept, however long it takes; and whoever can hope for no second one, because the file
//! has ended or it is to be the primary, puts the queue back by itself.

use crate::api::{Ctx, Key, Mode, OwnedStr, Str};
use crate::graveyard;
use crate::node::Node;

/// Which queue comes back, and what its deletion takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revival {
    /// Which queue.
    pub incarnation: u64,
    /// When its key ends, in Unix ms.
    pub expires_ms: Option<i64>,
}

/// What replicas and the AOF are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The next deletion of this queue is an eviction: it will come back.
    Spare(Revival),
    /// It comes back.
    Revive(Revival),
}

/// No batch of ops begins so.
const SPARE: &[u8; 6] = b"SPARE ";
const REVIVE: &[u8; 6] = b"REVIVE";

impl Message {
    /// Its bytes.
    pub fn encode(self) -> Vec<u8> {
        let (magic, revival) = match self {
            Message::Spare(revival) => (SPARE, revival),
            Message::Revive(revival) => (REVIVE, revival),
        };
        let expires_ms = revival.expires_ms.unwrap_or(-1);
        [magic, revival.incarnation.to_le_bytes().as_slice(), &expires_ms.to_le_bytes()].concat()
    }

    /// None: this is a batch of ops, or nothing.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (magic, bytes) = bytes.split_first_chunk::<6>()?;
        let (incarnation, expires_ms) = bytes.split_first_chunk::<8>()?;
        let expires_ms = i64::from_le_bytes(expires_ms.try_into().ok()?);
        let expires_ms = (expires_ms >= 0).then_some(expires_ms);
        let revival = Revival { incarnation: u64::from_le_bytes(*incarnation), expires_ms };
        match magic {
            SPARE => Some(Message::Spare(revival)),
            REVIVE => Some(Message::Revive(revival)),
            _ => None,
        }
    }
}

/// A queue that is to come back.
pub struct Spared {
    db: i32,
    key: Box<[u8]>,
    revival: Revival,
}

/// The primary is evicting this queue.
pub fn spare(node: &Node, ctx: &Ctx, key: Str<'_>, revival: Revival) {
    graveyard::hold(Some(revival.incarnation));
    node.rescue.spared.replace(Some(Spared { db: ctx.db(), key: key.bytes().into(), revival }));
}

/// What was said of queues that are to come back does not count any more.
pub fn forget(node: &Node) {
    graveyard::hold(None);
    node.rescue.spared.replace(None);
}

/// No more messages will come: what was evicted comes back.
pub fn finish(node: &Node, ctx: &Ctx) {
    let Some(Spared { db, key, revival }) = node.rescue.spared.take() else { return };
    let name = OwnedStr::new(&key);
    if ctx.select(db) && put_back(node, ctx, name.get(), revival) {
        ctx.replicate_apply(name.get(), &Message::Revive(revival).encode());
    }
    graveyard::hold(None);
}

/// Sets a queue that was just deleted under its key again. False: it is not there any more, or
/// another one is there already.
pub fn put_back(node: &Node, ctx: &Ctx, key: Str<'_>, revival: Revival) -> bool {
    let Ok(mut opened) = Key::open(ctx, key, Mode::Write) else { return false };
    if opened.value().is_some() {
        return false;
    }
    let Some(value) = graveyard::dig(revival.incarnation) else { return false };
    let Some(value) = opened.set(value) else { return false };
    let at = value.next_event(node.time.now());
    node.index.borrow_mut().correct(ctx.db(), key.bytes(), &value.told, at);
    opened.make_last_to_evict();
    if let Some(at_ms) = revival.expires_ms {
        opened.expire_at(at_ms);
    }
    opened.close(true);
    // To those who wait it must be as if nothing had happened.
    node.waiters.borrow_mut().mark(ctx.db(), key.bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::{Message, Revival};

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for expires_ms in [None, Some(0), Some(1_700_000_000_000)] {
            let revival = Revival { incarnation: u64::MAX - 7, expires_ms };
            for message in [Message::Spare(revival), Message::Revive(revival)] {
                let bytes = message.encode();
                assert_eq!(Message::decode(&bytes), Some(message));
                assert_eq!(Message::decode(bytes.get(..bytes.len() - 1).unwrap_or_default()), None);
                assert_eq!(Message::decode(&[bytes.as_slice(), b"x"].concat()), None);
            }
        }
        assert_eq!(Message::decode(b"\x01"), None);
        assert_eq!(Message::decode(&[0; 22]), None);
    }
}
