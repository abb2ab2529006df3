//! What the calling user may read.

use std::ptr::NonNull;

use redis_module::raw;

use super::{Ctx, Str};

/// The user of the calling client.
pub struct Readable(NonNull<raw::RedisModuleUser>);

impl Readable {
    /// The user who calls; None if nobody in particular does (a replica, the AOF, another module),
    /// or if the server does not tell: then everything is readable.
    pub fn of(ctx: &Ctx) -> Option<Readable> {
        // SAFETY: the functions are only read, and called with a valid context; the name is freed
        // once.
        unsafe {
            let (name_of, user_of) = (raw::RedisModule_GetCurrentUserName?, raw::RedisModule_GetModuleUserFromUserName?);
            let name = name_of(ctx.as_ptr());
            if name.is_null() {
                return None;
            }
            let user = NonNull::new(user_of(name)).map(Readable);
            f!(RedisModule_FreeString)(ctx.as_ptr(), name);
            user
        }
    }

    /// Whether the user may read a key.
    pub fn may_read(&self, key: Str<'_>) -> bool {
        // SAFETY: the function is only read; the user and the key are valid.
        unsafe {
            raw::RedisModule_ACLCheckKeyPermissions
                .is_none_or(|check| check(self.0.as_ptr(), key.as_ptr(), raw::REDISMODULE_CMD_KEY_ACCESS as i32) == 0)
        }
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        // SAFETY: the user was made by `of` and is freed once.
        unsafe {
            if let Some(free) = raw::RedisModule_FreeModuleUser {
                free(self.0.as_ptr());
            }
        }
    }
}
