//! The server's log.

use std::ffi::{CStr, CString};

/// How loud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For people who look into it.
    Debug,
    /// What an operator may like to know.
    Notice,
    /// What an operator has to know.
    Warning,
}

/// Writes a line into the server's log, from any thread.
pub fn log(level: Level, text: &str) {
    let level: &CStr = match level {
        Level::Debug => c"debug",
        Level::Notice => c"notice",
        Level::Warning => c"warning",
    };
    // Without a context the server writes "<module>" before it, so we say which.
    let text: Vec<u8> = "rq: ".bytes().chain(text.bytes()).map(|b| match b {
        0 => b'?',
        b'\n' => b' ',
        b => b,
    }).collect();
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: no context is needed to log. The text is an argument, never the format: it may
    // hold what a client sent.
    unsafe {
        f!(RedisModule_Log)(std::ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), text.as_ptr());
    }
}
