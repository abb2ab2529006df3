//! Where queues go that were deleted: freeing one with millions of jobs takes long, so a thread
//! of our own does it, and DEL is O(1) whatever the server's lazyfree options say.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::sync::OnceLock;

use crate::types::Value;

/// The thread that commands run on, if the graveyard has a keeper.
static MAIN: OnceLock<ThreadId> = OnceLock::new();
static GRAVES: Mutex<VecDeque<Box<Value>>> = Mutex::new(VecDeque::new());
static DUG: Condvar = Condvar::new();
/// The number of graves, for INFO: it must never wait for the lock.
static COUNT: AtomicU64 = AtomicU64::new(0);
static KEEPER: AtomicBool = AtomicBool::new(false);

/// Starts the thread, on the main thread. Without one, queues are freed where they come.
pub fn open() -> std::io::Result<()> {
    if KEEPER.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    std::thread::Builder::new().name("rq-free".into()).stack_size(256 << 10).spawn(keep)?;
    let _ = MAIN.set(std::thread::current().id());
    Ok(())
}

/// Takes a queue. On the main thread this is O(1); another thread has the time to free it.
pub fn bury(value: Box<Value>) {
    if MAIN.get() != Some(&std::thread::current().id()) {
        drop(value);
        return;
    }
    COUNT.fetch_add(1, Ordering::Relaxed);
    GRAVES.lock().unwrap_or_else(PoisonError::into_inner).push_back(value);
    DUG.notify_one();
}

/// How many queues are waiting to be freed.
pub fn size() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

fn keep() {
    let mut graves = GRAVES.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match graves.pop_front() {
            Some(value) => {
                // Not while others wait for the lock.
                drop(graves);
                drop(value);
                COUNT.fetch_sub(1, Ordering::Relaxed);
                graves = GRAVES.lock().unwrap_or_else(PoisonError::into_inner);
            }
            None => graves = DUG.wait(graves).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
