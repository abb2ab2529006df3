//! Cluster slots: whose is a key?
//!
//! While slots move atomically, their keys come to the new owner piece by piece, and the changes
//! that the old one makes meanwhile come after them. Until they are owned nothing may act on them
//! here. (When they are moved key by key, a key that has come is here alone, and is served.)

use std::ffi::{c_int, c_void};

use redis_module::raw;

use super::{guarded, is_valkey, Ctx, Flags, Str};
use crate::events;

/// Slots from the first to the second, both included.
pub type SlotRange = (u32, u32);

/// The slot of a key; None on servers without such moves, and without a cluster.
pub fn slot_of(ctx: &Ctx, key: Str<'_>) -> Option<u32> {
    if !ctx.flags().contains(Flags::CLUSTER) {
        return None;
    }
    // SAFETY: it is only read.
    let slot_of = unsafe { raw::RedisModule_ClusterKeySlot }?;
    // SAFETY: the string is valid.
    Some(unsafe { slot_of(key.as_ptr()) })
}

/// Whether Redis lets keys of this slot be used. Valkey has no answer, but tells of each move:
/// see [`events::slots_coming`].
pub fn may_use_slot(slot: u32) -> bool {
    // SAFETY: it is only read.
    let Some(may_use) = (unsafe { raw::RedisModule_ClusterCanAccessKeysInSlot }) else { return true };
    // SAFETY: it takes a number.
    unsafe { may_use(c_int::try_from(slot).unwrap_or(-1)) != 0 }
}

/// Valkey 9 tells by this number of slots that move atomically, Redis 8.4 of keys that are removed
/// because their slot has moved away.
const EVENT_19: u64 = 19;
const VALKEY_IMPORT_STARTED: u64 = 0;
const VALKEY_IMPORT_ABORTED: u64 = 2;
const VALKEY_IMPORT_COMPLETED: u64 = 4;

/// What comes with it on Valkey 9, as that lays it out (version 1).
#[repr(C)]
struct MigrationInfo {
    version: u64,
    job_name: [u8; 41],
    ranges: *const MigratedRange,
    count: u32,
}

#[repr(C)]
struct MigratedRange {
    first: c_int,
    last: c_int,
}

/// Subscribes to the moves of slots, where the server has such an event; false if that was
/// refused.
pub(super) fn subscribe(ctx: &Ctx) -> bool {
    // Valkey does not say which events it has, but which options: this one came with the event.
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    let event = raw::RedisModuleEvent { id: EVENT_19, dataver: 1 };
    // SAFETY: they are only read.
    let (options, disable_trim) =
        unsafe { (raw::RedisModule_GetModuleOptionsAll, raw::RedisModule_ClusterDisableTrim) };
    // SAFETY: it takes nothing.
    let options = options.map_or(0, |all| unsafe { all() });
    let callback: raw::RedisModuleEventCallback = match is_valkey() {
        true if options & HANDLE_ATOMIC_SLOT_MIGRATION != 0 => Some(on_migration),
        false if disable_trim.is_some() => Some(on_trim),
        _ => return true,
    };
    // SAFETY: the context is valid; the callbacks are `extern "C"` and never unwind.
    unsafe { f!(RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, callback) == 0 }
}

unsafe extern "C" fn on_trim(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            events::slots_trimmed(node, &ctx);
        }
    });
}

unsafe extern "C" fn on_migration(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, data: *mut c_void) {
    if !matches!(sub, VALKEY_IMPORT_STARTED | VALKEY_IMPORT_ABORTED | VALKEY_IMPORT_COMPLETED) {
        return;
    }
    guarded((), |node| {
        // SAFETY: the server lends the context for this call, and passes this structure with
        // this event, whose list is as long as it says.
        unsafe {
            let (Some(ctx), Some(info)) = (Ctx::from_raw(ctx), data.cast::<MigrationInfo>().as_ref()) else { return };
            if info.ranges.is_null() {
                return;
            }
            let ranges = std::slice::from_raw_parts(info.ranges, info.count as usize);
            let ranges = ranges.iter().map(|range| (range.first as u32, range.last as u32));
            match sub {
                VALKEY_IMPORT_STARTED => events::slots_coming(node, ranges),
                _ => events::slots_settled(node, &ctx, ranges),
            }
        }
    });
}
