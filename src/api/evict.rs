//! Eviction: what the server shows before it, and the moment right after it.

use std::ffi::c_void;

use redis_module::raw;

use super::events::tells_before_eviction;
use super::key::{expiry_of, value_in};
use super::{guarded, is_valkey, Ctx, Mode, OwnedStr, Str};
use crate::guard;
use crate::rescue::{self, Doomed};
use crate::revival::Revival;

/// Whether an evicted queue can be put back, so that all others see the eviction and the revival as
/// one. Redis 7.2.0 to 7.2.3 run what is to come after an eviction in the middle of it.
pub fn can_rescue() -> bool {
    // SAFETY: it is only read, and takes nothing.
    let version = unsafe { raw::RedisModule_GetServerVersion.map_or(0, |version| version()) };
    tells_before_eviction() && (is_valkey() || version >= 0x0007_0204)
}

/// How much of maxmemory is in use; 0 if there is none.
pub fn memory_ratio() -> f32 {
    // SAFETY: it is only read, and takes nothing.
    unsafe { raw::RedisModule_GetUsedMemoryRatio.map_or(0.0, |ratio| ratio()) }
}

/// A random key of the context's database, and how ready it is to go by the server's policy: the
/// higher, the readier. None if it is a queue, or if there is no key.
pub fn random_other(ctx: &Ctx) -> Option<(OwnedStr, i64)> {
    // SAFETY: it is only read; the context is valid, and the string is ours.
    let name = unsafe { OwnedStr::from_raw(raw::RedisModule_RandomKey?(ctx.as_ptr())) }?;
    let (mut idle_ms, mut uses) = (-1, -1);
    // SAFETY: the context and the string are valid; the key is open until it is closed. Each of the
    // two answers under its own policies only.
    let other = unsafe {
        let key = f!(RedisModule_OpenKey)(ctx.as_ptr(), name.get().as_ptr(), Mode::Glance.bits());
        let other = !key.is_null() && value_in(key, |_| ()).is_none();
        if let (true, Some(get_lru), Some(get_lfu)) = (other, raw::RedisModule_GetLRU, raw::RedisModule_GetLFU) {
            get_lru(key, &mut idle_ms);
            get_lfu(key, &mut uses);
        }
        if !key.is_null() {
            f!(RedisModule_CloseKey)(key);
        }
        other
    };
    other.then_some((name, if uses >= 0 { -uses } else { idle_ms }))
}

/// Has a queue revived as soon as its eviction is over, before anything else runs.
///
/// # Errors
/// The server does not do that now: on a replica, and while it loads.
pub fn after_eviction(ctx: &Ctx, doomed: Box<Doomed>) -> Result<(), Box<Doomed>> {
    // SAFETY: it is only read.
    let Some(add) = (unsafe { raw::RedisModule_AddPostNotificationJob }) else { return Err(doomed) };
    let job = Box::into_raw(doomed);
    // SAFETY: the context is valid; the callbacks are `extern "C"` and never unwind. The job belongs
    // to the server until it calls `forget`.
    match unsafe { add(ctx.as_ptr(), Some(run), job.cast(), Some(forget)) } {
        0 => Ok(()),
        // SAFETY: it was not taken, so it is still ours.
        _ => Err(unsafe { Box::from_raw(job) }),
    }
}

unsafe extern "C" fn run(ctx: *mut raw::RedisModuleCtx, job: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call, and the job is what `after_eviction`
        // has given to it.
        if let (Some(ctx), Some(doomed)) = unsafe { (Ctx::from_raw(ctx), job.cast::<Doomed>().as_ref()) } {
            rescue::revive(node, &ctx, doomed);
        }
    });
}

unsafe extern "C" fn forget(job: *mut c_void) {
    if !job.is_null() {
        // SAFETY: `after_eviction` has made it; the server gives it back once.
        drop(unsafe { Box::from_raw(job.cast::<Doomed>()) });
    }
}

/// A key is about to go. It is open for reading, and still holds its value.
pub(super) unsafe extern "C" fn on_key(
    ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, data: *mut c_void,
) {
    if sub != raw::REDISMODULE_SUBEVENT_KEY_EVICTED {
        return;
    }
    guarded((), |node| {
        // SAFETY: the server lends the context, and passes this structure with this event.
        let (Some(ctx), Some(info)) = (unsafe { (Ctx::from_raw(ctx), data.cast::<raw::RedisModuleKeyInfo>().as_ref()) }) else {
            return;
        };
        // SAFETY: the key is open, and no command of ours is at work on it: the server evicts
        // before it runs one.
        let seen = unsafe { value_in(info.key, |value| (value.queue.incarnation(), value.queue.jobs() as u64)) };
        let Some((incarnation, jobs)) = seen else { return rescue::another_evicted(node) };
        // SAFETY: the key is open; its name lives as long as it does, and is copied.
        let (name, db, expires_ms) = unsafe {
            let name = Str::from_raw(f!(RedisModule_GetKeyNameFromModuleKey)(info.key));
            (name, f!(RedisModule_GetDbIdFromModuleKey)(info.key), expiry_of(info.key))
        };
        if let Some(name) = name {
            let key = name.bytes().into();
            guard::evicting(node, &ctx, Box::new(Doomed { db, key, jobs, revival: Revival { incarnation, expires_ms } }));
        }
    });
}
