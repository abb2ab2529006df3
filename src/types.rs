//! The data type: how the server saves, loads, copies, measures and frees a queue.
//!
//! A saved queue is its snapshot: the batches as strings, then an empty string. Its first batch
//! tells the version of the ops, so the type's own version stays 1 until that frame changes.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use redis_module::raw;
use rq_core::{copy_incarnation, Effects, Loader, Queue, Recent, Timings};

use crate::api::{self, guarded, log, AofWriter, Ctx, Digest, Level, OptCtx, RdbReader, RdbWriter};
use crate::clock::Now;
use crate::graveyard;
use crate::index::Told;

/// The type's name in RDB files: exactly 9 characters, never to be changed.
const NAME: &std::ffi::CStr = c"rq-queue1";
/// The version of the frame described above.
const ENCODING: c_int = 1;

/// What is under a key.
pub struct Value {
    /// The queue: all that is saved, copied and replicated.
    pub queue: Queue,
    /// What the index knows of it.
    pub told: Told,
    /// What was seen of it here lately; None: nothing.
    pub timings: Option<Box<Timings>>,
}

impl Value {
    /// Takes note of what was decided here at `now_ms`.
    #[inline]
    pub fn record(&mut self, effects: &Effects, now_ms: u64) {
        if Timings::are_in(effects) {
            self.timings.get_or_insert_default().record(effects, now_ms);
        }
    }

    /// What there is to say of the last minutes.
    pub fn recent(&self, now_ms: u64) -> Recent {
        self.timings.as_ref().map_or_else(Recent::default, |timings| timings.recent(now_ms))
    }

    /// Gives back the memory of what nobody will ask for any more.
    pub fn forget_old(&mut self, now_ms: u64) {
        self.timings.take_if(|timings| timings.over_at() <= now_ms);
    }

    /// About how many bytes all of it takes.
    pub fn bytes(&self) -> usize {
        let timings = self.timings.as_ref().map_or(0, |timings| timings.bytes());
        self.queue.mem_usage().saturating_add(timings)
    }

    /// When the queue is to be looked at: for its next event, or to forget what was seen of it.
    pub fn next_event(&self, now: Now) -> Option<u64> {
        self.or_to_forget(self.queue.next_event(now.ms, now.no_expiry_before_ms))
    }

    /// The same, or earlier; cheap.
    pub fn look_again_at(&self, now_ms: u64, no_expiry_before_ms: u64) -> Option<u64> {
        self.or_to_forget(self.queue.look_again_at(now_ms, no_expiry_before_ms))
    }

    fn or_to_forget(&self, at: Option<u64>) -> Option<u64> {
        let Some(timings) = &self.timings else { return at };
        let over_at = timings.over_at();
        Some(at.map_or(over_at, |at| at.min(over_at)))
    }
}

impl From<Queue> for Value {
    fn from(queue: Queue) -> Value {
        Value { queue, told: Told::default(), timings: None }
    }
}

/// A value as the server keeps it.
fn boxed(value: Value) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// The queue in a value that the server shows.
///
/// # Safety
/// `value` is null or was made by [`boxed`], and nobody changes it during `'a`.
unsafe fn shown<'a>(value: *const c_void) -> Option<&'a Queue> {
    // SAFETY: see above.
    unsafe { value.cast::<Value>().as_ref() }.map(|value| &value.queue)
}

/// A value that the server gives back.
///
/// # Safety
/// `value` is null or was made by [`boxed`], and is used by nobody any more.
unsafe fn unboxed(value: *mut c_void) -> Option<Box<Value>> {
    // SAFETY: see above.
    (!value.is_null()).then(|| unsafe { Box::from_raw(value.cast()) })
}

/// Registers the type; false if the server refuses.
pub fn register(ctx: &Ctx) -> bool {
    // SAFETY: numbers and pointers to functions, for which all zeros is "not there".
    let mut methods: raw::RedisModuleTypeMethods = unsafe { std::mem::zeroed() };
    // Version 5 is taken by all servers: what an older one does not know it ignores.
    methods.version = raw::REDISMODULE_TYPE_METHOD_VERSION.into();
    methods.rdb_load = Some(rdb_load);
    methods.rdb_save = Some(rdb_save);
    methods.aof_rewrite = Some(aof_rewrite);
    methods.free = Some(free);
    methods.digest = Some(digest);
    methods.free_effort2 = Some(free_effort);
    methods.mem_usage2 = Some(mem_usage);
    methods.unlink2 = Some(unlink);
    methods.copy2 = Some(copy);
    let data_type = ctx.create_data_type(NAME, ENCODING, &mut methods);
    data_type.map(api::set_type).is_some()
}

/// Reads a saved queue. Null for anything that is not exactly one, with a line in the log.
unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    guarded(std::ptr::null_mut(), |node| {
        // SAFETY: the server lends the handle for this call.
        let Some(rdb) = (unsafe { RdbReader::from_raw(rdb) }) else { return std::ptr::null_mut() };
        match load(&rdb, encoding) {
            Ok(queue) => {
                // Only a hint, so nothing is wrong with it if the value gets lost after all.
                if let Some(key) = rdb.key() {
                    node.index.borrow_mut().loaded(rdb.db(), key.bytes());
                }
                boxed(queue.into())
            }
            Err(why) => {
                let key = rdb.key().map_or_else(|| "?".into(), |key| rq_core::quote(key.bytes()));
                log(Level::Warning, &format!("the saved queue {key} (encoding {encoding}) is refused: {why}"));
                std::ptr::null_mut()
            }
        }
    })
}

fn load(rdb: &RdbReader, encoding: c_int) -> Result<Queue, String> {
    if encoding != ENCODING {
        return Err("it was written by another version of RQ".into());
    }
    let mut loader = Loader::new();
    loop {
        let batch = rdb.string().ok_or("it ends too early")?;
        if batch.bytes().is_empty() {
            return loader.finish().map_err(|why| why.to_string());
        }
        loader.feed(batch.bytes()).map_err(|why| why.to_string())?;
    }
}

/// Often in a child process: changes nothing.
unsafe extern "C" fn rdb_save(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    guarded((), |_| {
        // SAFETY: the server lends both for this call.
        if let Some((rdb, queue)) = unsafe { RdbWriter::from_raw(rdb).zip(shown(value)) } {
            queue.snapshot(&mut |batch| rdb.string(batch));
            rdb.string(b"");
        }
    });
}

/// In a child process: changes nothing.
unsafe extern "C" fn aof_rewrite(aof: *mut raw::RedisModuleIO, key: *mut raw::RedisModuleString, value: *mut c_void) {
    guarded((), |_| {
        // SAFETY: the server lends all for this call.
        if let Some((aof, queue)) = unsafe { AofWriter::from_raw(aof, key).zip(shown(value)) } {
            queue.snapshot(&mut |batch| aof.apply(batch));
        }
    });
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), |_| {
        // SAFETY: the server lends both for this call.
        if let Some((digest, queue)) = unsafe { Digest::from_raw(digest).zip(shown(value)) } {
            queue.snapshot(&mut |batch| digest.add(batch));
        }
    });
}

/// On any thread: touches nothing but the value and the graveyard.
unsafe extern "C" fn free(value: *mut c_void) {
    // Not `guarded`, which would make this thread a node of its own.
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the server gives the value back, and nobody uses it any more.
        if let Some(value) = unsafe { unboxed(value) } {
            graveyard::bury(value);
        }
    });
}

/// To free a queue is to hand it over, so it is never worth another thread of the server's:
/// the value of a single key always comes to us on the main thread.
unsafe extern "C" fn free_effort(_: *mut raw::RedisModuleKeyOptCtx, _: *const c_void) -> usize {
    1
}

unsafe extern "C" fn mem_usage(_: *mut raw::RedisModuleKeyOptCtx, value: *const c_void, _: usize) -> usize {
    guarded(0, |_| {
        // SAFETY: the server lends the value for this call.
        let value = unsafe { value.cast::<Value>().as_ref() };
        value.map_or(0, Value::bytes)
    })
}

/// A key has lost its queue: deleted, renamed, moved or overwritten; and on some servers the new
/// one has come already. So what is known is not forgotten, only looked at again soon.
unsafe extern "C" fn unlink(about: *mut raw::RedisModuleKeyOptCtx, value: *const c_void) {
    guarded((), |node| {
        // SAFETY: the server lends both for this call, on the main thread.
        let about = unsafe {
            if let Some(value) = value.cast::<Value>().as_ref() {
                value.told.nothing();
            }
            OptCtx::from_raw(about)
        };
        if let Some((db, key)) = about.as_ref().and_then(OptCtx::key) {
            node.index.borrow_mut().doubt(db, key.bytes());
        }
    });
}

/// COPY is replicated as it is, so the copy must come out the same everywhere.
unsafe extern "C" fn copy(about: *mut raw::RedisModuleKeyOptCtx, value: *const c_void) -> *mut c_void {
    guarded(std::ptr::null_mut(), |node| {
        // SAFETY: the server lends both for this call.
        let Some((about, queue)) = (unsafe { OptCtx::from_raw(about).zip(shown(value)) }) else {
            return std::ptr::null_mut();
        };
        let Some((db, key)) = about.target() else { return std::ptr::null_mut() };
        // As for a loaded one: a hint, since not every server tells of copies.
        node.index.borrow_mut().loaded(db, key.bytes());
        boxed(queue.copy(copy_incarnation(queue.incarnation(), db, key.bytes())).into())
    })
}
