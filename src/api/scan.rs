//! Going over all keys, a few at a time.

use std::ffi::c_void;
use std::ptr::NonNull;

use redis_module::raw;

use super::key::value_in;
use super::{guarded, Ctx, Str};
use crate::types::Value;

/// A place in the keys of one database.
pub struct Scan(NonNull<raw::RedisModuleScanCursor>);

impl Scan {
    /// The beginning. None if the server is out of memory.
    pub fn begin() -> Option<Scan> {
        // SAFETY: it takes nothing.
        NonNull::new(unsafe { f!(RedisModule_ScanCursorCreate)() }).map(Scan)
    }

    /// Goes on by a few keys of the context's database and shows the queues among them. False at
    /// the end; the next step begins anew.
    pub fn step(&mut self, ctx: &Ctx, mut found: impl FnMut(Str<'_>, &Value)) -> bool {
        let mut found: &mut dyn FnMut(Str<'_>, &Value) = &mut found;
        // SAFETY: the context and the cursor are valid; `found` lives until the call returns.
        let more = unsafe {
            f!(RedisModule_Scan)(ctx.as_ptr(), self.0.as_ptr(), Some(on_key), std::ptr::from_mut(&mut found).cast())
        };
        if more == 0 {
            // SAFETY: the cursor is valid.
            unsafe { f!(RedisModule_ScanCursorRestart)(self.0.as_ptr()) };
        }
        more != 0
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: it is freed once.
        unsafe { f!(RedisModule_ScanCursorDestroy)(self.0.as_ptr()) };
    }
}

unsafe extern "C" fn on_key(
    _: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    found: *mut c_void,
) {
    guarded((), |_| {
        // SAFETY: it is what `step` passes, and nobody else has it during the call.
        let found = unsafe { &mut *found.cast::<&mut dyn FnMut(Str<'_>, &Value)>() };
        // SAFETY: the server lends both for this call; the key may be null.
        unsafe {
            if let Some(name) = Str::from_raw(name) {
                value_in(key, |value| found(name, value));
            }
        }
    });
}
