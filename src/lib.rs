//! RQ: reliable job queues inside Redis and Valkey. See `docs/ARCHITECTURE.md`.
//!
//! This is the shell around `rq_core`: it knows the server, and decides nothing about jobs.
#![deny(unsafe_code)]

use std::ffi::c_int;

use redis_module::raw;

mod alloc;
mod api;
mod apply;
mod blocking;
mod clock;
mod config;
mod doctor;
mod events;
mod graveyard;
mod guard;
mod help;
mod index;
mod info;
mod multi;
mod node;
mod queues;
mod replicate;
mod rescue;
mod revival;
mod room;
mod run;
mod sink;
mod timer;
mod types;
mod waiters;
mod xtrim;

use api::{log, Argv, Ctx, Level};
use node::Node;

#[global_allocator]
static MEMORY: alloc::ServerAlloc = alloc::ServerAlloc;

/// What the server calls when it loads the module. Valkey knows it by this name too.
///
/// # Safety
/// Only a server may call it, with a valid context and its arguments.
#[no_mangle]
#[allow(non_snake_case, unsafe_code)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's promise is passed on.
    let loaded = unsafe { api::load(ctx, argv, argc, c"rq", load) };
    if loaded { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

/// Sets everything up. What fails fails the load, with a reason in the log.
fn load(node: &Node, ctx: &Ctx, argv: &Argv<'_>) -> Result<(), String> {
    report_panics();
    config::read_arguments(node, argv)?;
    ctx.set_options(false);
    if !types::register(ctx) {
        return Err("the server refuses the data type: is another version of this module loaded?".into());
    }
    api::create_commands(ctx)?;
    api::register_config(ctx, config::SETTINGS)?;
    if !api::register_info(ctx) || !api::subscribe(ctx) {
        return Err("the server refuses to tell what happens in it".into());
    }
    node.serve_late.set(api::forgets_replies());
    graveyard::open().map_err(|why| format!("no thread: {why}"))?;
    guard::learn(node, ctx);
    let hooks = if node.options.test_hooks.get() { ", with test hooks: not for production" } else { "" };
    log(Level::Notice, &format!("version {} loaded{hooks}", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// A panic is a bug. It is caught where a callback returns to the server, and told here, where
/// its place is known.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        log(Level::Warning, &format!("a bug in RQ, please report it: {panic}"));
        api::count_panic();
    }));
}
