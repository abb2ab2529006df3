//! The border: no panic crosses it into the server's C code.

use std::ffi::{c_int, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use redis_module::raw;

use super::{log, missing, Argv, Ctx, Level};
use crate::node::{self, Node, NODE};

/// Runs the body of a callback. Should it panic, which is a bug, the panic hook has logged it;
/// the caller gets `otherwise`.
///
/// What the node remembers is in cells that are borrowed for moments only, so a panic leaves no
/// half-made state but that of a queue itself.
#[inline]
pub fn guarded<R>(otherwise: R, body: impl FnOnce(&Node) -> R) -> R {
    // A nested closure, so that the thread-local is looked up inside the guard too.
    match catch_unwind(AssertUnwindSafe(|| NODE.with(|node| body(node)))) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping a payload may panic as well; leaking it cannot.
            std::mem::forget(payload);
            otherwise
        }
    }
}

/// Counts a panic; if it came from another thread, in vain.
pub fn count_panic() {
    // A panic while the node is being made finds no node.
    let _ = NODE.try_with(|node| node::add(&node.count.panics, 1));
}

/// Initialises the API and runs `load`; false if the module cannot be loaded, for a reason that
/// was logged.
///
/// # Safety
/// As for `RedisModule_OnLoad`.
pub unsafe fn load(
    raw_ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    name: &'static CStr,
    load: fn(&Node, &Ctx, &Argv<'_>) -> Result<(), String>,
) -> bool {
    // Nothing may be allocated before this.
    // SAFETY: the context is valid and the name ends with NUL.
    let status = unsafe {
        raw::Export_RedisModule_Init(raw_ctx, name.as_ptr(), MODULE_VERSION, raw::REDISMODULE_APIVER_1 as c_int)
    };
    if status != raw::REDISMODULE_OK as c_int {
        // Not every server says why. The API is there, though nothing of it is ours.
        // SAFETY: the table is only read here.
        let (log_line, alloc) = unsafe { (raw::RedisModule_Log, raw::RedisModule_Alloc) };
        if log_line.is_some() && alloc.is_some() {
            log(Level::Warning, "not loaded: there is a module 'rq' already, see MODULE LIST; load it once, from one file");
        }
        return false;
    }
    // SAFETY: the context is valid for this call.
    let Some(ctx) = (unsafe { Ctx::from_raw(raw_ctx) }) else { return false };
    guarded(false, |node| {
        if let Some(function) = missing() {
            log(Level::Warning, &format!("this server is too old, it has no {function}: RQ needs Redis 7.0 or Valkey 8.0 at least"));
            return false;
        }
        // SAFETY: the server passes `argc` strings, for this call.
        let argv = unsafe { Argv::from_raw(argv, argc) };
        match load(node, &ctx, &argv) {
            Ok(()) => true,
            Err(why) => {
                log(Level::Warning, &format!("not loaded: {why}"));
                false
            }
        }
    })
}

/// The version that MODULE LIST shows: major, minor and patch in two digits each.
const MODULE_VERSION: c_int = digits(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + digits(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + digits(env!("CARGO_PKG_VERSION_PATCH"));

const fn digits(text: &str) -> c_int {
    let mut bytes = text.as_bytes();
    let mut number = 0;
    while let [digit, rest @ ..] = bytes {
        number = number * 10 + (*digit - b'0') as c_int;
        bytes = rest;
    }
    number
}
