//! The one timer.

use std::ffi::c_void;

use redis_module::raw;

use super::{guarded, Ctx};
use crate::timer;

/// An armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(raw::RedisModuleTimerID);

/// Arms a timer that calls [`timer::tick`] once.
///
/// The server keeps its timers by the wall clock: after a step back it fires late.
pub fn start_timer(ctx: &Ctx, in_ms: u64) -> TimerId {
    let in_ms = i64::try_from(in_ms).unwrap_or(i64::MAX / 2_000);
    // SAFETY: the context is valid; the callback is `extern "C"` and never unwinds.
    TimerId(unsafe { f!(RedisModule_CreateTimer)(ctx.as_ptr(), in_ms, Some(on_timer), std::ptr::null_mut()) })
}

/// Disarms it. It must not have fired: not even be firing.
pub fn stop_timer(ctx: &Ctx, id: TimerId) {
    // SAFETY: the context is valid; an unknown number is answered with an error.
    unsafe { f!(RedisModule_StopTimer)(ctx.as_ptr(), id.0, std::ptr::null_mut()) };
}

unsafe extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server lends the context for this call.
    let Some(ctx) = (unsafe { Ctx::from_raw(ctx) }) else { return };
    guarded((), |node| timer::tick(node, &ctx));
    // Should the tick have panicked, it must not have been the last one.
    guarded((), |node| timer::arm(node, &ctx));
}
