//! The module's own configuration options.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_void, CStr};

use redis_module::raw;

use super::{guarded, Ctx, OwnedStr, Str};
use crate::config;
use crate::node::Node;

/// One option: `rq.` and its name.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static CStr,
    /// What it takes, and what it is at first.
    pub value: Value,
    /// Not shown by `CONFIG GET` with a pattern.
    pub hidden: bool,
}

/// What an option takes.
#[derive(Debug)]
pub enum Value {
    /// A number from `low` to `high`.
    Number {
        /// At first.
        default: i64,
        /// The least.
        low: i64,
        /// The most.
        high: i64,
    },
    /// Yes or no.
    Bool {
        /// At first.
        default: bool,
    },
    /// One of these words, by its place.
    Word {
        /// At first, on this server.
        default: fn() -> i32,
        /// The words.
        words: &'static [&'static CStr],
    },
    /// Any text.
    Text {
        /// At first.
        default: &'static CStr,
    },
}

/// Registers the options and takes their values from the server's configuration file or the
/// arguments of MODULE LOADEX.
///
/// # Errors
/// Which one the server refused.
pub fn register(ctx: &Ctx, settings: &'static [Setting]) -> Result<(), String> {
    for (n, setting) in settings.iter().enumerate() {
        let name = setting.name.as_ptr();
        let flags = if setting.hidden { raw::REDISMODULE_CONFIG_HIDDEN as c_uint } else { raw::REDISMODULE_CONFIG_DEFAULT };
        // The place in the table, as all the callbacks' private data.
        let place = n as *mut c_void;
        // SAFETY: the context is valid, names and words end with NUL and are copied, and the
        // callbacks are `extern "C"` and never unwind.
        let result = unsafe {
            match &setting.value {
                Value::Number { default, low, high } => f!(RedisModule_RegisterNumericConfig)(
                    ctx.as_ptr(), name, *default, flags, *low, *high,
                    Some(get_number), Some(set_number), Some(apply), place,
                ),
                Value::Bool { default } => f!(RedisModule_RegisterBoolConfig)(
                    ctx.as_ptr(), name, c_int::from(*default), flags,
                    Some(get_int), Some(set_int), Some(apply), place,
                ),
                Value::Word { default, words } => {
                    let mut texts: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
                    let values: Vec<c_int> = (0..).take(words.len()).collect();
                    f!(RedisModule_RegisterEnumConfig)(
                        ctx.as_ptr(), name, default(), flags, texts.as_mut_ptr(), values.as_ptr(),
                        c_int::try_from(words.len()).unwrap_or(0),
                        Some(get_int), Some(set_int), Some(apply), place,
                    )
                }
                Value::Text { default } => f!(RedisModule_RegisterStringConfig)(
                    ctx.as_ptr(), name, default.as_ptr(), flags,
                    Some(get_text), Some(set_text), Some(apply), place,
                ),
            }
        };
        if result != 0 {
            return Err(format!("the server refuses the option rq.{}", setting.name.to_string_lossy()));
        }
    }
    // SAFETY: the context is valid.
    match unsafe { f!(RedisModule_LoadConfigs)(ctx.as_ptr()) } {
        0 => Ok(()),
        _ => Err("a value of an rq. option in the configuration is refused".into()),
    }
}

fn get(place: *mut c_void) -> i64 {
    guarded(0, |node| config::get(node, place as usize))
}

fn set(place: *mut c_void, value: i64, error: *mut *mut raw::RedisModuleString) -> c_int {
    answer(error, |node| config::set(node, place as usize, value).map_err(str::to_owned))
}

/// Whether an option could be set; if not, the server is told why.
fn answer(error: *mut *mut raw::RedisModuleString, set: impl FnOnce(&Node) -> Result<(), String>) -> c_int {
    let Err(why) = guarded(Err("internal error".to_owned()), set) else { return raw::REDISMODULE_OK as c_int };
    if !error.is_null() {
        // SAFETY: the server passes a place for a string, which it frees.
        unsafe { *error = OwnedStr::new(why.as_bytes()).into_raw() };
    }
    raw::REDISMODULE_ERR as c_int
}

/// The server copies the string at once; it stays ours until the next one is asked for.
unsafe extern "C" fn get_text(_: *const c_char, place: *mut c_void) -> *mut raw::RedisModuleString {
    guarded(std::ptr::null_mut(), |node| {
        let text = OwnedStr::new(&config::get_text(node, place as usize));
        let shown = text.get().as_ptr();
        node.options.shown.set(Some(text));
        shown
    })
}

unsafe extern "C" fn set_text(
    _: *const c_char, text: *mut raw::RedisModuleString, place: *mut c_void, error: *mut *mut raw::RedisModuleString,
) -> c_int {
    answer(error, |node| {
        // SAFETY: the server lends the string for this call.
        let text = unsafe { Str::from_raw(text) }.map_or(&[][..], Str::bytes);
        config::set_text(node, place as usize, text)
    })
}

unsafe extern "C" fn get_number(_: *const c_char, place: *mut c_void) -> c_longlong {
    get(place)
}

unsafe extern "C" fn set_number(
    _: *const c_char, value: c_longlong, place: *mut c_void, error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set(place, value, error)
}

unsafe extern "C" fn get_int(_: *const c_char, place: *mut c_void) -> c_int {
    c_int::try_from(get(place)).unwrap_or(0)
}

unsafe extern "C" fn set_int(
    _: *const c_char, value: c_int, place: *mut c_void, error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set(place, value.into(), error)
}

/// All values of one CONFIG SET are in.
unsafe extern "C" fn apply(ctx: *mut raw::RedisModuleCtx, _: *mut c_void, _: *mut *mut raw::RedisModuleString) -> c_int {
    guarded((), |node| {
        // SAFETY: the server lends the context for this call.
        if let Some(ctx) = unsafe { Ctx::from_raw(ctx) } {
            config::changed(node, &ctx);
        }
    });
    raw::REDISMODULE_OK as c_int
}
