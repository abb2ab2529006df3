//! Random steps, weighed so that the interesting states are common: leases that expire, tokens
//! that come late or twice, dead letters of every reason, priorities, a clock that jumps.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::op::{Again, Among, Dedup, IdPick, LeaseOptions, Op, RedriveMany, Setting, Side, State};
use super::spell::Words;
use super::values::*;

/// One step: a command, or something that happens around the queue.
#[derive(Debug, Clone)]
pub enum Step {
    /// A command, and a number for its spelling.
    Run(Op, u32),
    /// The same with a mistake in its arguments.
    Flawed(Op, u32, Flaw),
    Time(Jump),
    /// The timer, with so many steps at most.
    Tick(u32),
    /// The grace begins or ends.
    Hold(bool),
    MayBlock(bool),
    /// Slots of schedules make no jobs, as when the server is out of memory.
    BarSlots(bool),
    /// Saved, and loaded again.
    Reload,
    /// The client that got the last grant was gone.
    GiveBack,
    DeleteKey,
    /// All pages of a state; before each but the first these are deleted.
    PeekLoop { state: State, count: u64, removals: Vec<IdPick> },
}

/// How the clock moves.
#[derive(Debug, Clone, Copy)]
pub enum Jump {
    By(i64),
    /// To when time alone changes something, and so many ms further.
    ToEvent(i64),
    /// To when the next slot is a minute late, and so many ms further.
    ToLate(i64),
}

/// What is wrong with the arguments.
#[derive(Debug, Clone, Copy)]
pub enum Flaw {
    ExtraWord,
    OptionTwice,
    ValueMissing,
    BadNumber(u8),
    NoArguments,
}

/// What no number may look like.
const BAD_NUMBERS: [&[u8]; 11] =
    [b"", b"1.5", b"NaN", b"inf", b"abc", b"99999999999999999999", b"1e3", b" 1", b"+1", b"0x10", b"\xff1"];
const NO_NUMBER_AFTER: [&str; 14] = [
    "DEDUP", "DEDUPS", "ERROR", "CONSUMER", "RESULT", "REASON", "JITTER", "EXPIRYBACKOFF",
    "GROUP", "GROUPORDER", "AFTER", "PAYLOAD", "CRON", "TZ",
];

impl Flaw {
    /// The arguments with this mistake; None if it cannot be made in them.
    pub fn spoil(self, op: &Op, mut words: Words) -> Option<Vec<Vec<u8>>> {
        match self {
            // Any word is a key, or a name.
            Flaw::ExtraWord if matches!(op, Op::DelDedup { .. } | Op::Unschedule { .. }) => return None,
            Flaw::ExtraWord => {
                let mut all = words.all();
                all.push(b"NOSUCH".to_vec());
                return Some(all);
            }
            Flaw::OptionTwice => {
                let first = words.options.first()?.clone();
                words.options.push(first);
            }
            Flaw::ValueMissing => {
                words.options = vec![words.options.into_iter().rfind(|option| option.len() > 1)?];
                words.options.last_mut()?.pop();
            }
            Flaw::BadNumber(which) => {
                let numeric = |option: &&mut Vec<Vec<u8>>| {
                    let name = String::from_utf8_lossy(&option[0]).to_ascii_uppercase();
                    option.len() > 1 && !NO_NUMBER_AFTER.contains(&name.as_str())
                };
                let option = words.options.iter_mut().find(numeric)?;
                *option.last_mut()? = BAD_NUMBERS[usize::from(which) % BAD_NUMBERS.len()].to_vec();
            }
            Flaw::NoArguments => {
                let none_is_fine = matches!(op, Op::Pause { .. } | Op::Resume { .. } | Op::Reap { .. } | Op::ReapConsumer { .. } | Op::ReapIds { .. }
                    | Op::Info { .. } | Op::Len { .. } | Op::Schedules | Op::Groups { .. } | Op::Consumers { .. } | Op::Create { .. });
                return if none_is_fine { None } else { Some(Vec::new()) };
            }
        }
        Some(words.all())
    }
}

/// What a run is mostly about: how often which kind of command comes.
#[derive(Debug, Clone, Copy)]
pub struct Focus {
    producing: u32,
    consuming: u32,
    recovering: u32,
    looking: u32,
    ruling: u32,
    /// Groups, their pauses and limits.
    grouping: u32,
    scheduling: u32,
    /// Of a hundred jobs so many are of a group.
    grouped: u32,
    /// How often the clock moves.
    time: u32,
}

/// Everything.
pub const ALL: Focus =
    Focus { producing: 16, consuming: 45, recovering: 17, looking: 9, ruling: 7, grouping: 5, scheduling: 3, grouped: 40, time: 16 };
/// Turns, limits, rates, order and pauses of groups.
pub const GROUPS: Focus =
    Focus { producing: 20, consuming: 45, recovering: 6, looking: 3, ruling: 0, grouping: 18, scheduling: 1, grouped: 75, time: 20 };
/// Schedules, and what bars their slots.
pub const SCHEDULES: Focus =
    Focus { producing: 6, consuming: 24, recovering: 10, looking: 4, ruling: 10, grouping: 3, scheduling: 14, grouped: 20, time: 40 };

fn op(focus: Focus) -> BoxedStrategy<Op> {
    let count = || option::weighted(0.5, 1..4u64);
    let job_options = || job_options(focus.grouped);
    let producing = prop_oneof![
        4 => (payload(), job_options(), option::weighted(0.5, dedup())).prop_map(|(payload, options, dedup)| Op::Push { payload, options, dedup }),
        1 => (vec(payload(), 1..8), job_options(), option::weighted(0.3, vec(key(), 8)), option::weighted(0.3, span())).prop_map(|(payloads, options, keys, window)| {
            let dedup = keys.map(|keys| Dedup {
                keys: keys[..payloads.len()].to_vec(),
                window: window.map(|ms| ms.max(1)),
                replace: false,
                max_wait: None,
                keep_last: false,
            });
            Op::MPush { payloads, options, dedup }
        }),
    ]
    .boxed();
    let consuming = prop_oneof![
        14 => (name(), lease_options()).prop_map(|(consumer, options)| Op::Lease { consumer, options }),
        7 => (vec(pair(), 1..4), option::weighted(0.5, payload())).prop_map(|(pairs, result)| Op::Ack { pairs, result }),
        4 => (pair(), name(), lease_options()).prop_map(|(pair, consumer, options)| Op::AckLease { pair, consumer, options }),
        8 => (vec(pair(), 1..4), option::weighted(0.3, span()), option::weighted(0.4, prop_oneof![vec(any::<u8>(), 0..5), (1_020..1_030usize).prop_map(|len| vec![b'!'; len])]), prop::bool::weighted(0.2))
            .prop_map(|(pairs, delay, error, dead)| Op::Nack { pairs, delay: delay.filter(|_| !dead), error, dead }),
        5 => (vec(pair(), 1..4), option::weighted(0.3, span())).prop_map(|(pairs, delay)| Op::Release { pairs, delay }),
        1 => name().prop_map(|consumer| Op::ReleaseConsumer { consumer }),
        6 => (vec(pair(), 1..4), option::weighted(0.5, lease_ms())).prop_map(|(pairs, lease)| Op::Extend { pairs, lease }),
    ]
    .boxed();
    let recovering = prop_oneof![
        2 => count().prop_map(|count| Op::Reap { count }),
        1 => (name(), count()).prop_map(|(consumer, count)| Op::ReapConsumer { consumer, count }),
        1 => vec(id(&[Among::Leased]), 1..4).prop_map(|ids| Op::ReapIds { ids }),
        3 => vec(id(&[Among::Dead]), 1..4).prop_map(|ids| Op::Redrive { ids }),
        2 => (prop_oneof![1..5u64, Just(10_000u64)], option::weighted(0.4, reason()), option::weighted(0.2, moment()), option::weighted(0.2, moment()),
                option::weighted(0.3, span()), option::weighted(0.3, priority()))
            .prop_map(|(count, reason, after, before, spread, priority)| {
                Op::RedriveMany(RedriveMany { count, reason, after, before, spread, priority })
            }),
        4 => (id(&[Among::Ready, Among::Delayed, Among::Late, Among::Leased]), option::weighted(0.6, priority()), option::weighted(0.6, when()))
            .prop_map(|(id, priority, when)| Op::Set { id, priority: if when.is_none() { priority.or(Some(0)) } else { priority }, when }),
        2 => vec(id(&[Among::Ready, Among::Delayed, Among::Leased, Among::Dead, Among::Done]), 1..3).prop_map(|ids| Op::Del { ids }),
        1 => vec(key(), 1..3).prop_map(|keys| Op::DelDedup { keys }),
        2 => (prop::sample::select(["MAXLEN", "MAXAGE", "MAXBYTES"].as_slice()), prop_oneof![0..4u64, 0..300u64], count())
            .prop_map(|(by, bound, count)| Op::Trim { by, bound, count }),
        1 => (state(), count(), option::weighted(0.3, reason()), option::weighted(0.5, moment())).prop_map(|(state, count, reason, before)| {
            let state = if state == State::Leased { State::Dead } else { state };
            Op::Purge { state, count, reason: reason.filter(|_| state == State::Dead), before }
        }),
    ]
    .boxed();
    let looking = prop_oneof![
        2 => id(&[Among::Ready, Among::Delayed, Among::Leased, Among::Late, Among::Dead, Among::Done]).prop_map(|id| Op::Get { id }),
        1 => (id(&[Among::Leased, Among::Dead, Among::Done]), option::weighted(0.5, span())).prop_map(|(id, block)| Op::Wait { id, block }),
        1 => (option::weighted(0.3, group()), count()).prop_map(|(after, count)| Op::Groups { after, count }),
        1 => (option::weighted(0.3, name()), count()).prop_map(|(after, count)| Op::Consumers { after, count }),
        1 => key().prop_map(|key| Op::GetDedup { key }),
        2 => (state(), count(), any::<bool>()).prop_map(|(state, count, payload)| Op::Peek { state, count, payload }),
        1 => option::weighted(0.7, state()).prop_map(|state| Op::Len { state }),
        1 => any::<bool>().prop_map(|json| Op::Info { json }),
    ]
    .boxed();
    let ruling = prop_oneof![
        1 => settings(0).prop_map(|settings| Op::Create { settings }),
        2 => settings(1).prop_map(|settings| Op::Alter { settings }),
        2 => (side(), pause_ms(), option::weighted(0.3, name())).prop_map(|(side, for_ms, reason)| Op::Pause { side, for_ms, reason }),
        4 => side().prop_map(|side| Op::Resume { side }),
    ]
    .boxed();
    let of_group = || group().prop_map(Side::Group);
    let grouping = prop_oneof![
        4 => vec(prop_oneof![8 => of_groups(), 1 => bound()], 1..3).prop_map(|settings| Op::Alter { settings: each_once(settings) }),
        3 => (of_group(), pause_ms(), option::weighted(0.2, name())).prop_map(|(side, for_ms, reason)| Op::Pause { side, for_ms, reason }),
        3 => of_group().prop_map(|side| Op::Resume { side }),
        1 => Just(Op::Groups { after: None, count: None }),
    ]
    .boxed();
    let again = prop_oneof![6 => Just(Again::Nothing), 3 => Just(Again::All), 2 => Just(Again::Slots)];
    let scheduling = prop_oneof![
        6 => (schedule_name(), plan(focus.grouped), again).prop_map(|(name, plan, again)| Op::Schedule { name, plan, again }),
        1 => vec(schedule_name(), 1..3).prop_map(|names| Op::Unschedule { names }),
        3 => Just(Op::Schedules),
    ]
    .boxed();
    prop_oneof![
        focus.producing => producing, focus.consuming => consuming, focus.recovering => recovering, focus.looking => looking,
        focus.ruling => ruling, focus.grouping => grouping, focus.scheduling => scheduling,
    ]
    .boxed()
}

fn flaw() -> impl Strategy<Value = Flaw> {
    prop_oneof![
        Just(Flaw::ExtraWord),
        Just(Flaw::OptionTwice),
        Just(Flaw::ValueMissing),
        any::<u8>().prop_map(Flaw::BadNumber),
        Just(Flaw::NoArguments),
    ]
}

fn jump() -> impl Strategy<Value = Jump> {
    prop_oneof![
        4 => (0..5i64).prop_map(Jump::By),
        3 => (0..300i64).prop_map(Jump::By),
        1 => (0..4_000_000i64).prop_map(Jump::By),
        1 => (-20_000..0i64).prop_map(Jump::By),
        6 => (-1..2i64).prop_map(Jump::ToEvent),
        1 => (0..2i64).prop_map(Jump::ToLate),
    ]
}

fn step(focus: Focus) -> impl Strategy<Value = Step> {
    let removals = vec(id(&[Among::Ready, Among::Delayed, Among::Leased, Among::Dead]), 0..6);
    prop_oneof![
        80 => (op(focus), any::<u32>()).prop_map(|(op, style)| Step::Run(op, style)),
        3 => (op(focus), any::<u32>(), flaw()).prop_map(|(op, style, flaw)| Step::Flawed(op, style, flaw)),
        focus.time => jump().prop_map(Step::Time),
        4 => prop_oneof![Just(1u32), Just(128u32)].prop_map(Step::Tick),
        1 => any::<bool>().prop_map(Step::Hold),
        1 => prop::bool::weighted(0.7).prop_map(Step::MayBlock),
        1 => prop::bool::weighted(0.3).prop_map(Step::BarSlots),
        1 => Just(Step::Reload),
        1 => Just(Step::GiveBack),
        2 => (state(), 1..5u64, removals).prop_map(|(state, count, removals)| Step::PeekLoop { state, count, removals }),
    ]
}

/// A whole run. It begins with the policy, as most users' do, and with what it is about; now and
/// then the key is deleted.
pub fn steps(focus: Focus) -> impl Strategy<Value = Vec<Step>> {
    let first = option::weighted(0.9, settings(4));
    let groups = vec(of_groups(), if focus.grouping > focus.ruling { 1..4 } else { 0..1 });
    let schedules = vec((schedule_name(), plan(focus.grouped)), if focus.scheduling > focus.producing { 1..4 } else { 0..1 });
    let one = prop_oneof![200 => step(focus), 1 => Just(Step::DeleteKey)];
    (first, groups, schedules, vec(one, 20..200)).prop_map(|(settings, groups, schedules, steps)| {
        let settings = each_once([groups, settings.unwrap_or_default()].concat());
        let create = if settings.is_empty() { None } else { Some(Step::Run(Op::Create { settings }, 0)) };
        let schedules = schedules.into_iter().map(|(name, plan)| Step::Run(Op::Schedule { name, plan, again: Again::Nothing }, 0));
        create.into_iter().chain(schedules).chain(steps).collect()
    })
}

/// A run with thousands of jobs, in a few priorities, so that every order is spread over many
/// chunks. Ticks are large, else there would be thousands.
pub fn steps_many() -> impl Strategy<Value = Vec<Step>> {
    let flood = (1..900usize, job_options(ALL.grouped), any::<u32>()).prop_map(|(n, mut options, style)| {
        options.priority = options.priority.map(|priority| priority % 3);
        Step::Run(Op::MPush { payloads: vec![b"x".to_vec(); n], options, dedup: None }, style)
    });
    let grab = (name(), 1..900u64).prop_map(|(consumer, count)| {
        Step::Run(Op::Lease { consumer, options: LeaseOptions { count: Some(count), ..LeaseOptions::default() } }, 0)
    });
    let doom = name().prop_map(|consumer| Step::Run(Op::ReapConsumer { consumer, count: Some(900) }, 0));
    let purge = (state(), 1..400u64).prop_map(|(state, count)| {
        let state = if state == State::Leased { State::Dead } else { state };
        Step::Run(Op::Purge { state, count: Some(count), reason: None, before: None }, 0)
    });
    let one = prop_oneof![4 => flood, 6 => grab, 1 => doom, 1 => purge, 30 => step(ALL)];
    // In half of the runs a lease that ends is the last.
    let frail = prop_oneof![Just(vec![Setting::MaxExpiries(1)]), Just(Vec::new())];
    (frail, settings(5), vec(one, 20..60)).prop_map(|(frail, settings, mut steps)| {
        let settings = each_once([frail, settings].concat());
        for step in &mut steps {
            // Retention goes in steps as well, which the reference does not.
            if let Step::Run(Op::Create { settings } | Op::Alter { settings }, _) = step {
                settings.retain(|setting| !setting.name().starts_with("KEEP") && !setting.name().starts_with("MAXLIVE"));
                if settings.is_empty() {
                    settings.push(Setting::Lease(50));
                }
            }
            match step {
                Step::Tick(max_steps) => *max_steps = (*max_steps).max(100),
                Step::PeekLoop { count, .. } => *count *= 150,
                _ => {}
            }
        }
        steps.insert(0, Step::Run(Op::Create { settings }, 0));
        steps
    })
}
