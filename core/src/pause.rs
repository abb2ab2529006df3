//! Pauses of a queue, in or out, and of a group.

/// A pause that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Its end, Unix ms; None: until RESUME.
    pub(crate) until: Option<u64>,
    /// What was said of it.
    pub(crate) reason: Box<[u8]>,
}

/// What is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side<'a> {
    /// Nothing is leased.
    Out,
    /// Nothing is pushed.
    In,
    /// Nothing of this group is leased.
    Group(&'a [u8]),
}

impl Pause {
    /// This pause as far as it goes on at `now`.
    pub(crate) fn on(pause: Option<&Pause>, now: u64) -> Option<&Pause> {
        pause.filter(|pause| pause.until.is_none_or(|until| until > now))
    }

    /// What a new pause makes of one that is on: never shorter.
    pub(crate) fn longer(old: Option<&Pause>, new: Option<u64>) -> Option<u64> {
        match (old, new) {
            (Some(Pause { until: None, .. }), _) | (_, None) => None,
            (Some(Pause { until: Some(old), .. }), Some(new)) => Some(new.max(*old)),
            (None, new) => new,
        }
    }
}
