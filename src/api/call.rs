//! Commands of the server that are called.

use redis_module::raw;
use rq_core::Tree;

use super::{forgets_replies, Ctx, OwnedStr};

/// The value of a configuration option of the server; None if it has none of that name.
///
/// This runs a command: a few µs. The name must hold no special characters.
pub fn config_get(ctx: &Ctx, option: &std::ffi::CStr) -> Option<String> {
    // SAFETY: the context is valid; the format says two C strings.
    let reply = unsafe {
        f!(RedisModule_Call)(ctx.as_ptr(), c"CONFIG".as_ptr(), c"cc".as_ptr(), c"GET".as_ptr(), option.as_ptr())
    };
    if reply.is_null() {
        return None;
    }
    // SAFETY: the reply is valid until it is freed, and its elements with it.
    unsafe {
        let value = second_string(reply);
        f!(RedisModule_FreeCallReply)(reply);
        value
    }
}

/// A field of a section of INFO, also where CONFIG and INFO are renamed.
pub fn server_info(ctx: &Ctx, section: &std::ffi::CStr, field: &std::ffi::CStr) -> Option<String> {
    // SAFETY: it is only read; the context is valid and the texts end with NUL. The field lives as
    // long as the section, which is freed once.
    unsafe {
        let (get, get_field, free) =
            (raw::RedisModule_GetServerInfo?, raw::RedisModule_ServerInfoGetFieldC?, raw::RedisModule_FreeServerInfo?);
        let data = get(ctx.as_ptr(), section.as_ptr());
        if data.is_null() {
            return None;
        }
        let text = get_field(data, field.as_ptr());
        let text = (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned());
        free(ctx.as_ptr(), data);
        text
    }
}

/// The second element of a reply that is an array of strings.
///
/// # Safety
/// `reply` is a valid reply.
unsafe fn second_string(reply: *mut raw::RedisModuleCallReply) -> Option<String> {
    // SAFETY: the reply is valid; an element is null if there is none.
    unsafe {
        if f!(RedisModule_CallReplyType)(reply) != raw::REDISMODULE_REPLY_ARRAY as i32 {
            return None;
        }
        let value = f!(RedisModule_CallReplyArrayElement)(reply, 1);
        if value.is_null() || f!(RedisModule_CallReplyType)(value) != raw::REDISMODULE_REPLY_STRING as i32 {
            return None;
        }
        let mut len = 0;
        let start = f!(RedisModule_CallReplyStringPtr)(value, &mut len);
        if start.is_null() {
            return None;
        }
        Some(String::from_utf8_lossy(std::slice::from_raw_parts(start.cast(), len)).into_owned())
    }
}

/// Closes the connection of a client that was let go without a reply, if it is still there: it
/// would take the reply of its next command for the one it misses. See [`forgets_replies`].
pub fn hang_up(ctx: &Ctx, client: u64) {
    if !forgets_replies() {
        return;
    }
    // SAFETY: without a place for the answer it only says whether there is such a client.
    if unsafe { f!(RedisModule_GetClientInfoById)(std::ptr::null_mut(), client) } != raw::REDISMODULE_OK as i32 {
        return;
    }
    let Ok(id) = std::ffi::CString::new(client.to_string()) else { return };
    // SAFETY: the context is valid; the format says three C strings.
    unsafe {
        let reply = f!(RedisModule_Call)(
            ctx.as_ptr(), c"CLIENT".as_ptr(), c"ccc".as_ptr(), c"KILL".as_ptr(), c"ID".as_ptr(), id.as_ptr(),
        );
        if !reply.is_null() {
            f!(RedisModule_FreeCallReply)(reply);
        }
    }
}

/// Runs a command of the server. `tell`: its effects go to replicas and the AOF.
///
/// # Errors
/// The command's error, as the server words it.
pub fn call(ctx: &Ctx, command: &std::ffi::CStr, args: &[&[u8]], tell: bool) -> Result<Tree, String> {
    let args: Vec<OwnedStr> = args.iter().map(|arg| OwnedStr::new(arg)).collect();
    let mut raw_args: Vec<*mut raw::RedisModuleString> = args.iter().map(|arg| arg.get().as_ptr()).collect();
    // E: errors come as replies. v: a vector of strings.
    let format = if tell { c"!Ev" } else { c"Ev" };
    // SAFETY: the context is valid; the format says a vector of strings and its length, which
    // live until the call has ended.
    let reply = unsafe {
        f!(RedisModule_Call)(ctx.as_ptr(), command.as_ptr(), format.as_ptr(), raw_args.as_mut_ptr(), raw_args.len())
    };
    if reply.is_null() {
        return Err("ERR the server does not run this command".into());
    }
    // SAFETY: the reply is valid until it is freed, and its elements with it.
    unsafe {
        let tree = tree_of(reply, 0);
        f!(RedisModule_FreeCallReply)(reply);
        tree
    }
}

/// The deepest reply that is read.
const MAX_DEPTH: usize = 8;

/// A reply as a tree.
///
/// # Safety
/// `reply` is a valid reply.
unsafe fn tree_of(reply: *mut raw::RedisModuleCallReply, depth: usize) -> Result<Tree, String> {
    // SAFETY: the reply is valid, and its parts are as long as it is.
    unsafe {
        let kind = f!(RedisModule_CallReplyType)(reply);
        let text = || {
            let mut len = 0;
            let start = f!(RedisModule_CallReplyStringPtr)(reply, &mut len);
            if start.is_null() { Vec::new() } else { std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec() }
        };
        if kind == raw::REDISMODULE_REPLY_INTEGER as i32 {
            Ok(Tree::Int(f!(RedisModule_CallReplyInteger)(reply)))
        } else if kind == raw::REDISMODULE_REPLY_STRING as i32 {
            Ok(Tree::Bulk(text()))
        } else if kind == raw::REDISMODULE_REPLY_ERROR as i32 {
            Err(String::from_utf8_lossy(&text()).trim_end().into())
        } else if kind == raw::REDISMODULE_REPLY_ARRAY as i32 && depth < MAX_DEPTH {
            let len = f!(RedisModule_CallReplyLength)(reply);
            let items = (0..len).map(|at| tree_of(f!(RedisModule_CallReplyArrayElement)(reply, at), depth + 1));
            items.collect::<Result<_, _>>().map(Tree::Array)
        } else {
            Ok(Tree::Null)
        }
    }
}
