//! The server's strings. Their counts are not atomic: they stay on the main thread.

use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

/// A string that belongs to the server, for as long as the callback that was given it.
#[derive(Clone, Copy)]
pub struct Str<'a> {
    raw: NonNull<raw::RedisModuleString>,
    life: PhantomData<&'a raw::RedisModuleString>,
}

impl<'a> Str<'a> {
    /// # Safety
    /// `raw` is null, or a string that lives and is not changed for `'a`.
    pub(super) unsafe fn from_raw(raw: *const raw::RedisModuleString) -> Option<Str<'a>> {
        NonNull::new(raw.cast_mut()).map(|raw| Str { raw, life: PhantomData })
    }

    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.raw.as_ptr()
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string lives for 'a, and its buffer stays where it is as long as nobody
        // appends to it, which this module never does.
        unsafe {
            let start = f!(RedisModule_StringPtrLen)(self.raw.as_ptr(), &mut len);
            std::slice::from_raw_parts(start.cast(), len)
        }
    }
}

/// A string of our own, for a key's name that is kept elsewhere as bytes.
pub struct OwnedStr(NonNull<raw::RedisModuleString>);

impl OwnedStr {
    /// A copy of the bytes.
    pub fn new(bytes: &[u8]) -> OwnedStr {
        // SAFETY: it copies `len` bytes from a slice of that length. Without a context the
        // string is ours to free.
        let raw = unsafe { f!(RedisModule_CreateString)(std::ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        match NonNull::new(raw) {
            Some(raw) => OwnedStr(raw),
            // The server never returns null here: it ends the process when memory is out.
            None => std::process::abort(),
        }
    }

    /// One that the server has made for us.
    ///
    /// # Safety
    /// `raw` is null, or a string without a context that is ours to free.
    pub(super) unsafe fn from_raw(raw: *mut raw::RedisModuleString) -> Option<OwnedStr> {
        NonNull::new(raw).map(OwnedStr)
    }

    /// It, lent.
    pub fn get(&self) -> Str<'_> {
        Str { raw: self.0, life: PhantomData }
    }

    /// Hands it over to the server.
    pub(super) fn into_raw(self) -> *mut raw::RedisModuleString {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        // SAFETY: it was made without a context and is freed once.
        unsafe { f!(RedisModule_FreeString)(std::ptr::null_mut(), self.0.as_ptr()) };
    }
}
