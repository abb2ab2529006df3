//! The requests that the clients of the simulated world make, and how they are typed.

/// A job's id, as its two numbers.
pub type Id = (u64, u64);

pub fn id_text((ms, seq): Id) -> String {
    format!("{ms}-{seq}")
}

pub fn id_of(text: &str) -> Id {
    let (ms, seq) = text.split_once('-').expect("an id has two numbers");
    (ms.parse().expect("ms"), seq.parse().expect("seq"))
}

/// What a dedup key is used for. Each key is always used in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dedup {
    Plain,
    Replace,
    KeepLast,
    Both,
    Window(u64),
}

/// The keys of the world: `k0` to `k5`.
pub const KEYS: [Dedup; 6] =
    [Dedup::Plain, Dedup::Replace, Dedup::KeepLast, Dedup::Both, Dedup::Window(700), Dedup::Window(600_000)];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobOptions {
    pub delay: u64,
    pub priority: i8,
    pub lease: Option<u64>,
    pub max_deliveries: Option<u64>,
    pub ttl: u64,
    pub group: Option<u8>,
    pub key: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Out,
    In,
    Group(u8),
}

pub type Pair = (Id, u64);

#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// So many jobs, whose payloads count up from this one; without a count by PUSH.
    Push { payload: u32, many: Option<u32>, options: JobOptions },
    Lease { worker: u8, count: u64, lease: Option<u64>, block: bool },
    Ack { pairs: Vec<Pair> },
    AckLease { pair: Pair, worker: u8 },
    Nack { pairs: Vec<Pair>, delay: Option<u64>, dead: bool },
    Release { pairs: Vec<Pair>, delay: u64 },
    ReleaseConsumer { worker: u8 },
    Extend { pairs: Vec<Pair>, lease: Option<u64> },
    Reap { worker: Option<u8> },
    Redrive { id: Id },
    RedriveMany { count: u64, spread: u64 },
    Set { id: Id, priority: i8, delay: Option<u64> },
    Del { id: Id },
    DelKey { key: u8 },
    PurgeDead { count: u64 },
    Trim { len: u64 },
    Pause { side: Side, for_ms: Option<u64> },
    Resume { side: Side },
    Schedule { name: u8 },
    Unschedule { name: u8 },
}

/// A schedule of the world: `s0` to `s2`, each always the same.
pub struct Plan {
    pub every: u64,
    pub limit: Option<u64>,
    pub missed: &'static str,
    pub key: Option<u8>,
}

pub const SCHEDULES: [Plan; 3] = [
    Plan { every: 900, limit: None, missed: "one", key: None },
    Plan { every: 2_500, limit: None, missed: "skip", key: Some(0) },
    Plan { every: 1_100, limit: Some(12), missed: "all", key: None },
];

/// The payload of a schedule's jobs.
pub fn slot_payload(name: u8) -> u32 {
    900_000 + u32::from(name)
}

/// Payloads differ in length, too.
pub fn payload_text(payload: u32) -> String {
    format!("p{payload}:{}", "x".repeat(payload as usize * 7 % 40))
}

impl Call {
    /// The command and its arguments after the key.
    pub fn words(&self) -> (&'static str, Vec<String>) {
        let mut words = Vec::new();
        let pairs = |words: &mut Vec<String>, pairs: &[Pair]| {
            for (id, token) in pairs {
                words.extend([id_text(*id), token.to_string()]);
            }
        };
        let maybe = |words: &mut Vec<String>, name: &str, value: Option<u64>| {
            words.extend(value.iter().flat_map(|value| [name.to_string(), value.to_string()]));
        };
        let name = match self {
            Call::Push { payload, many, options } => {
                words.extend(many.iter().map(ToString::to_string));
                words.extend((0..many.unwrap_or(1)).map(|n| payload_text(payload + n)));
                push_options(&mut words, options, *many);
                if many.is_some() { "RQ.MPUSH" } else { "RQ.PUSH" }
            }
            Call::Lease { worker, count, lease, block } => {
                words.push(format!("w{worker}"));
                maybe(&mut words, "COUNT", Some(*count));
                maybe(&mut words, "LEASE", *lease);
                maybe(&mut words, "BLOCK", block.then_some(0));
                "RQ.LEASE"
            }
            Call::Ack { pairs: acked } => {
                pairs(&mut words, acked);
                "RQ.ACK"
            }
            Call::AckLease { pair, worker } => {
                pairs(&mut words, &[*pair]);
                words.push(format!("w{worker}"));
                "RQ.ACKLEASE"
            }
            Call::Nack { pairs: failed, delay, dead } => {
                pairs(&mut words, failed);
                maybe(&mut words, "DELAY", *delay);
                words.extend(dead.then(|| "DEAD".to_string()));
                words.extend(["ERROR".to_string(), "it did not work".to_string()]);
                "RQ.NACK"
            }
            Call::Release { pairs: released, delay } => {
                pairs(&mut words, released);
                maybe(&mut words, "DELAY", Some(*delay).filter(|delay| *delay > 0));
                "RQ.RELEASE"
            }
            Call::ReleaseConsumer { worker } => {
                words.extend(["CONSUMER".to_string(), format!("w{worker}")]);
                "RQ.RELEASE"
            }
            Call::Extend { pairs: extended, lease } => {
                pairs(&mut words, extended);
                maybe(&mut words, "LEASE", *lease);
                "RQ.EXTEND"
            }
            Call::Reap { worker } => {
                words.extend(worker.iter().flat_map(|worker| ["CONSUMER".to_string(), format!("w{worker}")]));
                "RQ.REAP"
            }
            Call::Redrive { id } => {
                words.push(id_text(*id));
                "RQ.REDRIVE"
            }
            Call::RedriveMany { count, spread } => {
                maybe(&mut words, "COUNT", Some(*count));
                maybe(&mut words, "SPREAD", Some(*spread).filter(|spread| *spread > 0));
                "RQ.REDRIVE"
            }
            Call::Set { id, priority, delay } => {
                words.extend([id_text(*id), "PRIORITY".to_string(), priority.to_string()]);
                maybe(&mut words, "DELAY", *delay);
                "RQ.SET"
            }
            Call::Del { id } => {
                words.push(id_text(*id));
                "RQ.DEL"
            }
            Call::DelKey { key } => {
                words.extend(["DEDUP".to_string(), format!("k{key}")]);
                "RQ.DEL"
            }
            Call::PurgeDead { count } => {
                words.push("DEAD".to_string());
                maybe(&mut words, "COUNT", Some(*count));
                "RQ.PURGE"
            }
            Call::Trim { len } => {
                maybe(&mut words, "MAXLEN", Some(*len));
                "RQ.TRIM"
            }
            Call::Pause { side, for_ms } => {
                words.extend(side_words(*side));
                maybe(&mut words, "FOR", *for_ms);
                "RQ.PAUSE"
            }
            Call::Resume { side } => {
                words.extend(side_words(*side));
                "RQ.RESUME"
            }
            Call::Schedule { name } => {
                let plan = &SCHEDULES[usize::from(*name)];
                words.push(format!("s{name}"));
                maybe(&mut words, "EVERY", Some(plan.every));
                maybe(&mut words, "LIMIT", plan.limit);
                words.extend(["MISSED".to_string(), plan.missed.to_string()]);
                words.extend(["PAYLOAD".to_string(), payload_text(slot_payload(*name))]);
                words.extend(plan.key.iter().flat_map(|key| ["DEDUP".to_string(), format!("k{key}")]));
                "RQ.SCHEDULE"
            }
            Call::Unschedule { name } => {
                words.push(format!("s{name}"));
                "RQ.UNSCHEDULE"
            }
        };
        (name, words)
    }
}

fn side_words(side: Side) -> Vec<String> {
    match side {
        Side::Out => vec!["OUT".to_string()],
        Side::In => vec!["IN".to_string()],
        Side::Group(group) => vec!["GROUP".to_string(), format!("g{group}")],
    }
}

fn push_options(words: &mut Vec<String>, options: &JobOptions, many: Option<u32>) {
    let JobOptions { delay, priority, lease, max_deliveries, ttl, group, key } = *options;
    let numbers = [("DELAY", delay), ("LEASE", lease.unwrap_or(0)), ("TTL", ttl)];
    for (name, value) in numbers.into_iter().filter(|(_, value)| *value > 0) {
        words.extend([name.to_string(), value.to_string()]);
    }
    if priority != 0 {
        words.extend(["PRIORITY".to_string(), priority.to_string()]);
    }
    words.extend(max_deliveries.iter().flat_map(|max| ["MAXDELIVERIES".to_string(), max.to_string()]));
    words.extend(group.iter().flat_map(|group| ["GROUP".to_string(), format!("g{group}")]));
    let Some(key) = key else { return };
    assert!(many.is_none(), "several jobs of the world have no keys");
    words.extend(["DEDUP".to_string(), format!("k{key}")]);
    match KEYS[usize::from(key)] {
        Dedup::Plain => {}
        Dedup::Replace => words.push("REPLACE".to_string()),
        Dedup::KeepLast => words.push("KEEPLAST".to_string()),
        Dedup::Both => words.extend(["REPLACE".to_string(), "KEEPLAST".to_string()]),
        Dedup::Window(ms) => words.extend(["WINDOW".to_string(), ms.to_string()]),
    }
}
