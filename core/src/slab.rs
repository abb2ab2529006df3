//! The jobs themselves, in slots that keep their place while orders point at them.

use crate::job::{Job, Slot};

/// Slots per page: a page never moves, so growing copies only the row of pages.
const PAGE: usize = 64;

/// Jobs by slot.
#[derive(Debug, Clone)]
pub(crate) struct Slab {
    pages: Vec<Vec<Option<Job>>>,
    free: Vec<Slot>,
    len: usize,
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab { pages: Vec::new(), free: Vec::new(), len: 0 }
    }

    fn split(slot: Slot) -> (usize, usize) {
        (slot as usize / PAGE, slot as usize % PAGE)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Job> {
        let (page, place) = Slab::split(slot);
        self.pages.get(page)?.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Job> {
        let (page, place) = Slab::split(slot);
        self.pages.get_mut(page)?.get_mut(place)?.as_mut()
    }

    /// Stores a job; None if every slot number is taken (2^32 jobs).
    pub(crate) fn insert(&mut self, job: Job) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            let (page, place) = Slab::split(slot);
            *self.pages.get_mut(page)?.get_mut(place)? = Some(job);
            self.len = self.len.saturating_add(1);
            return Some(slot);
        }
        let pages = self.pages.len();
        let last = match self.pages.last_mut() {
            Some(page) if page.len() < PAGE => page,
            _ => {
                // The first page of a small queue grows as needed.
                let room = if pages == 0 { 4 } else { PAGE };
                self.pages.push(Vec::with_capacity(room));
                self.pages.last_mut()?
            }
        };
        let place = last.len();
        let page = self.pages.len().saturating_sub(1);
        let slot = Slot::try_from(page.saturating_mul(PAGE).saturating_add(place)).ok()?;
        self.pages.last_mut()?.push(Some(job));
        self.len = self.len.saturating_add(1);
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Job> {
        let (page, place) = Slab::split(slot);
        let job = self.pages.get_mut(page)?.get_mut(place)?.take()?;
        self.len = self.len.saturating_sub(1);
        if self.len == 0 {
            // A drained queue gives everything back.
            *self = Slab::new();
        } else {
            self.free.push(slot);
        }
        Some(job)
    }

    /// About how many bytes it takes, payloads and the rest apart.
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.len.saturating_add(self.free.len());
        slots.saturating_mul(std::mem::size_of::<Option<Job>>()).saturating_add(self.free.capacity().saturating_mul(4))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
