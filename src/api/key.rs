//! Keys, opened, and the queues in them.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;
use rq_core::Queue;

use super::{Ctx, Str};

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
    fn bits(self) -> c_int {
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
    queue: Option<NonNull<Queue>>,
    context: PhantomData<&'c Ctx>,
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
        let mut key = Key { raw: NonNull::new(raw), queue: None, context: PhantomData };
        if key.raw.is_none() {
            return Ok(key);
        }
        // SAFETY: the key is open.
        key.queue = unsafe { queue_behind(raw) };
        // SAFETY: the key is open.
        if key.queue.is_none() && unsafe { f!(RedisModule_KeyType)(raw) } != raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Err(WrongType);
        }
        Ok(key)
    }

    /// The queue in it.
    #[inline]
    pub fn queue(&mut self) -> Option<&mut Queue> {
        // SAFETY: the value belongs to the key and stays in it while the key is open. The
        // borrow of `self` makes this the only reference.
        self.queue.map(|mut queue| unsafe { queue.as_mut() })
    }

    /// Puts a queue into it, which was absent and opened for writing. Null if the server
    /// refused, which it does not do then.
    pub fn set(&mut self, queue: Box<Queue>) -> Option<&mut Queue> {
        let raw = self.raw?.as_ptr();
        let value = Box::into_raw(queue);
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
        self.queue = NonNull::new(value);
        self.queue()
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

/// The queue in a key that somebody else has opened.
///
/// # Safety
/// `key` is null or an open key.
#[inline]
unsafe fn queue_behind(key: *mut raw::RedisModuleKey) -> Option<NonNull<Queue>> {
    // SAFETY: the caller has the key open.
    let data_type = unsafe { f!(RedisModule_ModuleTypeGetType)(key) };
    if data_type.is_null() || data_type != TYPE.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: a value of our type is what `set`, `rdb_load` or `copy` have made: a boxed queue.
    NonNull::new(unsafe { f!(RedisModule_ModuleTypeGetValue)(key) }.cast())
}

/// Shows the queue in a key that the server has opened for a callback.
///
/// # Safety
/// `key` is null or an open key, and nobody else uses its value meanwhile.
pub(super) unsafe fn queue_in<R>(key: *mut raw::RedisModuleKey, look: impl FnOnce(&Queue) -> R) -> Option<R> {
    if key.is_null() {
        return None;
    }
    // SAFETY: the key is open; the reference does not outlive the call.
    unsafe { queue_behind(key).map(|queue| look(queue.as_ref())) }
}
