//! What bytes from outside may do, and how much memory they may take: the test binary makes
//! [`Counting`] its allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rq_core::{Effects, Queue};

use super::{chunks, load, snapshot};

/// Counts what this thread allocates.
pub struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; the counters are plain cells of
// the thread, which need no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.set(HELD.get().saturating_sub(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Runs `work`; also the most memory that it held at a time, in bytes.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.set(1 << 30);
    MOST.set(1 << 30);
    let result = work();
    (result, MOST.get() - (1 << 30))
}

/// How much this thread holds now, in bytes, from an arbitrary start.
#[allow(dead_code, reason = "not every test asks")]
pub fn held() -> usize {
    HELD.get()
}

/// What an input of so many bytes may take: a job with an error text that repeats the one before
/// takes some 1.5 KB out of some 20 bytes.
pub fn allowance(input: usize) -> usize {
    300_000 + 100 * input
}

pub fn valid(queue: &Queue) {
    rq_core::check(queue).unwrap_or_else(|error| panic!("not valid: {error}"));
}

/// Applies a batch to two copies of a queue, and checks all that must hold of it.
pub fn apply(queue: &Queue, batch: &[u8]) -> Option<Queue> {
    let (mut first, mut second) = (queue.copy(9), queue.copy(9));
    let (mut effects, mut again) = (Effects::new(), Effects::new());
    let (result, most) = measured(|| rq_core::apply(&mut first, batch, &mut effects));
    assert!(most <= allowance(batch.len()), "{most} bytes of memory for a batch of {}", batch.len());
    assert_eq!(result, rq_core::apply(&mut second, batch, &mut again), "not the same twice");
    assert_eq!((effects.events(), effects.misfits()), (again.events(), again.misfits()));
    valid(&first);
    let bytes = snapshot(Some(&first));
    assert!(bytes == snapshot(Some(&second)), "equal queues, one batch, and they differ");
    assert!(effects.batch().is_empty(), "what is applied is not sent on");
    match result {
        Err(_) => {
            assert!(bytes == snapshot(Some(&queue.copy(9))), "refused, but changed something");
            assert!(effects.events().is_empty(), "refused, but told something");
            None
        }
        Ok(_) => {
            let loaded = load(&chunks(&first)).unwrap_or_else(|error| panic!("what was applied cannot be saved: {error}"));
            assert!(bytes == snapshot(Some(&loaded)), "loaded, but not the same");
            Some(first)
        }
    }
}
