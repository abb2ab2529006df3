//! Faults that are put in on purpose, to prove that the simulator notices such things.
//!
//! Only in builds with the feature `canary`, which nothing but that proof turns on, and there only
//! on a thread that has chosen one. Without the feature every question is answered with no at
//! compile time.

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is said where it is asked for")]
pub enum Fault {
    ExpiryDoesNotCount,
    OldTokenAcknowledges,
    ReleaseIsForgotten,
    ReplicaSkipsExtensions,
    PromotionLosesAJob,
    GraceIsIgnored,
    OneDeliveryTooMany,
    OneLeaseTooMany,
    TokensStartAnew,
    SnapshotLosesWindows,
    YoungestFirst,
    SlotComesTwice,
    HeldDuplicateIsLost,
    LateTokenIsRefused,
}

impl Fault {
    /// All of them.
    #[cfg(feature = "canary")]
    pub const ALL: [Fault; 14] = [
        Fault::ExpiryDoesNotCount,
        Fault::OldTokenAcknowledges,
        Fault::ReleaseIsForgotten,
        Fault::ReplicaSkipsExtensions,
        Fault::PromotionLosesAJob,
        Fault::GraceIsIgnored,
        Fault::OneDeliveryTooMany,
        Fault::OneLeaseTooMany,
        Fault::TokensStartAnew,
        Fault::SnapshotLosesWindows,
        Fault::YoungestFirst,
        Fault::SlotComesTwice,
        Fault::HeldDuplicateIsLost,
        Fault::LateTokenIsRefused,
    ];

    /// Whether this thread's queues have it.
    #[cfg(feature = "canary")]
    pub(crate) fn is_on(self) -> bool {
        CHOSEN.get() == Some(self)
    }

    /// No build that anybody uses has any.
    #[cfg(not(feature = "canary"))]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
}

#[cfg(feature = "canary")]
std::thread_local! {
    static CHOSEN: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// From now on the queues of this thread have this fault, or none.
#[cfg(feature = "canary")]
pub fn choose(fault: Option<Fault>) {
    CHOSEN.set(fault);
}
