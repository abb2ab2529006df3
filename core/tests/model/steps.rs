//! Random steps, weighed so that the interesting states are common: leases that expire, tokens
//! that come late or twice, dead letters of every reason, priorities, a clock that jumps.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::op::{Among, Dedup, IdPick, Jitter, JobOptions, LeaseOptions, Moment, Op, PairPick, RedriveMany, Setting, State, Twist, When, Words};

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
const NO_NUMBER_AFTER: [&str; 8] = ["DEDUP", "DEDUPS", "ERROR", "CONSUMER", "RESULT", "REASON", "JITTER", "EXPIRYBACKOFF"];

impl Flaw {
    /// The arguments with this mistake; None if it cannot be made in them.
    pub fn spoil(self, op: &Op, mut words: Words) -> Option<Vec<Vec<u8>>> {
        match self {
            // Any word is a key.
            Flaw::ExtraWord if matches!(op, Op::DelDedup { .. }) => return None,
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
                    | Op::Info | Op::Len { .. } | Op::Create { .. });
                return if none_is_fine { None } else { Some(Vec::new()) };
            }
        }
        Some(words.all())
    }
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::sample::select(vec![&b"w1"[..], b"w2", b"w3"]).prop_map(<[u8]>::to_vec),
        1 => prop::sample::select(vec![&b""[..], b"COUNT", b"block", b"\x00\xff\r\n", b"1-1"]).prop_map(<[u8]>::to_vec),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => vec(any::<u8>(), 0..12),
        1 => prop::sample::select(vec![&b"DELAY"[..], b"priority", b"TTL", b"$-1\r\n", b"0-0"]).prop_map(<[u8]>::to_vec),
        1 => (50..3_000usize).prop_map(|len| vec![b'.'; len]),
    ]
}

/// Short times are common, so that they meet; the longest are there as well.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6u64, 4 => 0..200u64, 2 => 0..20_000u64, 1 => Just(315_360_000_000u64)]
}

fn lease_ms() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..6u64, 4 => 1..200u64, 2 => 1..60_000u64, 1 => Just(31_536_000_000u64)]
}

fn moment() -> impl Strategy<Value = Moment> {
    let from_now = prop_oneof![-10..10i64, -500..500i64, -100_000..100_000i64];
    prop_oneof![
        from_now.prop_map(|offset| Moment { of_job: None, offset, at: 0 }),
        (any::<u16>(), -1..2i64).prop_map(|(job, offset)| Moment { of_job: Some(job), offset, at: 0 }),
    ]
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![2 => span().prop_map(When::Delay), 1 => moment().prop_map(When::At)]
}

fn priority() -> impl Strategy<Value = i8> {
    prop_oneof![3 => -1..2i8, 1 => prop::sample::select(vec![-128i8, -127, 126, 127])]
}

fn few() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4u64, 1 => 0..1_000_000_001u64]
}

fn job_options() -> impl Strategy<Value = JobOptions> {
    (
        option::weighted(0.3, when()),
        option::weighted(0.4, priority()),
        option::weighted(0.2, lease_ms()),
        option::weighted(0.3, few()),
        option::weighted(0.3, span().prop_map(|ms| ms.max(1))),
    )
        .prop_map(|(when, priority, lease, max_deliveries, ttl)| JobOptions { when, priority, lease, max_deliveries, ttl })
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b"k1"[..], b"k1", b"k2", b"WINDOW", b"\x00"]).prop_map(<[u8]>::to_vec)
}

fn dedup() -> impl Strategy<Value = Dedup> {
    (key(), option::weighted(0.3, span()), any::<bool>(), option::weighted(0.4, span()), any::<bool>()).prop_map(
        |(key, window, replace, max_wait, keep_last)| Dedup {
            keys: vec![key],
            window: window.map(|ms| ms.max(1)),
            replace,
            max_wait: max_wait.filter(|_| replace),
            keep_last,
        },
    )
}

fn lease_options() -> impl Strategy<Value = LeaseOptions> {
    (
        option::weighted(0.5, prop_oneof![1..5u64, Just(10_000u64)]),
        option::weighted(0.3, lease_ms()),
        option::weighted(0.3, span()),
        option::weighted(0.2, prop_oneof![1..30u64, Just(i64::MAX as u64)]),
        any::<bool>(),
    )
        .prop_map(|(count, lease, block, max_bytes, meta)| LeaseOptions { count, lease, block, max_bytes, meta })
}

fn pair() -> impl Strategy<Value = PairPick> {
    let among = prop_oneof![
        10 => Just(Among::Leased),
        9 => Just(Among::Late),
        5 => Just(Among::Spent),
        3 => Just(Among::Dead),
        1 => Just(Among::Ready),
        2 => Just(Among::Ever),
        1 => Just(Among::Unknown),
    ];
    let twist = prop_oneof![
        20 => Just(Twist::Exact),
        1 => Just(Twist::OneMore),
        1 => Just(Twist::OneLess),
        1 => Just(Twist::Zero),
        2 => Just(Twist::Older),
    ];
    (among, any::<u16>(), twist).prop_map(|(among, pick, twist)| PairPick { among, pick, twist, id: (0, 0), token: 0 })
}

fn id(among: &'static [Among]) -> impl Strategy<Value = IdPick> {
    let among = prop_oneof![
        6 => prop::sample::select(among),
        1 => Just(Among::Ever),
        1 => Just(Among::Unknown),
    ];
    (among, any::<u16>()).prop_map(|(among, pick)| IdPick { among, pick, id: (0, 0) })
}

fn state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL.as_slice())
}

fn reason() -> impl Strategy<Value = &'static str> {
    prop::sample::select(["failed", "expired-lease", "rejected", "ttl"].as_slice())
}

fn backoff() -> impl Strategy<Value = Setting> {
    const PAIRS: &[(u64, u64)] = &[(0, 0), (0, 10), (1, 4), (10, 100), (1_000, 3_600_000), (315_360_000_000, 315_360_000_000)];
    prop::sample::select(PAIRS).prop_map(|(base, max)| Setting::Backoff(base, max))
}

/// One setting of each option, some of which are then named.
fn settings(least: usize) -> impl Strategy<Value = Vec<Setting>> {
    let jitter = prop_oneof![4 => Just(Jitter::None), 1 => Just(Jitter::Full), 1 => Just(Jitter::Equal)];
    let all = (
        lease_ms().prop_map(Setting::Lease),
        prop_oneof![Just(0u64), 1..300u64].prop_map(Setting::MaxRun),
        few().prop_map(Setting::MaxDeliveries),
        few().prop_map(Setting::MaxExpiries),
        backoff(),
        jitter.prop_map(Setting::Jitter),
        any::<bool>().prop_map(Setting::ExpiryBackoff),
    )
        .prop_map(|(a, b, c, d, e, f, g)| vec![a, b, c, d, e, f, g]);
    let named = all.prop_flat_map(move |all| prop::sample::subsequence(all, least..=7));
    (named, vec(bound(), 0..3)).prop_map(|(mut named, bounds)| {
        for bound in bounds {
            let name = |setting: &Setting| match setting {
                Setting::Bound(name, _) => *name,
                _ => "RATE",
            };
            if !named.iter().skip_while(|other| !matches!(other, Setting::Bound(..) | Setting::Rate(_))).any(|other| name(other) == name(&bound)) {
                named.push(bound);
            }
        }
        named
    })
}

/// What is kept, and how much there may be.
fn bound() -> impl Strategy<Value = Setting> {
    const KEEP: &[&str] = &["KEEPDONE", "KEEPDONE", "KEEPDONE", "KEEPDEAD"];
    const KEEP_MORE: &[&str] = &["KEEPDONEMS", "KEEPDONEBYTES", "KEEPDEADMS", "KEEPDEADBYTES"];
    const LIMITS: &[&str] = &["MAXLIVE", "MAXLIVEBYTES", "CONCURRENCY"];
    let bounded = |names: &'static [&'static str], none: u32, some: BoxedStrategy<u64>| {
        let value = prop_oneof![none => Just(None), 3 => some.prop_map(Some)];
        (prop::sample::select(names), value).prop_map(|(name, value)| Setting::Bound(name, value))
    };
    prop_oneof![
        4 => bounded(KEEP, 4, (0..6u64).boxed()),
        2 => bounded(KEEP_MORE, 2, (0..300u64).boxed()),
        3 => bounded(LIMITS, 4, prop_oneof![0..4u64, 1..20u64, 20..4_000u64].boxed()),
        1 => option::weighted(0.6, (1..5u64, prop_oneof![1..50u64, 1..3_000u64])).prop_map(Setting::Rate),
    ]
}

fn op() -> BoxedStrategy<Op> {
    let count = || option::weighted(0.5, 1..4u64);
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
        1 => id(&[Among::Leased, Among::Dead, Among::Done]).prop_map(|id| Op::Wait { id }),
        1 => key().prop_map(|key| Op::GetDedup { key }),
        2 => (state(), count(), any::<bool>()).prop_map(|(state, count, payload)| Op::Peek { state, count, payload }),
        1 => option::weighted(0.7, state()).prop_map(|state| Op::Len { state }),
        3 => Just(Op::Info),
    ]
    .boxed();
    let ruling = prop_oneof![
        1 => settings(0).prop_map(|settings| Op::Create { settings }),
        2 => settings(1).prop_map(|settings| Op::Alter { settings }),
        2 => (any::<bool>(), option::weighted(0.9, prop_oneof![1..20u64, 1..3_000u64]), option::weighted(0.3, name()))
            .prop_map(|(inward, for_ms, reason)| Op::Pause { inward, for_ms, reason }),
        4 => any::<bool>().prop_map(|inward| Op::Resume { inward }),
    ]
    .boxed();
    prop_oneof![16 => producing, 45 => consuming, 17 => recovering, 9 => looking, 7 => ruling].boxed()
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
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let removals = vec(id(&[Among::Ready, Among::Delayed, Among::Leased, Among::Dead]), 0..6);
    prop_oneof![
        80 => (op(), any::<u32>()).prop_map(|(op, style)| Step::Run(op, style)),
        3 => (op(), any::<u32>(), flaw()).prop_map(|(op, style, flaw)| Step::Flawed(op, style, flaw)),
        16 => jump().prop_map(Step::Time),
        4 => prop_oneof![Just(1u32), Just(128u32)].prop_map(Step::Tick),
        1 => any::<bool>().prop_map(Step::Hold),
        1 => prop::bool::weighted(0.7).prop_map(Step::MayBlock),
        1 => Just(Step::Reload),
        1 => Just(Step::GiveBack),
        2 => (state(), 1..5u64, removals).prop_map(|(state, count, removals)| Step::PeekLoop { state, count, removals }),
    ]
}

/// A whole run. It begins with the policy, as most users' do; now and then the key is deleted.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let first = option::weighted(0.9, settings(4));
    let one = prop_oneof![200 => step(), 1 => Just(Step::DeleteKey)];
    (first, vec(one, 20..200)).prop_map(|(settings, mut steps)| {
        if let Some(settings) = settings {
            steps.insert(0, Step::Run(Op::Create { settings }, 0));
        }
        steps
    })
}

/// A run with thousands of jobs, in a few priorities, so that every order is spread over many
/// chunks. Ticks are large, else there would be thousands.
pub fn steps_many() -> impl Strategy<Value = Vec<Step>> {
    let flood = (1..900usize, job_options(), any::<u32>()).prop_map(|(n, mut options, style)| {
        options.priority = options.priority.map(|priority| priority % 3);
        Step::Run(Op::MPush { payloads: vec![b"x".to_vec(); n], options, dedup: None }, style)
    });
    let grab = (name(), 1..900u64).prop_map(|(consumer, count)| {
        Step::Run(Op::Lease { consumer, options: LeaseOptions { count: Some(count), ..LeaseOptions::default() } }, 0)
    });
    let purge = (state(), 1..400u64).prop_map(|(state, count)| {
        let state = if state == State::Leased { State::Dead } else { state };
        Step::Run(Op::Purge { state, count: Some(count), reason: None, before: None }, 0)
    });
    let one = prop_oneof![4 => flood, 6 => grab, 1 => purge, 30 => step()];
    (settings(5), vec(one, 20..60)).prop_map(|(settings, mut steps)| {
        for step in &mut steps {
            // Retention goes in steps as well, which the reference does not.
            if let Step::Run(Op::Create { settings } | Op::Alter { settings }, _) = step {
                settings.retain(|setting| !matches!(setting, Setting::Bound(..)));
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
