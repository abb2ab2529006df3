//! Where queues go that were deleted: freeing one with millions of jobs takes long, so a thread
//! of our own does it, and DEL is O(1) whatever the server's lazyfree options say.
//!
//! The last ones stay whole for a moment: what was deleted only because the server evicted it, here
//! or on the primary, is put back right afterwards, see [`crate::revival`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::sync::OnceLock;

use crate::types::Value;

/// The thread that commands run on, if the graveyard has a keeper.
static MAIN: OnceLock<ThreadId> = OnceLock::new();
/// The last ones, the newest at the end. Only the main thread looks in.
static WHOLE: Mutex<VecDeque<Box<Value>>> = Mutex::new(VecDeque::new());
static GRAVES: Mutex<VecDeque<Box<Value>>> = Mutex::new(VecDeque::new());
static DUG: Condvar = Condvar::new();
/// The number of graves, for INFO: it must never wait for the lock.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// What [`do_not_keep`] was told, or [`NONE`].
static LAST: AtomicU64 = AtomicU64::new(NONE);
const NONE: u64 = 0;
/// What [`hold`] was told, or [`NONE`].
static HELD: AtomicU64 = AtomicU64::new(NONE);
static KEEPER: AtomicBool = AtomicBool::new(false);

/// So many stay whole. A revival comes right after the deletion, with no other between; this is a
/// bound, for when a file is loaded and no time passes.
const KEPT: usize = 64;

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
    let last = LAST.swap(NONE, Ordering::Relaxed) == value.queue.incarnation();
    let mut whole = lock(&WHOLE);
    whole.push_back(value);
    if last || whole.len() > KEPT {
        let free = if last { whole.pop_back() } else { whole.pop_front() };
        lock(&GRAVES).extend(free);
        DUG.notify_one();
    }
}

/// The queue of this incarnation is evicted next, and does not come back: the server waits for its
/// memory, and goes on evicting until it has it.
pub fn do_not_keep(incarnation: u64) {
    LAST.store(incarnation, Ordering::Relaxed);
}

/// Gives back the queue of this incarnation, if it was deleted just now. With RESTORE there may be
/// two of the same: it is the last one.
pub fn dig(incarnation: u64) -> Option<Box<Value>> {
    let mut whole = lock(&WHOLE);
    let at = whole.iter().rposition(|value| value.queue.incarnation() == incarnation)?;
    let value = whole.remove(at)?;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(value)
}

/// The queue of this incarnation stays whole as long as it takes to come back.
pub fn hold(incarnation: Option<u64>) {
    HELD.store(incarnation.unwrap_or(NONE), Ordering::Relaxed);
}

/// Whatever comes back has come back: the others are freed. Between commands only.
pub fn settle() {
    let held = HELD.load(Ordering::Relaxed);
    let is_held = |value: &Value| held != NONE && value.queue.incarnation() == held;
    let mut whole = lock(&WHOLE);
    if whole.iter().all(|value| is_held(value)) {
        return;
    }
    let (stay, free): (VecDeque<_>, VecDeque<_>) = whole.drain(..).partition(|value| is_held(value));
    *whole = stay;
    lock(&GRAVES).extend(free);
    DUG.notify_one();
}

/// How many queues are waiting to be freed.
pub fn size() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

fn lock(graves: &Mutex<VecDeque<Box<Value>>>) -> MutexGuard<'_, VecDeque<Box<Value>>> {
    graves.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep() {
    let mut graves = lock(&GRAVES);
    loop {
        match graves.pop_front() {
            Some(value) => {
                // Not while others wait for the lock.
                drop(graves);
                drop(value);
                COUNT.fetch_sub(1, Ordering::Relaxed);
                graves = lock(&GRAVES);
            }
            None => graves = DUG.wait(graves).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
