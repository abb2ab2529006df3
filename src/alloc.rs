//! Memory comes from the server, so that it is counted in `used_memory` and bound by maxmemory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};

use redis_module::raw;

/// The server's allocator. It grows in place by `RedisModule_Realloc` where it can, which the
/// bindings' own allocator does not.
///
/// Its blocks are aligned to 16 bytes, like malloc's; nothing here asks for more.
pub struct ServerAlloc;

/// Allocators align a block of `n` bytes to the largest power of two up to 16 that divides it,
/// so a size is rounded up to its alignment.
fn size(layout: Layout) -> usize {
    layout.pad_to_align().size()
}

// SAFETY: all blocks come from one allocator, the server's. Before the module is initialised
// there is none: null then, which Rust takes as out of memory, and no block can come back.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: written once, at load, before any other thread exists.
        match unsafe { raw::RedisModule_Alloc } {
            // SAFETY: any size is allowed; the server ends the process rather than return null.
            Some(alloc) => unsafe { alloc(size(layout)) }.cast(),
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        match unsafe { raw::RedisModule_Calloc } {
            // SAFETY: as in `alloc`.
            Some(calloc) => unsafe { calloc(1, size(layout)) }.cast(),
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        match unsafe { raw::RedisModule_Realloc } {
            // SAFETY: `block` came from this allocator, hence from the server. The caller
            // promises that `new_size`, rounded up to the alignment, does not overflow.
            Some(realloc) => unsafe {
                let new = Layout::from_size_align_unchecked(new_size, layout.align());
                realloc(block.cast(), size(new)).cast()
            },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: as in `alloc`.
        if let Some(free) = unsafe { raw::RedisModule_Free } {
            // SAFETY: `block` came from this allocator, hence from the server.
            unsafe { free(block.cast()) };
        }
    }
}
