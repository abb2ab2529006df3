//! The section in INFO.

use std::ffi::{c_int, CStr, CString};
use std::ptr::NonNull;

use redis_module::raw;

use super::{guarded, Ctx};
use crate::info;

/// Where INFO's fields go.
pub struct InfoCtx(NonNull<raw::RedisModuleInfoCtx>);

impl InfoCtx {
    /// Begins the section `rq`, or `rq_` and a name; false if the caller did not ask for it.
    pub fn section(&self, name: Option<&CStr>) -> bool {
        // SAFETY: the context is valid. Without a name the section is called as the module.
        unsafe { f!(RedisModule_InfoAddSection)(self.0.as_ptr(), name.map_or(std::ptr::null(), CStr::as_ptr)) == 0 }
    }

    /// A line of several fields: `name:field=value,field=value`.
    pub fn line(&self, name: &CStr, fields: impl FnOnce(&InfoCtx)) {
        // SAFETY: the context is valid, the name ends with NUL.
        unsafe { f!(RedisModule_InfoBeginDictField)(self.0.as_ptr(), name.as_ptr()) };
        fields(self);
        // SAFETY: the context is valid.
        unsafe { f!(RedisModule_InfoEndDictField)(self.0.as_ptr()) };
    }

    /// Adds a number.
    pub fn number(&self, name: &CStr, value: u64) {
        // SAFETY: the context is valid, the name ends with NUL.
        unsafe { f!(RedisModule_InfoAddFieldULongLong)(self.0.as_ptr(), name.as_ptr(), value) };
    }

    /// Adds a text without line breaks.
    pub fn text(&self, name: &CStr, value: &str) {
        let value = CString::new(value).unwrap_or_default();
        // SAFETY: the context is valid, both end with NUL, and the value is copied.
        unsafe { f!(RedisModule_InfoAddFieldCString)(self.0.as_ptr(), name.as_ptr(), value.as_ptr()) };
    }
}

/// Registers the section.
pub fn register(ctx: &Ctx) -> bool {
    // SAFETY: the context is valid; the callback is `extern "C"` and never unwinds.
    unsafe { f!(RedisModule_RegisterInfoFunc)(ctx.as_ptr(), Some(on_info)) == 0 }
}

/// `crash`: the server is about to end because of a bug, and reports what it knows.
unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, crash: c_int) {
    guarded((), |node| {
        if let Some(ctx) = NonNull::new(ctx) {
            info::write(node, &InfoCtx(ctx), crash != 0);
        }
    });
}
