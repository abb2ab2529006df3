//! Things in numbered places that they keep while others point at them.

/// Places of a page: as many as the bits that say which are taken. A page never moves, so growing
/// copies only the row of pages.
const PAGE: usize = 64;

/// A slab: things by number.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    pages: Vec<Page<T>>,
    /// The pages with a free place, each once.
    roomy: Vec<u32>,
    len: usize,
    /// How many places there is memory for.
    room: usize,
}

#[derive(Debug, Clone)]
struct Page<T> {
    items: Vec<Option<T>>,
    /// The places that are taken, a bit each.
    taken: u64,
    /// Whether it is in `roomy`.
    roomy: bool,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { pages: Vec::new(), roomy: Vec::new(), len: 0, room: 0 }
    }

    fn split(number: u32) -> (usize, usize) {
        (number as usize / PAGE, number as usize % PAGE)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (page, place) = Slab::<T>::split(number);
        self.pages.get(page)?.items.get(place)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (page, place) = Slab::<T>::split(number);
        self.pages.get_mut(page)?.items.get_mut(place)?.as_mut()
    }

    /// Stores a thing; None if all of the first `limit` numbers are taken.
    pub(crate) fn insert(&mut self, item: T, limit: u32) -> Option<u32> {
        let number = match self.roomy.last() {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.pages.len()).ok()?;
                if number as usize >= limit as usize / PAGE {
                    return None;
                }
                self.pages.push(Page { items: Vec::new(), taken: 0, roomy: true });
                self.roomy.push(number);
                number
            }
        };
        let page = self.pages.get_mut(number as usize)?;
        let place = page.taken.trailing_ones();
        match page.items.get_mut(place as usize) {
            Some(free) => *free = Some(item),
            None => {
                if page.items.len() == page.items.capacity() {
                    // 1, 4, 16, a page.
                    page.items.reserve_exact(page.items.len().saturating_mul(3).max(1).min(PAGE.saturating_sub(page.items.len())));
                    self.room = self.room.saturating_add(page.items.capacity()).saturating_sub(page.items.len());
                }
                page.items.push(Some(item));
            }
        }
        page.taken |= 1 << (place & 63);
        if page.taken == u64::MAX {
            page.roomy = false;
            self.roomy.pop();
        }
        self.len = self.len.saturating_add(1);
        number.checked_mul(PAGE as u32)?.checked_add(place)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let (at, place) = Slab::<T>::split(number);
        let page = self.pages.get_mut(at)?;
        let item = page.items.get_mut(place)?.take()?;
        page.taken &= !(1 << (place & 63));
        if page.taken == 0 && page.items.capacity() > 8 {
            self.room = self.room.saturating_sub(page.items.capacity());
            page.items = Vec::new();
        }
        if !page.roomy {
            page.roomy = true;
            self.roomy.push(u32::try_from(at).ok()?);
        }
        self.len = self.len.saturating_sub(1);
        if self.len == 0 && self.pages.len() > 1 {
            // A drained queue gives everything back.
            *self = Slab::new();
        }
        Some(item)
    }

    /// About how many bytes it takes, but for what its items point at.
    pub(crate) fn bytes(&self) -> usize {
        let row = self.pages.len().saturating_mul(std::mem::size_of::<Page<T>>().saturating_add(16));
        self.room.saturating_mul(std::mem::size_of::<Option<T>>()).saturating_add(row)
    }

    /// Whether it has hardly any room, taken or free.
    pub(crate) fn is_small(&self) -> bool {
        match &self.pages[..] {
            [] => true,
            [page] => page.items.capacity() <= 4,
            _ => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is what it claims to be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut len = 0usize;
        for (at, page) in self.pages.iter().enumerate() {
            let there = page.items.iter().enumerate().filter(|(_, item)| item.is_some());
            let taken = there.fold(0u64, |taken, (place, _)| taken | (1 << (place & 63)));
            let listed = self.roomy.iter().filter(|number| **number as usize == at).count();
            if taken != page.taken || page.roomy == (taken == u64::MAX) || listed != usize::from(page.roomy) {
                return Err(format!("page {at}: {taken:x} taken, {:x} kept, listed {listed} times", page.taken));
            }
            len = len.saturating_add(taken.count_ones() as usize);
        }
        if len == self.len { Ok(()) } else { Err(format!("{len} items, counted {}", self.len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_that_chooses_its_keys(ops in proptest::collection::vec((0u8..5, 0usize..400), 1..1500)) {
            let (mut ours, mut truth) = (Slab::new(), BTreeMap::new());
            for (n, (kind, which)) in ops.into_iter().enumerate() {
                if kind < 3 {
                    let number = ours.insert(n, u32::MAX);
                    prop_assert!(number.is_some_and(|number| truth.insert(number, n).is_none()));
                } else if let Some(number) = truth.keys().nth(which).copied() {
                    prop_assert_eq!(ours.remove(number), truth.remove(&number));
                    prop_assert_eq!(ours.remove(number), None);
                }
                prop_assert_eq!(ours.len(), truth.len());
            }
            prop_assert_eq!(ours.check(), Ok(()));
            for (number, item) in &truth {
                prop_assert_eq!(ours.get(*number), Some(item));
            }
            for number in truth.into_keys() {
                ours.remove(number);
            }
            prop_assert!(ours.pages.len() <= 1, "a drained slab gives everything back");
        }
    }

    #[test]
    fn numbers_have_a_limit() {
        let mut slab = Slab::new();
        assert!((0..64).all(|n| slab.insert(n, 64).is_some()));
        assert_eq!(slab.insert(64, 64), None);
        assert_eq!(slab.remove(7), Some(7));
        assert_eq!(slab.insert(64, 64), Some(7));
    }
}
