//! The server's module API, made safe. Here, in `alloc.rs` and in `types.rs` is all the unsafe
//! code there is.
//!
//! The API is a table of function pointers, filled when the module is initialised: what a server
//! does not have stays null. [`missing`] makes sure at load that all we count on is there;
//! whatever is newer than the oldest supported server is asked for where it is used.
//!
//! Handles are passed by reference into callbacks and cannot outlive them.
#![allow(unsafe_code)]

use std::ffi::{c_void, CStr};
use std::ptr::NonNull;

use redis_module::raw;

/// One function of the API.
macro_rules! f {
    ($name:ident) => {
        $crate::api::present(::redis_module::raw::$name)
    };
}

mod acl;
mod blocked;
mod call;
mod callback;
mod commands;
mod config;
mod ctx;
mod events;
mod evict;
mod info;
mod io;
mod key;
mod log;
mod scan;
mod slots;
mod string;
mod timer;

pub use acl::Readable;
pub use blocked::{Blocked, WaiterId};
pub use call::{call, config_get, hang_up, server_info};
pub use callback::{count_panic, guarded, load};
pub use commands::{create_commands, Argv};
pub use config::{register as register_config, Setting, Value};
pub use ctx::{monotonic_us, writes_are_paused, Ctx, Flags, Notify};
pub use events::{forgets_replies, subscribe, tells_before_eviction, LoadState};
pub use evict::{after_eviction, can_rescue, memory_ratio, random_other};
pub use info::{register as register_info, InfoCtx};
pub use io::{AofWriter, Digest, OptCtx, RdbReader, RdbWriter};
pub use key::{set_type, Key, Mode};
pub use log::{log, Level};
pub use scan::Scan;
pub use slots::{may_use_slot, slot_of, SlotRange};
pub use string::{OwnedStr, Str};
pub use timer::{start_timer, stop_timer, TimerId};

/// The function, which [`missing`] has found to be there.
#[inline(always)]
fn present<F>(function: Option<F>) -> F {
    match function {
        Some(function) => function,
        // A panic could not be reported without the API either.
        None => std::process::abort(),
    }
}

macro_rules! find_missing {
    ($($name:ident)*) => {
        // SAFETY: the table was filled before, and is only read here.
        unsafe { [$((stringify!($name), { let function = raw::$name; function.is_some() })),*] }
            .into_iter()
            .find_map(|(name, there)| (!there).then_some(name))
    };
}

/// A function that every supported server has and this one lacks.
pub fn missing() -> Option<&'static str> {
    find_missing! {
        RedisModule_Alloc RedisModule_Calloc RedisModule_Realloc RedisModule_Free
        RedisModule_GetApi RedisModule_CreateCommand RedisModule_GetCommand
        RedisModule_SetCommandInfo RedisModule_WrongArity RedisModule_Log
        RedisModule_ReplyWithLongLong RedisModule_ReplyWithStringBuffer RedisModule_ReplyWithArray
        RedisModule_ReplyWithMap RedisModule_ReplyWithNull RedisModule_ReplyWithNullArray
        RedisModule_ReplyWithSimpleString RedisModule_ReplyWithError
        RedisModule_GetSelectedDb RedisModule_SelectDb RedisModule_GetContextFlags
        RedisModule_OpenKey RedisModule_CloseKey RedisModule_KeyType RedisModule_GetExpire
        RedisModule_CreateDataType RedisModule_ModuleTypeSetValue RedisModule_ModuleTypeGetType
        RedisModule_ModuleTypeGetValue
        RedisModule_CreateString RedisModule_FreeString RedisModule_StringPtrLen
        RedisModule_Replicate RedisModule_ReplicateVerbatim RedisModule_AvoidReplicaTraffic
        RedisModule_NotifyKeyspaceEvent RedisModule_SubscribeToKeyspaceEvents
        RedisModule_SubscribeToServerEvent RedisModule_SetModuleOptions
        RedisModule_MonotonicMicroseconds RedisModule_IsIOError RedisModule_LoadStringBuffer RedisModule_SaveStringBuffer
        RedisModule_EmitAOF RedisModule_GetKeyNameFromIO RedisModule_GetDbIdFromIO
        RedisModule_GetToKeyNameFromOptCtx RedisModule_GetToDbIdFromOptCtx
        RedisModule_GetKeyNameFromOptCtx RedisModule_GetDbIdFromOptCtx
        RedisModule_DigestAddStringBuffer RedisModule_DigestEndSequence
        RedisModule_BlockClientOnKeys RedisModule_UnblockClient RedisModule_SetDisconnectCallback
        RedisModule_GetBlockedClientPrivateData RedisModule_BlockedClientDisconnected
        RedisModule_GetThreadSafeContext RedisModule_FreeThreadSafeContext
        RedisModule_CreateTimer RedisModule_StopTimer
        RedisModule_RegisterNumericConfig RedisModule_RegisterBoolConfig
        RedisModule_RegisterEnumConfig RedisModule_RegisterStringConfig RedisModule_LoadConfigs
        RedisModule_RegisterInfoFunc RedisModule_InfoAddSection RedisModule_InfoAddFieldULongLong
        RedisModule_InfoAddFieldCString RedisModule_InfoBeginDictField RedisModule_InfoEndDictField RedisModule_Call RedisModule_FreeCallReply
        RedisModule_CallReplyType RedisModule_CallReplyLength RedisModule_CallReplyArrayElement
        RedisModule_CallReplyStringPtr RedisModule_CallReplyInteger RedisModule_Scan RedisModule_ScanCursorCreate
        RedisModule_ScanCursorDestroy RedisModule_ScanCursorRestart RedisModule_GetRandomBytes
        RedisModule_GetClientId RedisModule_GetClientInfoById
        RedisModule_GetKeyNameFromModuleKey RedisModule_GetDbIdFromModuleKey
        RedisModule_IsKeysPositionRequest RedisModule_KeyAtPos
    }
}

/// Whether this server is Valkey, which gives other meanings to some of the same numbers. Its
/// version does not tell: Redis and Valkey count on from the same one.
pub fn is_valkey() -> bool {
    find(c"ValkeyModule_Alloc").is_some()
}

/// The server's function of this name.
fn find(name: &CStr) -> Option<NonNull<c_void>> {
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: `GetApi` writes the function's address to `found`, or nothing.
    unsafe { f!(RedisModule_GetApi)(name.as_ptr(), std::ptr::from_mut(&mut found).cast()) };
    NonNull::new(found)
}

/// Random bits for the seed of all that is drawn.
pub fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: it fills as many bytes as it is told.
    unsafe { f!(RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), bytes.len()) };
    u64::from_le_bytes(bytes)
}
