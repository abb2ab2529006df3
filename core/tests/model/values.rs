//! Random values: short times and few names, so that they meet; and now and then the extremes.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::op::{Among, Dedup, IdPick, Jitter, JobOptions, LeaseOptions, Missed, Moment, PairPick, Plan, Rule, Setting, Side, State, Twist, When};

pub fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::sample::select(vec![&b"w1"[..], b"w2", b"w3"]).prop_map(<[u8]>::to_vec),
        1 => prop::sample::select(vec![&b""[..], b"COUNT", b"block", b"\x00\xff\r\n", b"1-1"]).prop_map(<[u8]>::to_vec),
    ]
}

pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => vec(any::<u8>(), 0..12),
        1 => prop::sample::select(vec![&b"DELAY"[..], b"priority", b"TTL", b"$-1\r\n", b"0-0"]).prop_map(<[u8]>::to_vec),
        1 => (50..3_000usize).prop_map(|len| vec![b'.'; len]),
    ]
}

/// Short times are common, so that they meet; the longest are there as well.
pub fn span() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..6u64, 4 => 0..200u64, 2 => 0..20_000u64, 1 => Just(315_360_000_000u64)]
}

pub fn lease_ms() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..6u64, 4 => 1..200u64, 2 => 1..60_000u64, 1 => Just(31_536_000_000u64)]
}

pub fn moment() -> impl Strategy<Value = Moment> {
    let from_now = prop_oneof![-10..10i64, -500..500i64, -100_000..100_000i64];
    prop_oneof![
        from_now.prop_map(|offset| Moment { of_job: None, offset, at: 0 }),
        (any::<u16>(), -1..2i64).prop_map(|(job, offset)| Moment { of_job: Some(job), offset, at: 0 }),
    ]
}

pub fn when() -> impl Strategy<Value = When> {
    prop_oneof![2 => span().prop_map(When::Delay), 1 => moment().prop_map(When::At)]
}

pub fn priority() -> impl Strategy<Value = i8> {
    prop_oneof![3 => -1..2i8, 1 => prop::sample::select(vec![-128i8, -127, 126, 127])]
}

pub fn few() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..4u64, 1 => 0..1_000_000_001u64]
}

/// Few groups, so that they fill up.
pub fn group() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b"a"[..], b"a", b"b", b"c", b"", b"GROUP"]).prop_map(<[u8]>::to_vec)
}

/// `grouped`: so many of a hundred are of a group.
pub fn job_options(grouped: u32) -> impl Strategy<Value = JobOptions> {
    (
        option::weighted(0.3, when()),
        option::weighted(0.4, priority()),
        option::weighted(0.2, lease_ms()),
        option::weighted(0.3, few()),
        option::weighted(0.3, span().prop_map(|ms| ms.max(1))),
        option::weighted(f64::from(grouped) / 100.0, group()),
    )
        .prop_map(|(when, priority, lease, max_deliveries, ttl, group)| JobOptions { when, priority, lease, max_deliveries, ttl, group })
}

pub fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b"k1"[..], b"k1", b"k2", b"WINDOW", b"\x00"]).prop_map(<[u8]>::to_vec)
}

pub fn dedup() -> impl Strategy<Value = Dedup> {
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

pub fn lease_options() -> impl Strategy<Value = LeaseOptions> {
    (
        option::weighted(0.5, prop_oneof![1..5u64, Just(10_000u64)]),
        option::weighted(0.3, lease_ms()),
        option::weighted(0.3, span()),
        option::weighted(0.2, prop_oneof![1..30u64, Just(i64::MAX as u64)]),
        any::<bool>(),
    )
        .prop_map(|(count, lease, block, max_bytes, meta)| LeaseOptions { count, lease, block, max_bytes, meta })
}

pub fn pair() -> impl Strategy<Value = PairPick> {
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

pub fn id(among: &'static [Among]) -> impl Strategy<Value = IdPick> {
    let among = prop_oneof![
        6 => prop::sample::select(among),
        1 => Just(Among::Ever),
        1 => Just(Among::Unknown),
    ];
    (among, any::<u16>()).prop_map(|(among, pick)| IdPick { among, pick, id: (0, 0) })
}

pub fn state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL.as_slice())
}

pub fn reason() -> impl Strategy<Value = &'static str> {
    prop::sample::select(["failed", "expired-lease", "rejected", "ttl"].as_slice())
}

pub fn backoff() -> impl Strategy<Value = Setting> {
    const PAIRS: &[(u64, u64)] = &[(0, 0), (0, 10), (1, 4), (10, 100), (1_000, 3_600_000), (315_360_000_000, 315_360_000_000)];
    prop::sample::select(PAIRS).prop_map(|(base, max)| Setting::Backoff(base, max))
}

/// Some settings, each option once at most.
pub fn settings(least: usize) -> impl Strategy<Value = Vec<Setting>> {
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
    let bounds = prop_oneof![3 => bound(), 2 => of_groups()];
    (named, vec(bounds, 0..4)).prop_map(|(named, bounds)| each_once([named, bounds].concat()))
}

pub fn each_once(settings: Vec<Setting>) -> Vec<Setting> {
    let mut once: Vec<Setting> = Vec::new();
    for setting in settings {
        if !once.iter().any(|other| other.name() == setting.name()) {
            once.push(setting);
        }
    }
    once
}

/// What is kept, and how much there may be.
pub fn bound() -> impl Strategy<Value = Setting> {
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
        1 => rate().prop_map(Setting::Rate),
    ]
}

fn rate() -> impl Strategy<Value = Option<(u64, u64)>> {
    option::weighted(0.7, (1..4u64, prop_oneof![1..50u64, 1..3_000u64]))
}

/// Who is served, and when.
pub fn of_groups() -> impl Strategy<Value = Setting> {
    prop_oneof![
        2 => option::weighted(0.7, 0..4u64).prop_map(|limit| Setting::Bound("GROUPLIMIT", limit)),
        2 => rate().prop_map(Setting::GroupRate),
        2 => prop::bool::weighted(0.6).prop_map(Setting::GroupOrder),
        1 => prop_oneof![Just(0u64), 1..30u64, 1..3_000u64].prop_map(Setting::Aging),
    ]
}

/// What is paused; mostly with an end.
pub fn side() -> impl Strategy<Value = Side> {
    prop_oneof![2 => Just(Side::Out), 2 => Just(Side::In), 1 => group().prop_map(Side::Group)]
}

pub fn pause_ms() -> impl Strategy<Value = Option<u64>> {
    option::weighted(0.9, prop_oneof![1..20u64, 1..3_000u64])
}

pub fn schedule_name() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b"s"[..], b"s", b"t", b"", b"EVERY"]).prop_map(<[u8]>::to_vec)
}

/// A schedule that comes often enough to be seen. Only a LIMIT keeps `all` of short ones small.
pub fn plan(grouped: u32) -> impl Strategy<Value = Plan> {
    let ms = prop_oneof![3 => 100..400u64, 2 => 1_000..20_000u64, 2 => 50_000..400_000u64];
    let missed = option::weighted(0.8, prop::sample::select(vec![Missed::One, Missed::Skip, Missed::All]));
    let bounds = (option::weighted(0.25, moment()), option::weighted(0.25, moment()), option::weighted(0.25, 1..6u64));
    let zone = prop::sample::select(vec![None, None, None, Some("UTC"), Some("UTC"), Some(""), Some("Nowhere")]);
    let few_bytes = payload().prop_map(|mut payload| {
        payload.truncate(20);
        payload
    });
    let contents = (few_bytes, job_options(grouped), option::weighted(0.3, key()));
    (ms, any::<bool>(), zone, bounds, missed, contents).prop_map(|(ms, cron, zone, (start, end, limit), missed, (payload, options, dedup))| Plan {
        // A few intervals, so that some say the same again.
        rule: if cron { Rule::Cron(ms / 100 * 100, zone) } else { Rule::Every(ms / 100 * 100) },
        start,
        end,
        limit: if missed == Some(Missed::All) && ms < 50_000 { limit.or(Some(5)) } else { limit },
        missed,
        payload,
        options: JobOptions { when: None, ..options },
        dedup,
    })
}
