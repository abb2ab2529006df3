//! What most queues never have: it takes no memory until it is changed for the first time.
//!
//! It reads as an empty one until then. To change it makes it, so whoever changes it all the time,
//! and most often in vain, asks first whether it is [`Seldom::there`].

use std::ops::{Deref, DerefMut};

use crate::dedup::Dedup;
use crate::groups::Groups;
use crate::rate::Grants;
use crate::ready::Lanes;
use crate::schedule::Schedules;
use crate::store::{ByTime, Order};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Seldom<T>(Option<Box<T>>);

impl<T> Seldom<T> {
    pub(crate) const fn new() -> Seldom<T> {
        Seldom(None)
    }

    /// It, if it has been made.
    pub(crate) fn there(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// What it takes itself.
    pub(crate) fn own_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |_| std::mem::size_of::<T>().saturating_add(16))
    }
}

impl<T: Empty> Deref for Seldom<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(made) => made,
            None => T::empty(),
        }
    }
}

impl<T: Empty> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::empty().clone()))
    }
}

/// What there is an empty one of, for all.
pub(crate) trait Empty: Clone + 'static {
    fn empty() -> &'static Self;
}

macro_rules! empty {
    ($($what:ty = $new:expr;)*) => {
        $(impl Empty for $what {
            fn empty() -> &'static Self {
                static EMPTY: $what = $new;
                &EMPTY
            }
        })*
    };
}

empty! {
    Groups = Groups::new();
    Dedup = Dedup::new();
    Schedules = Schedules::new();
    Grants = Grants::new();
    Lanes = Lanes::new();
    ByTime = Order::new();
    [ByTime; 4] = [const { Order::new() }; 4];
}
