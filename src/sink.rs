//! Replies, written straight to the client.

use rq_core::{Sink, Tree};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::api::Ctx;

/// The reply of a context.
pub struct Reply<'c>(pub &'c Ctx);

impl Sink for Reply<'_> {
    fn int(&mut self, value: i64) {
        self.0.reply_int(value);
    }
    fn bulk(&mut self, value: &[u8]) {
        self.0.reply_bulk(value);
    }
    fn array(&mut self, len: usize) {
        self.0.reply_array(len);
    }
    fn map(&mut self, pairs: usize) {
        self.0.reply_map(pairs);
    }
    fn ok(&mut self) {
        self.0.reply_ok();
    }
    fn null(&mut self) {
        self.0.reply_null();
    }
    fn null_array(&mut self) {
        self.0.reply_null_array();
    }
}

/// A reply as JSON: maps keep their order, bytes that are no text are replaced.
pub struct Json<'t>(pub &'t Tree);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Tree::Int(value) => serializer.serialize_i64(*value),
            Tree::Bulk(bytes) => serializer.serialize_str(&String::from_utf8_lossy(bytes)),
            Tree::Ok => serializer.serialize_str("OK"),
            Tree::Null | Tree::NullArray => serializer.serialize_unit(),
            Tree::Array(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| out.serialize_element(&Json(item)))?;
                out.end()
            }
            Tree::Map(pairs) => {
                let mut out = serializer.serialize_map(Some(pairs.len()))?;
                pairs.iter().try_for_each(|(key, value)| out.serialize_entry(&Json(key), &Json(value)))?;
                out.end()
            }
        }
    }
}
