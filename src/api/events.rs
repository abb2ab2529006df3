//! What the server tells: its events, and those of its keys.

use std::ffi::{c_char, c_int, c_void, CStr};

use redis_module::raw;

use super::{evict, guarded, is_valkey, slots, Ctx, Notify, Str};
use crate::{events, timer};

/// How a load goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadState {
    /// It begins.
    Started,
    /// It is done.
    Ended,
    /// It was given up.
    Failed,
}

/// An event's number, with version 1 of its data.
fn event(id: u64) -> raw::RedisModuleEvent {
    raw::RedisModuleEvent { id, dataver: 1 }
}

/// Whether this server has a moment between a reply to a blocked client and its delivery in which
/// CLIENT UNBLOCK and its own timeouts make it forget the reply: Redis 7.0. Newer ones are told by
/// what came with 7.2.
pub fn forgets_replies() -> bool {
    // SAFETY: it is only read.
    let newer = unsafe { raw::RedisModule_AddPostNotificationJob };
    newer.is_none()
}

/// Whether this server tells of a key before it evicts it: those that came with 7.2. Elsewhere there
/// is only the keyspace event afterwards.
pub fn tells_before_eviction() -> bool {
    !forgets_replies()
}

/// Whether this server leaves a client in the database of the key that a keyspace event was about,
/// if a module listens: Valkey 8.1 and 9.0. After `COPY a b DB 9` a client would go on in database
/// 9, and a replica part from its primary. So there RQ does not listen.
fn events_move_clients() -> bool {
    // SAFETY: it is only read, and takes nothing.
    let version = unsafe { raw::RedisModule_GetServerVersion.map_or(0, |version| version()) };
    is_valkey() && (0x0008_0100..0x0009_0100).contains(&version)
}

/// Subscribes to all that the module has to know. What an older server does not tell is refused
/// there, and done without. False: one that all servers have was refused.
pub fn subscribe(ctx: &Ctx) -> bool {
    let server = |id: u64, callback: raw::RedisModuleEventCallback| {
        // SAFETY: the context is valid; the callbacks are `extern "C"` and never unwind.
        unsafe { f!(RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event(id), callback) == 0 }
    };
    // Servers before 7.2 do not have it.
    server(raw::REDISMODULE_EVENT_KEY, Some(evict::on_key));
    // SAFETY: as above.
    let keyspace = events_move_clients() || unsafe {
        let classes = Notify::GENERIC.0 | Notify::EVICTED.0;
        f!(RedisModule_SubscribeToKeyspaceEvents)(ctx.as_ptr(), classes, Some(on_keyspace_event)) == 0
    };
    if forgets_replies() && !server(raw::REDISMODULE_EVENT_EVENTLOOP, Some(on_loop)) {
        return false;
    }
    keyspace
        && slots::subscribe(ctx)
        && server(raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, Some(on_role_change))
        && server(raw::REDISMODULE_EVENT_FLUSHDB, Some(on_flush))
        && server(raw::REDISMODULE_EVENT_LOADING, Some(on_loading))
        && server(raw::REDISMODULE_EVENT_SWAPDB, Some(on_swap))
        && server(raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, Some(on_async_load))
        && server(raw::REDISMODULE_EVENT_CONFIG, Some(on_config_change))
        && server(raw::REDISMODULE_EVENT_CRON_LOOP, Some(on_cron))
}

unsafe extern "C" fn on_role_change(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            events::role_changed(node, &ctx, sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER);
        }
    });
}

unsafe extern "C" fn on_flush(_: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, data: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server passes this structure, valid for this call, with this event.
        if let Some(info) = unsafe { data.cast::<raw::RedisModuleFlushInfo>().as_ref() } {
            if sub == raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
                events::flushed(node, info.dbnum);
            }
        }
    });
}

unsafe extern "C" fn on_loading(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    guarded((), |node| {
        let state = match sub {
            raw::REDISMODULE_SUBEVENT_LOADING_ENDED => LoadState::Ended,
            raw::REDISMODULE_SUBEVENT_LOADING_FAILED => LoadState::Failed,
            _ => LoadState::Started,
        };
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            events::loading(node, &ctx, state);
        }
    });
}

unsafe extern "C" fn on_swap(_: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, data: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server passes this structure, valid for this call, with this event.
        if let Some(info) = unsafe { data.cast::<raw::RedisModuleSwapDbInfo>().as_ref() } {
            events::swapped(node, info.dbnum_first, info.dbnum_second);
        }
    });
}

unsafe extern "C" fn on_async_load(_: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    guarded((), |node| {
        let state = match sub {
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED => LoadState::Started,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED => LoadState::Ended,
            _ => LoadState::Failed,
        };
        events::loading_beside(node, state);
    });
}

unsafe extern "C" fn on_config_change(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, data: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server passes this structure with this event, and with it `num_changes` names
        // that end with NUL, all valid for this call.
        let policy_was_set = unsafe {
            data.cast::<raw::RedisModuleConfigChangeV1>().as_ref().is_some_and(|info| {
                !info.config_names.is_null()
                    && std::slice::from_raw_parts(info.config_names, info.num_changes as usize)
                        .iter()
                        .any(|name| !name.is_null() && CStr::from_ptr(*name) == c"maxmemory-policy")
            })
        };
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            events::config_changed(node, &ctx, policy_was_set);
        }
    });
}

unsafe extern "C" fn on_cron(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, _: u64, data: *mut c_void) {
    guarded((), |node| {
        // SAFETY: the server passes this structure, valid for this call, with this event.
        let hz = unsafe { data.cast::<raw::RedisModuleCronLoopInfo>().as_ref() }.map_or(10, |info| info.hz);
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            events::cron(node, &ctx, u64::try_from(hz).unwrap_or(10));
        }
    });
}

/// Just before the server delivers replies to clients that were blocked.
unsafe extern "C" fn on_loop(ctx: *mut raw::RedisModuleCtx, _: raw::RedisModuleEvent, sub: u64, _: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
        return;
    }
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            timer::serve_waiters(node, &ctx);
        }
    });
}

unsafe extern "C" fn on_keyspace_event(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guarded((), |node| {
        // SAFETY: the server lends all three for this call; the name ends with NUL.
        unsafe {
            if let (Some(ctx), Some(key), false) = (Ctx::from_raw(ctx), Str::from_raw(key), event.is_null()) {
                events::keyspace(node, &ctx, CStr::from_ptr(event), key);
            }
        }
    });
    raw::REDISMODULE_OK as c_int
}
