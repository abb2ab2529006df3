//! Files and streams that values are written to and read from.

use std::ptr::NonNull;

use redis_module::raw;

use super::Str;

/// An RDB file or a RESTORE payload that is being read. The bytes may come from anybody.
pub struct RdbReader(NonNull<raw::RedisModuleIO>);

/// A string that was read.
pub struct Loaded(NonNull<u8>, usize);

impl RdbReader {
    /// # Safety
    /// `raw` is null, or lent for as long as this is used.
    pub unsafe fn from_raw(raw: *mut raw::RedisModuleIO) -> Option<RdbReader> {
        NonNull::new(raw).map(RdbReader)
    }

    /// The next string. None at a read error or if the payload ends.
    ///
    /// The server allocates as much as the length says, but refuses rather than die if that is
    /// too much.
    pub fn string(&self) -> Option<Loaded> {
        let mut len = 0;
        // SAFETY: the handle is valid. The buffer is ours to free.
        let start = unsafe { f!(RedisModule_LoadStringBuffer)(self.0.as_ptr(), &mut len) };
        let loaded = NonNull::new(start.cast()).map(|start| Loaded(start, len));
        // SAFETY: the handle is valid.
        if unsafe { f!(RedisModule_IsIOError)(self.0.as_ptr()) } != 0 {
            return None;
        }
        loaded
    }

    /// The key that is being read, if the server says so.
    pub fn key(&self) -> Option<Str<'_>> {
        // SAFETY: the handle is valid, and the name is as long as it is.
        unsafe { Str::from_raw(f!(RedisModule_GetKeyNameFromIO)(self.0.as_ptr())) }
    }

    /// The database it goes to.
    pub fn db(&self) -> i32 {
        // SAFETY: the handle is valid.
        unsafe { f!(RedisModule_GetDbIdFromIO)(self.0.as_ptr()) }
    }
}

impl Loaded {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the server filled so many bytes, and they are ours until the drop.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.1) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the server gave it to us to free, once.
        unsafe { f!(RedisModule_Free)(self.0.as_ptr().cast()) };
    }
}

/// An RDB file that is being written.
pub struct RdbWriter(NonNull<raw::RedisModuleIO>);

impl RdbWriter {
    /// # Safety
    /// `raw` is null, or lent for as long as this is used.
    pub unsafe fn from_raw(raw: *mut raw::RedisModuleIO) -> Option<RdbWriter> {
        NonNull::new(raw).map(RdbWriter)
    }

    /// Writes a string. Errors are the server's business: it asks for them itself.
    pub fn string(&self, bytes: &[u8]) {
        // SAFETY: the handle is valid; the bytes are copied.
        unsafe { f!(RedisModule_SaveStringBuffer)(self.0.as_ptr(), bytes.as_ptr().cast(), bytes.len()) };
    }
}

/// An AOF that is being rewritten.
pub struct AofWriter<'a>(NonNull<raw::RedisModuleIO>, Str<'a>);

impl AofWriter<'_> {
    /// # Safety
    /// Both are null, or lent for as long as this is used.
    pub unsafe fn from_raw<'a>(raw: *mut raw::RedisModuleIO, key: *mut raw::RedisModuleString) -> Option<AofWriter<'a>> {
        // SAFETY: the caller lends the key.
        let key = unsafe { Str::from_raw(key) }?;
        Some(AofWriter(NonNull::new(raw)?, key))
    }

    /// Writes `RQ.APPLY key batch`.
    pub fn apply(&self, batch: &[u8]) {
        // SAFETY: the handle is valid; the format says a string, then a buffer and its length.
        unsafe {
            f!(RedisModule_EmitAOF)(
                self.0.as_ptr(), c"RQ.APPLY".as_ptr(), c"sb".as_ptr(),
                self.1.as_ptr(), batch.as_ptr(), batch.len(),
            );
        }
    }
}

/// A digest of a value, for `DEBUG DIGEST`.
pub struct Digest(NonNull<raw::RedisModuleDigest>);

impl Digest {
    /// # Safety
    /// `raw` is null, or lent for as long as this is used.
    pub unsafe fn from_raw(raw: *mut raw::RedisModuleDigest) -> Option<Digest> {
        NonNull::new(raw).map(Digest)
    }

    /// Adds bytes, whose order counts.
    pub fn add(&self, bytes: &[u8]) {
        // SAFETY: the handle is valid; the bytes are only read.
        unsafe {
            f!(RedisModule_DigestAddStringBuffer)(self.0.as_ptr(), bytes.as_ptr().cast(), bytes.len());
            f!(RedisModule_DigestEndSequence)(self.0.as_ptr());
        }
    }
}

/// What a callback about a key that is copied or removed is told.
pub struct OptCtx(NonNull<raw::RedisModuleKeyOptCtx>);

impl OptCtx {
    /// # Safety
    /// `raw` is null, or lent for as long as this is used.
    pub unsafe fn from_raw(raw: *mut raw::RedisModuleKeyOptCtx) -> Option<OptCtx> {
        NonNull::new(raw).map(OptCtx)
    }

    /// The key's database and name.
    pub fn key(&self) -> Option<(i32, Str<'_>)> {
        // SAFETY: the handle is valid, and the name is as long as it is.
        unsafe {
            let key = Str::from_raw(f!(RedisModule_GetKeyNameFromOptCtx)(self.0.as_ptr()))?;
            Some((f!(RedisModule_GetDbIdFromOptCtx)(self.0.as_ptr()), key))
        }
    }

    /// Where it is copied to.
    pub fn target(&self) -> Option<(i32, Str<'_>)> {
        // SAFETY: the handle is valid, and the name is as long as it is.
        unsafe {
            let key = Str::from_raw(f!(RedisModule_GetToKeyNameFromOptCtx)(self.0.as_ptr()))?;
            Some((f!(RedisModule_GetToDbIdFromOptCtx)(self.0.as_ptr()), key))
        }
    }
}
