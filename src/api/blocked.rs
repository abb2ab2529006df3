//! Clients that wait.
//!
//! A waiting client is known to the server by its keys, and to us by a number of our own, which
//! is all the private data it has: no pointer goes back and forth.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use redis_module::raw;

use super::{guarded, Ctx, Str};
use crate::blocking;

/// The number of a waiting client; never 0, never used again.
pub type WaiterId = usize;

/// A blocked client. It is valid until the server has called `free_privdata` for it, which
/// [`blocking::freed`] answers by forgetting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked(NonNull<raw::RedisModuleBlockedClient>);

impl Blocked {
    /// Blocks the calling client on keys, without a timeout of the server's.
    ///
    /// None if the server would not: the client must get a reply at once then. The caller has
    /// made sure that blocking is not denied.
    pub fn block(ctx: &Ctx, keys: &[Str<'_>], id: WaiterId) -> Option<Blocked> {
        let mut keys: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        // SAFETY: the context and the keys are valid; the server takes references to the keys of
        // its own. The callbacks are `extern "C"` and never unwind.
        let raw = unsafe {
            f!(RedisModule_BlockClientOnKeys)(
                ctx.as_ptr(), Some(on_key_ready), Some(on_timeout), Some(on_free), 0,
                keys.as_mut_ptr(), c_int::try_from(keys.len()).unwrap_or(0), id as *mut c_void,
            )
        };
        let blocked = Blocked(NonNull::new(raw)?);
        // SAFETY: the client has just been blocked.
        unsafe { f!(RedisModule_SetDisconnectCallback)(raw, Some(on_disconnect)) };
        Some(blocked)
    }

    /// Calls `write` with a context whose replies reach the client when it is unblocked.
    pub fn reply<R>(self, write: impl FnOnce(&Ctx) -> R) -> Option<R> {
        // SAFETY: the client is still blocked (see the type).
        let raw = unsafe { f!(RedisModule_GetThreadSafeContext)(self.0.as_ptr()) };
        // SAFETY: it is freed below, after the last use.
        let ctx = unsafe { Ctx::from_raw(raw) }?;
        let result = write(&ctx);
        // SAFETY: it was made above and is freed once. A panic in `write` only leaks it.
        unsafe { f!(RedisModule_FreeThreadSafeContext)(raw) };
        Some(result)
    }

    /// Lets the client go on. The server calls `on_timeout` from in here, because it was
    /// blocked on keys.
    pub fn unblock(self) {
        // SAFETY: the client is still blocked (see the type); its private data stay as they are.
        unsafe { f!(RedisModule_UnblockClient)(self.0.as_ptr(), std::ptr::null_mut()) };
    }
}

/// The number of the client that a callback is about.
fn waiter_of(ctx: &Ctx) -> WaiterId {
    // SAFETY: the context is that of a callback about a blocked client.
    unsafe { f!(RedisModule_GetBlockedClientPrivateData)(ctx.as_ptr()) as WaiterId }
}

/// The server says that the key has come, or has changed by other means than our commands. The
/// answer is always "not served": see [`blocking::key_ready`].
unsafe extern "C" fn on_key_ready(ctx: *mut raw::RedisModuleCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            blocking::key_ready(node, &ctx, waiter_of(&ctx));
        }
    });
    raw::REDISMODULE_ERR as c_int
}

/// The client is let go, by us or by `CLIENT UNBLOCK`.
unsafe extern "C" fn on_timeout(ctx: *mut raw::RedisModuleCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            blocking::let_go(node, &ctx, waiter_of(&ctx));
        }
    });
    raw::REDISMODULE_OK as c_int
}

/// The client is gone, or the server has answered it with an error.
unsafe extern "C" fn on_disconnect(ctx: *mut raw::RedisModuleCtx, _: *mut raw::RedisModuleBlockedClient) {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            blocking::gone(node, waiter_of(&ctx));
        }
    });
}

/// The last we hear of it. There may be no client behind the context: nothing may be opened,
/// replied or replicated here.
unsafe extern "C" fn on_free(ctx: *mut raw::RedisModuleCtx, private: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            // SAFETY: the context is valid; it only looks at a flag.
            let gone = unsafe { f!(RedisModule_BlockedClientDisconnected)(ctx.as_ptr()) != 0 };
            blocking::freed(node, &ctx, private as WaiterId, gone);
        }
    });
}
