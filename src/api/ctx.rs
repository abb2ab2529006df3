//! The context of a callback: who calls, in which database, and where the reply goes.

use std::ffi::{c_int, c_long, c_void, CStr, CString};
use std::ptr::NonNull;
use std::sync::OnceLock;

use redis_module::raw;

use super::Str;

/// A context, lent for one callback.
pub struct Ctx {
    raw: NonNull<raw::RedisModuleCtx>,
}

bitflags::bitflags! {
    /// What holds for the caller and the server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// In a script.
        const LUA = raw::REDISMODULE_CTX_FLAGS_LUA;
        /// In a transaction.
        const MULTI = raw::REDISMODULE_CTX_FLAGS_MULTI;
        /// This server is a primary.
        const MASTER = raw::REDISMODULE_CTX_FLAGS_MASTER;
        /// This server is part of a cluster.
        const CLUSTER = raw::REDISMODULE_CTX_FLAGS_CLUSTER;
        /// Memory is full.
        const OOM = raw::REDISMODULE_CTX_FLAGS_OOM;
        /// maxmemory is set, with a policy that evicts keys.
        const EVICT = raw::REDISMODULE_CTX_FLAGS_EVICT;
        /// The command came from the primary.
        const REPLICATED = raw::REDISMODULE_CTX_FLAGS_REPLICATED;
        /// The data are being loaded from a file.
        const LOADING = raw::REDISMODULE_CTX_FLAGS_LOADING;
        /// The caller cannot be made to wait.
        const DENY_BLOCKING = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        /// A new data set is being loaded from the primary beside the old one.
        const ASYNC_LOADING = raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
        /// Others that are not looked at.
        const _ = !0;
    }
}

/// A class of keyspace events.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Notify(pub(super) c_int);

impl Notify {
    /// Of a module's own type.
    pub const MODULE: Notify = Notify(raw::REDISMODULE_NOTIFY_MODULE);
    /// Of any type: deleted, renamed, restored.
    pub const GENERIC: Notify = Notify(raw::REDISMODULE_NOTIFY_GENERIC);
    /// Removed for want of memory.
    pub const EVICTED: Notify = Notify(raw::REDISMODULE_NOTIFY_EVICTED);
}

impl Ctx {
    /// # Safety
    /// `raw` is a valid context for as long as the `Ctx` is used.
    pub(super) unsafe fn from_raw(raw: *mut raw::RedisModuleCtx) -> Option<Ctx> {
        NonNull::new(raw).map(|raw| Ctx { raw })
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// Calls `look` with a context of no client, on the main thread: for callbacks that get none.
    pub fn of_nobody<R>(look: impl FnOnce(&Ctx) -> R) -> Option<R> {
        // SAFETY: without a blocked client it is a context of its own.
        let raw = unsafe { f!(RedisModule_GetThreadSafeContext)(std::ptr::null_mut()) };
        // SAFETY: it is freed below, after the last use.
        let ctx = unsafe { Ctx::from_raw(raw) }?;
        let result = look(&ctx);
        // SAFETY: it was made above and is freed once. A panic in `look` only leaks it.
        unsafe { f!(RedisModule_FreeThreadSafeContext)(raw) };
        Some(result)
    }

    /// What holds for the caller and the server now.
    pub fn flags(&self) -> Flags {
        // SAFETY: the context is valid.
        let flags = unsafe { f!(RedisModule_GetContextFlags)(self.as_ptr()) };
        Flags::from_bits_retain(flags as u32)
    }

    /// When the server began to run the calling command, by its wall clock, in Unix µs: it has just
    /// read it (7.2). In a transaction or a script that may have been long ago, so then None.
    pub fn began_us(&self, flags: Flags) -> Option<u64> {
        // SAFETY: it is only read.
        let read = unsafe { raw::RedisModule_CachedMicroseconds }.filter(|_| !flags.intersects(Flags::MULTI | Flags::LUA))?;
        // SAFETY: it takes nothing.
        u64::try_from(unsafe { read() }).ok().filter(|us| *us > 0)
    }

    /// The database it is in.
    pub fn db(&self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_GetSelectedDb)(self.as_ptr()) }
    }

    /// The number of the calling client.
    pub fn client(&self) -> u64 {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_GetClientId)(self.as_ptr()) }
    }

    /// Goes to another database; false if there is none of that number.
    pub fn select(&self, db: i32) -> bool {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_SelectDb)(self.as_ptr(), db) == 0 }
    }

    /// How many keys there are in its database.
    pub fn keys(&self) -> u64 {
        // SAFETY: it is only read; the context is valid.
        unsafe { raw::RedisModule_DbSize.map_or(0, |size| size(self.as_ptr())) }
    }

    /// How many keys there are, in all databases. Afterwards it is in some other database.
    pub fn all_keys(&self) -> u64 {
        (0..).take_while(|db| self.select(*db)).map(|_| self.keys()).fold(0, u64::saturating_add)
    }

    /// Replies with an error: its code, then text for people. What cannot stand in an error line
    /// has been escaped before.
    pub fn error(&self, text: &str) {
        let text: Vec<u8> = text.bytes().map(|b| if b == 0 { b'?' } else { b }).collect();
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the context is valid, the text ends with NUL and is copied.
        unsafe { f!(RedisModule_ReplyWithError)(self.as_ptr(), text.as_ptr()) };
    }

    /// The server's own error for too few or too many arguments.
    pub fn wrong_arity(&self) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_WrongArity)(self.as_ptr()) };
    }

    #[inline]
    pub(crate) fn reply_int(&self, value: i64) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_ReplyWithLongLong)(self.as_ptr(), value) };
    }

    #[inline]
    pub(crate) fn reply_bulk(&self, value: &[u8]) {
        // SAFETY: the context is valid; the bytes are copied.
        unsafe { f!(RedisModule_ReplyWithStringBuffer)(self.as_ptr(), value.as_ptr().cast(), value.len()) };
    }

    #[inline]
    pub(crate) fn reply_array(&self, len: usize) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_ReplyWithArray)(self.as_ptr(), c_long::try_from(len).unwrap_or(c_long::MAX)) };
    }

    /// A map; the server makes it a flat array for clients that know no maps.
    pub(crate) fn reply_map(&self, pairs: usize) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_ReplyWithMap)(self.as_ptr(), c_long::try_from(pairs).unwrap_or(c_long::MAX)) };
    }

    pub(crate) fn reply_ok(&self) {
        // SAFETY: the context is valid; the text is copied.
        unsafe { f!(RedisModule_ReplyWithSimpleString)(self.as_ptr(), c"OK".as_ptr()) };
    }

    pub(crate) fn reply_null(&self) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_ReplyWithNull)(self.as_ptr()) };
    }

    pub(crate) fn reply_null_array(&self) {
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_ReplyWithNullArray)(self.as_ptr()) };
    }

    /// Sends `RQ.APPLY key batch` to the AOF and the replicas; false if the server does not know
    /// the command by that name.
    pub fn replicate_apply(&self, key: Str<'_>, batch: &[u8]) -> bool {
        // SAFETY: the context is valid; the format says a string, then a buffer and its length.
        let result = unsafe {
            f!(RedisModule_Replicate)(
                self.as_ptr(), c"RQ.APPLY".as_ptr(), c"sb".as_ptr(),
                key.as_ptr(), batch.as_ptr(), batch.len(),
            )
        };
        result == 0
    }

    /// Sends the command that is being run, as it came.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is valid, and this is called in commands only.
        unsafe { f!(RedisModule_ReplicateVerbatim)(self.as_ptr()) };
    }

    /// Sends a keyspace event.
    pub fn notify(&self, class: Notify, event: &CStr, key: Str<'_>) {
        // SAFETY: the context and the string are valid, the event's name ends with NUL.
        unsafe { f!(RedisModule_NotifyKeyspaceEvent)(self.as_ptr(), class.0, event.as_ptr(), key.as_ptr()) };
    }
}

impl Ctx {
    /// Tells the server what this module copes with: read errors of files (else it would exit),
    /// data loaded beside those that are served, and on Valkey 9 keys of slots that are still on
    /// their way. Servers ignore what they do not know. Last, whether a key that was open for
    /// writing has changed when it is closed, or only might have: see [`super::Key::close`].
    pub fn set_options(&self, closed_is_changed: bool) {
        const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
        let signal = if closed_is_changed { 0 } else { raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED };
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
            | HANDLE_ATOMIC_SLOT_MIGRATION
            | signal;
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_SetModuleOptions)(self.as_ptr(), options as c_int) };
    }

    /// Registers a data type.
    pub(crate) fn create_data_type(
        &self, name: &CStr, encoding: c_int, methods: &mut raw::RedisModuleTypeMethods,
    ) -> Option<NonNull<raw::RedisModuleType>> {
        // SAFETY: the context is valid, the name ends with NUL, the methods are copied.
        NonNull::new(unsafe { f!(RedisModule_CreateDataType)(self.as_ptr(), name.as_ptr(), encoding, methods) })
    }

    /// Whether the caller stands for the primary, the AOF or a slot migration, whose commands are
    /// never refused. Valkey 8.1 and later know; elsewhere the flags have to do.
    pub fn must_obey(&self) -> bool {
        type MustObeyClient = unsafe extern "C" fn(*mut raw::RedisModuleCtx) -> c_int;
        static FUNCTION: OnceLock<Option<MustObeyClient>> = OnceLock::new();
        let function = FUNCTION.get_or_init(|| {
            let found = super::find(c"ValkeyModule_MustObeyClient");
            // SAFETY: the function of this name has this type.
            found.map(|found| unsafe { std::mem::transmute::<NonNull<c_void>, MustObeyClient>(found) })
        });
        // SAFETY: the context is valid.
        function.is_some_and(|must_obey| unsafe { must_obey(self.as_ptr()) != 0 })
    }
}

/// The monotonic clock, in µs.
pub fn monotonic_us() -> u64 {
    // SAFETY: it takes nothing.
    unsafe { f!(RedisModule_MonotonicMicroseconds)() }
}

/// Whether nothing must be replicated now: clients' writes are paused, and whoever paused them
/// counts on the data to stand still. The server ends itself if a timer writes then.
pub fn writes_are_paused() -> bool {
    // SAFETY: it takes nothing and reads the server's state.
    unsafe { f!(RedisModule_AvoidReplicaTraffic)() != 0 }
}
