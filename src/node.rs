//! What this process knows beside the queues themselves: nothing of it is saved or replicated,
//! and all of it can be lost and learnt again.
//!
//! Commands, timers and events all run on the server's main thread, one after the other, so the
//! node is a thread-local of cells. But they nest: an event or a callback may come while a
//! command is calling the server. So a cell is borrowed for a moment and never across a call
//! into the server.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use rq_calendar::Calendar;
use rq_core::{Effects, Event, Local, Turn};

use crate::api::{self, Flags, SlotRange};
use crate::clock::{Now, QueueTime};
use crate::config::Options;
use crate::events::Sweep;
use crate::guard::{self, EvictionGuard};
use crate::index::Index;
use crate::rescue::Rescue;
use crate::timer::Timer;
use crate::waiters::Waiters;

thread_local! {
    /// This process. Never dropped: at exit the server may be gone first.
    pub static NODE: ManuallyDrop<Node> = ManuallyDrop::new(Node::default());
}

/// See the module.
#[derive(Default)]
pub struct Node {
    /// The time of all queues, and the grace.
    pub time: QueueTime,
    /// Which queue has something to do when.
    pub index: RefCell<Index>,
    /// Who waits for what.
    pub waiters: RefCell<Waiters>,
    /// The one timer.
    pub timer: Timer,
    /// Whether the server would evict queues.
    pub guard: EvictionGuard,
    /// Evicted queues that come back.
    pub rescue: Rescue,
    /// Cron lines and time zones.
    calendar: Calendar,
    /// The configuration.
    pub options: Options,
    /// Figures for INFO.
    pub count: Counts,
    /// Whether those who wait are served only when the server is about to deliver replies.
    pub serve_late: Cell<bool>,
    /// Slots that are on their way to this server.
    pub slots_coming: RefCell<Vec<SlotRange>>,
    /// Looks for queues that the index has missed.
    pub sweep: RefCell<Sweep>,
    /// The buffers of a command, kept for the next one.
    effects: Cell<Option<Box<Effects>>>,
    /// The last token that was given, here or by the primary.
    last_token: Cell<u64>,
    random: Cell<u64>,
}

/// Figures for INFO, since the start.
#[derive(Default)]
pub struct Counts {
    /// Leases given to clients that waited for them.
    pub handed_out: Cell<u64>,
    /// Leases taken back because the client was gone when it got them.
    pub given_back: Cell<u64>,
    /// Batches of ops that did not decode.
    pub undecodable: Cell<u64>,
    /// Revivals of queues that were not there to be revived.
    pub missed_revivals: Cell<u64>,
    /// Ops that did not fit their queue.
    pub misfits: Cell<u64>,
    /// Panics that were caught.
    pub panics: Cell<u64>,
    /// What was decided here about jobs, by kind of event.
    pub events: [Cell<u64>; EVENTS],
    /// Refused tokens.
    pub stale: Cell<u64>,
    /// Pushes refused by MAXLIVE or MAXLIVEBYTES.
    pub full: Cell<u64>,
}

/// How many kinds of events there are.
pub const EVENTS: usize = Event::ALL.len();

/// Counts up.
pub fn add(figure: &Cell<u64>, more: u64) {
    figure.set(figure.get().saturating_add(more));
}

/// Buffers above this are not kept: one huge batch must not hold its memory for ever.
const KEPT_BATCH: usize = 1 << 20;

impl Node {
    /// Buffers for the effects of one command, empty.
    pub fn take_effects(&self) -> Box<Effects> {
        let mut effects = self.effects.take().unwrap_or_default();
        effects.clear();
        effects
    }

    /// Takes the buffers back.
    pub fn keep_effects(&self, effects: Box<Effects>) {
        if effects.batch().len() <= KEPT_BATCH {
            self.effects.set(Some(effects));
        }
    }

    /// What the core is told about the world.
    pub fn turn(&self, now: Now, flags: Flags) -> Turn<'_> {
        let denied = Flags::MULTI | Flags::LUA | Flags::DENY_BLOCKING | Flags::REPLICATED | Flags::LOADING;
        Turn {
            now: now.ms,
            seed: self.random(),
            hold_expiry: now.no_expiry_before_ms > now.ms,
            may_block: !flags.intersects(denied),
            incarnation: self.random(),
            defaults: None,
            max_payload: self.options.max_payload.get(),
            bar_slots: flags.contains(Flags::OOM) || guard::bars(self, flags),
            slots: &self.calendar,
            local: Local::default(),
            last_token: self.last_token.get(),
        }
    }

    /// A token was given, here or by the primary.
    pub fn saw_token(&self, token: u64) {
        self.last_token.set(self.last_token.get().max(token));
    }

    /// Fresh random bits (SplitMix64, from a seed of the server's).
    fn random(&self) -> u64 {
        let mut state = self.random.get();
        if state == 0 {
            state = api::random_u64();
        }
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
