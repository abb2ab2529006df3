//! Keys, opened, and the queues in them.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;
use rq_core::Queue;

use super::{Ctx, Str};
use crate::types::Value;

/// Our data type, once it is registered.
static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(std::ptr::null_mut());

/// Remembers our data type.
pub fn set_type(data_type: NonNull<raw::RedisModuleType>) {
    TYPE.store(data_type.as_ptr(), Ordering::Relaxed);
}

/// What a key is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To look at it. A key that is not there is not made.
    Read,
    /// To change it.
    Write,
    /// To look at it without being noticed: it is not counted as used.
    Glance,
}

impl Mode {
    pub(super) fn bits(self) -> c_int {
        (match self {
            Mode::Read => raw::REDISMODULE_READ,
            Mode::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
            Mode::Glance => raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH,
        }) as c_int
    }
}

/// The key holds something else than a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// An open key: it holds a queue, or nothing.
///
/// It must be the only open one of its name as long as its queue is borrowed; so nothing may be
/// called meanwhile that runs other code on the same key (events do that).
pub struct Key<'c> {
    /// None: absent, and opened for reading.
    raw: Option<NonNull<raw::RedisModuleKey>>,
    value: Option<NonNull<Value>>,
    context: &'c Ctx,
}

impl<'c> Key<'c> {
    /// Opens a key in the context's database.
    ///
    /// # Errors
    /// The key holds another type.
    #[inline]
    pub fn open(ctx: &'c Ctx, name: Str<'_>, mode: Mode) -> Result<Key<'c>, WrongType> {
        // SAFETY: the context and the string are valid.
        let raw = unsafe { f!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode.bits()) };
        let mut key = Key { raw: NonNull::new(raw), value: None, context: ctx };
        if key.raw.is_none() {
            return Ok(key);
        }
        // SAFETY: the key is open.
        key.value = unsafe { value_behind(raw) };
        // SAFETY: the key is open.
        if key.value.is_none() && unsafe { f!(RedisModule_KeyType)(raw) } != raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Err(WrongType);
        }
        Ok(key)
    }

    /// The value in it.
    #[inline]
    pub fn value(&mut self) -> Option<&mut Value> {
        // SAFETY: the value belongs to the key and stays in it while the key is open. The
        // borrow of `self` makes this the only reference.
        self.value.map(|mut value| unsafe { value.as_mut() })
    }

    /// The queue in it.
    #[inline]
    pub fn queue(&mut self) -> Option<&mut Queue> {
        self.value().map(|value| &mut value.queue)
    }

    /// In how many ms it expires, if it does.
    pub fn ttl_ms(&self) -> Option<u64> {
        // SAFETY: the key is open.
        let ms = unsafe { f!(RedisModule_GetExpire)(self.raw?.as_ptr()) };
        // -1: it does not expire.
        u64::try_from(ms).ok()
    }

    /// Closes it; if it has changed, WATCH and client-side caches are told. There is a function for
    /// that too, but Redis 8 looks the key up for it once more.
    pub fn close(self, changed: bool) {
        let ctx = self.context;
        if changed {
            ctx.set_options(true);
        }
        drop(self);
        if changed {
            ctx.set_options(false);
        }
    }

    /// Puts a queue into it, which was absent and opened for writing. Null if the server
    /// refused, which it does not do then.
    pub fn set(&mut self, value: Box<Value>) -> Option<&mut Value> {
        let raw = self.raw?.as_ptr();
        let value = Box::into_raw(value);
        // SAFETY: the key is open for writing, the value is of our type. From now on it is the
        // server's, which gives it back to `free`.
        let result = unsafe {
            f!(RedisModule_ModuleTypeSetValue)(raw, TYPE.load(Ordering::Relaxed), value.cast())
        };
        if result != 0 {
            // SAFETY: it was not taken, so it is still ours.
            drop(unsafe { Box::from_raw(value) });
            return None;
        }
        self.value = NonNull::new(value);
        self.value()
    }
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: it is open, and closed once.
            unsafe { f!(RedisModule_CloseKey)(raw.as_ptr()) };
        }
    }
}

impl Key<'_> {
    /// Lets the key end at this time, in Unix ms. It must be open for writing.
    pub fn expire_at(&mut self, unix_ms: i64) {
        // SAFETY: it is only read; the key is open.
        if let (Some(raw), Some(set)) = (self.raw, unsafe { raw::RedisModule_SetAbsExpire }) {
            // SAFETY: as above.
            unsafe { set(raw.as_ptr(), unix_ms) };
        }
    }

    /// Marks it as used just now and often, so that the server evicts others first.
    pub fn make_last_to_evict(&mut self) {
        let Some(raw) = self.raw.filter(|_| self.value.is_some()) else { return };
        // SAFETY: the key is open and holds a value; each of the two acts under its own policies only.
        unsafe {
            if let (Some(set_lru), Some(set_lfu)) = (raw::RedisModule_SetLRU, raw::RedisModule_SetLFU) {
                set_lru(raw.as_ptr(), 0);
                set_lfu(raw.as_ptr(), 255);
            }
        }
    }
}

/// When a key that the server has opened for a callback ends, in Unix ms, if ever.
///
/// # Safety
/// `key` is an open key.
pub(super) unsafe fn expiry_of(key: *mut raw::RedisModuleKey) -> Option<i64> {
    // SAFETY: it is only read; the key is open.
    unsafe { raw::RedisModule_GetAbsExpire.map(|get| get(key)) }.filter(|at_ms| *at_ms >= 0)
}

/// The value in a key that somebody else has opened.
///
/// # Safety
/// `key` is null or an open key.
#[inline]
unsafe fn value_behind(key: *mut raw::RedisModuleKey) -> Option<NonNull<Value>> {
    // SAFETY: the caller has the key open.
    let data_type = unsafe { f!(RedisModule_ModuleTypeGetType)(key) };
    if data_type.is_null() || data_type != TYPE.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: a value of our type is what `set`, `rdb_load` or `copy` have made: a boxed `Value`.
    NonNull::new(unsafe { f!(RedisModule_ModuleTypeGetValue)(key) }.cast())
}

/// Shows the value in a key that the server has opened for a callback.
///
/// # Safety
/// `key` is null or an open key, and nobody else uses its value meanwhile.
pub(super) unsafe fn value_in<R>(key: *mut raw::RedisModuleKey, look: impl FnOnce(&Value) -> R) -> Option<R> {
    if key.is_null() {
        return None;
    }
    // SAFETY: the key is open; the reference does not outlive the call.
    unsafe { value_behind(key).map(|value| look(value.as_ref())) }
}
