//! The policy of a queue. One table has every option: its name, kind, range and default; reading,
//! showing and storing options all go by it.

use crate::args::Args;
use crate::error::{quote, Error};
use crate::job::State;
use crate::limits::{MAX_DELIVERIES, MAX_LEASE_MS, MAX_SPAN_MS};
use crate::rate::Rate;
use crate::sink::Sink;

/// An option of a queue; its place in the table, and its number in stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the table and the command reference say what each does")]
pub enum Opt {
    Lease,
    MaxRun,
    MaxDeliveries,
    MaxExpiries,
    Backoff,
    Jitter,
    ExpiryBackoff,
    KeepDone,
    KeepDoneMs,
    KeepDoneBytes,
    KeepDead,
    KeepDeadMs,
    KeepDeadBytes,
    MaxLive,
    MaxLiveBytes,
    Concurrency,
    Rate,
    GroupOrder,
    GroupLimit,
    GroupRate,
    Aging,
}

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A bound; None, shown as -1, is none.
    Bound(Option<u64>),
    /// From, to.
    Span(u64, u64),
    /// So many in so many ms; None, shown as -1, is no limit.
    Rate(Option<(u64, u64)>),
    /// The place of a word in the option's list.
    Word(u8),
}

/// What values an option has.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Number { low: u64, high: u64 },
    Bound { high: u64 },
    Span { high: u64 },
    Rate,
    Word(&'static [&'static str]),
}

struct Entry {
    opt: Opt,
    name: &'static str,
    kind: Kind,
    default: Value,
}

const fn entry(opt: Opt, name: &'static str, kind: Kind, default: Value) -> Entry {
    Entry { opt, name, kind, default }
}

const COUNT: usize = 21;
/// The most grants that RATE counts.
const MAX_RATE: u64 = 10_000;
const MAX_BYTES: u64 = 1 << 53;
const NO: Value = Value::Bound(None);

static TABLE: [Entry; COUNT] = [
    entry(Opt::Lease, "LEASE", Kind::Number { low: 1, high: MAX_LEASE_MS }, Value::Number(30_000)),
    entry(Opt::MaxRun, "MAXRUN", Kind::Number { low: 0, high: MAX_SPAN_MS }, Value::Number(0)),
    entry(Opt::MaxDeliveries, "MAXDELIVERIES", Kind::Number { low: 0, high: MAX_DELIVERIES }, Value::Number(20)),
    entry(Opt::MaxExpiries, "MAXEXPIRIES", Kind::Number { low: 0, high: MAX_DELIVERIES }, Value::Number(5)),
    entry(Opt::Backoff, "BACKOFF", Kind::Span { high: MAX_SPAN_MS }, Value::Span(1_000, 3_600_000)),
    entry(Opt::Jitter, "JITTER", Kind::Word(&["full", "equal", "none"]), Value::Word(0)),
    entry(Opt::ExpiryBackoff, "EXPIRYBACKOFF", Kind::Word(&["no", "yes"]), Value::Word(0)),
    entry(Opt::KeepDone, "KEEPDONE", Kind::Bound { high: MAX_DELIVERIES }, Value::Bound(Some(0))),
    entry(Opt::KeepDoneMs, "KEEPDONEMS", Kind::Bound { high: MAX_SPAN_MS }, NO),
    entry(Opt::KeepDoneBytes, "KEEPDONEBYTES", Kind::Bound { high: MAX_BYTES }, NO),
    entry(Opt::KeepDead, "KEEPDEAD", Kind::Bound { high: MAX_DELIVERIES }, NO),
    entry(Opt::KeepDeadMs, "KEEPDEADMS", Kind::Bound { high: MAX_SPAN_MS }, NO),
    entry(Opt::KeepDeadBytes, "KEEPDEADBYTES", Kind::Bound { high: MAX_BYTES }, NO),
    entry(Opt::MaxLive, "MAXLIVE", Kind::Bound { high: MAX_DELIVERIES }, NO),
    entry(Opt::MaxLiveBytes, "MAXLIVEBYTES", Kind::Bound { high: MAX_BYTES }, NO),
    entry(Opt::Concurrency, "CONCURRENCY", Kind::Bound { high: MAX_DELIVERIES }, NO),
    entry(Opt::Rate, "RATE", Kind::Rate, Value::Rate(None)),
    entry(Opt::GroupOrder, "GROUPORDER", Kind::Word(&["no", "yes"]), Value::Word(0)),
    entry(Opt::GroupLimit, "GROUPLIMIT", Kind::Bound { high: MAX_DELIVERIES }, NO),
    entry(Opt::GroupRate, "GROUPRATE", Kind::Rate, Value::Rate(None)),
    entry(Opt::Aging, "AGING", Kind::Number { low: 0, high: MAX_SPAN_MS }, Value::Number(0)),
];

/// How the wait before a retry is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jitter {
    /// Uniform in (0, d].
    Full,
    /// d/2 + uniform in (0, d/2].
    Equal,
    /// d.
    None,
}

/// The options of a queue. They are read when they are used, not copied into jobs. Most queues have
/// no others than the defaults: then they take no memory.
#[derive(Debug, Clone, Default)]
pub struct Policy(Option<Box<[Value; COUNT]>>);

static DEFAULTS: [Value; COUNT] = {
    let (mut values, mut n) = ([NO; COUNT], 0);
    #[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "by the compiler")]
    while n < COUNT {
        values[n] = TABLE[n].default;
        n += 1;
    }
    values
};

impl PartialEq for Policy {
    fn eq(&self, other: &Policy) -> bool {
        self.values() == other.values()
    }
}

impl Eq for Policy {}

impl Policy {
    fn values(&self) -> &[Value; COUNT] {
        self.0.as_deref().unwrap_or(&DEFAULTS)
    }
}

/// One option with its value, as CREATE and ALTER set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    pub(crate) opt: Opt,
    pub(crate) value: Value,
}

impl Setting {
    /// A setting; None if the value is not one of this option.
    pub fn new(opt: Opt, value: Value) -> Option<Setting> {
        let Entry { kind, .. } = TABLE.get(opt as usize)?;
        let fits = match (*kind, value) {
            (Kind::Number { low, high }, Value::Number(n)) => (low..=high).contains(&n),
            (Kind::Bound { high }, Value::Bound(bound)) => bound.is_none_or(|bound| bound <= high),
            (Kind::Span { high }, Value::Span(from, to)) => from <= to && to <= high,
            (Kind::Word(words), Value::Word(at)) => usize::from(at) < words.len(),
            (Kind::Rate, Value::Rate(None)) => true,
            (Kind::Rate, Value::Rate(Some((n, ms)))) => (1..=MAX_RATE).contains(&n) && (1..=MAX_SPAN_MS).contains(&ms),
            _ => false,
        };
        fits.then_some(Setting { opt, value })
    }

    /// Reads the value of option `name` (upper case) from the arguments; None if there is no such
    /// option.
    pub(crate) fn parse(name: &[u8], args: &mut Args<'_>) -> Result<Option<Setting>, Error> {
        let Some(Entry { opt, name, kind, .. }) = TABLE.iter().find(|entry| entry.name.as_bytes() == name) else {
            return Ok(None);
        };
        let value = match *kind {
            Kind::Number { low, high } => Value::Number(args.number(name, low, high)?),
            Kind::Bound { high } => Value::Bound(args.bound(name, high)?),
            Kind::Span { high } => {
                let from = args.number(&format!("{name} base"), 0, high)?;
                let to = args.number(&format!("{name} max"), 0, high)?;
                if to < from {
                    return Err(Error::new(format!("{name} max must not be below its base, {to} is below {from}")));
                }
                Value::Span(from, to)
            }
            Kind::Rate if args.peek() == Some(b"-1") => {
                args.next();
                Value::Rate(None)
            }
            Kind::Rate => {
                let n = args.number(&format!("{name} n"), 1, MAX_RATE)?;
                Value::Rate(Some((n, args.number(&format!("{name} ms"), 1, MAX_SPAN_MS)?)))
            }
            Kind::Word(words) => {
                let value = args.value(name)?;
                let at = words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(value));
                let at = at.and_then(|at| u8::try_from(at).ok());
                let choice = || Error::new(format!("{name} must be {}, not {}", either(words), quote(value)));
                Value::Word(at.ok_or_else(choice)?)
            }
        };
        Ok(Some(Setting { opt: *opt, value }))
    }

    /// The numbers that store the value.
    pub(crate) fn numbers(&self) -> (u64, Option<u64>) {
        match self.value {
            Value::Number(n) => (n, None),
            Value::Bound(bound) => (bound.map_or(0, |bound| bound.saturating_add(1)), None),
            Value::Span(from, to) => (from, Some(to)),
            Value::Word(at) => (u64::from(at), None),
            Value::Rate(rate) => rate.map_or((0, Some(0)), |(n, ms)| (n, Some(ms))),
        }
    }

    /// The setting that such numbers store; `second` is asked only where there are two.
    pub(crate) fn from_numbers<E>(number: u8, first: u64, second: impl FnOnce() -> Result<u64, E>) -> Result<Option<Setting>, E> {
        let Some(Entry { opt, kind, .. }) = TABLE.get(usize::from(number)) else { return Ok(None) };
        let value = match kind {
            Kind::Number { .. } => Value::Number(first),
            Kind::Bound { .. } => Value::Bound(first.checked_sub(1)),
            Kind::Span { .. } => Value::Span(first, second()?),
            Kind::Rate => match (first, second()?) {
                (0, 0) => Value::Rate(None),
                (n, ms) => Value::Rate(Some((n, ms))),
            },
            Kind::Word(_) => Value::Word(u8::try_from(first).unwrap_or(u8::MAX)),
        };
        Ok(Setting::new(*opt, value))
    }
}

/// Words as one says them: `a, b or c`.
fn either(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

impl Policy {
    /// How many options there are.
    pub(crate) const COUNT: usize = COUNT;

    /// Sets one option.
    pub fn set(&mut self, setting: Setting) {
        let values = self.0.get_or_insert_with(|| Box::new(DEFAULTS));
        if let Some(value) = values.get_mut(setting.opt as usize) {
            *value = setting.value;
        }
    }

    /// All options, in the order of the table.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        TABLE.iter().zip(self.values()).map(|(entry, value)| Setting { opt: entry.opt, value: *value })
    }

    /// Whether an option has this value.
    pub(crate) fn has(&self, setting: &Setting) -> bool {
        self.values().get(setting.opt as usize) == Some(&setting.value)
    }

    fn number(&self, opt: Opt) -> u64 {
        match self.values().get(opt as usize) {
            Some(Value::Number(n)) => *n,
            _ => 0,
        }
    }

    fn word(&self, opt: Opt) -> u8 {
        match self.values().get(opt as usize) {
            Some(Value::Word(at)) => *at,
            _ => 0,
        }
    }

    /// A bound; None is none.
    fn bound(&self, opt: Opt) -> Option<u64> {
        match self.values().get(opt as usize) {
            Some(Value::Bound(bound)) => *bound,
            _ => None,
        }
    }

    /// KEEPDONE or KEEPDEAD: how many, how many bytes, how many ms are kept.
    pub(crate) fn retention(&self, state: State) -> Option<(Option<u64>, Option<u64>, Option<u64>)> {
        let (count, bytes, ms) = match state {
            State::Done => (Opt::KeepDone, Opt::KeepDoneBytes, Opt::KeepDoneMs),
            State::Dead => (Opt::KeepDead, Opt::KeepDeadBytes, Opt::KeepDeadMs),
            _ => return None,
        };
        Some((self.bound(count), self.bound(bytes), self.bound(ms)))
    }

    /// Whether a finished job is kept at all.
    pub(crate) fn keeps_done(&self) -> bool {
        [Opt::KeepDone, Opt::KeepDoneBytes, Opt::KeepDoneMs].into_iter().all(|opt| self.bound(opt) != Some(0))
    }

    /// LEASE: how long a lease lasts, in ms.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.number(Opt::Lease)
    }

    /// MAXRUN: EXTEND cannot carry one delivery past this many ms; 0: no bound.
    pub(crate) fn max_run_ms(&self) -> u64 {
        self.number(Opt::MaxRun)
    }

    /// MAXDELIVERIES: deliveries before dead; 0: no limit.
    pub(crate) fn max_deliveries(&self) -> u64 {
        self.number(Opt::MaxDeliveries)
    }

    /// MAXEXPIRIES: of those, how many may end by expiry; 0: no limit of its own.
    pub(crate) fn max_expiries(&self) -> u64 {
        self.number(Opt::MaxExpiries)
    }

    /// MAXLIVE, MAXLIVEBYTES.
    pub(crate) fn max_live(&self) -> (Option<u64>, Option<u64>) {
        (self.bound(Opt::MaxLive), self.bound(Opt::MaxLiveBytes))
    }

    /// CONCURRENCY.
    pub(crate) fn concurrency(&self) -> Option<u64> {
        self.bound(Opt::Concurrency)
    }

    /// RATE.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate_of(Opt::Rate)
    }

    /// GROUPRATE.
    pub(crate) fn group_rate(&self) -> Option<Rate> {
        self.rate_of(Opt::GroupRate)
    }

    fn rate_of(&self, opt: Opt) -> Option<Rate> {
        match self.values().get(opt as usize) {
            Some(Value::Rate(Some((n, ms)))) => Some(Rate { n: *n, ms: *ms }),
            _ => None,
        }
    }

    /// GROUPORDER.
    pub(crate) fn group_order(&self) -> bool {
        self.word(Opt::GroupOrder) == 1
    }

    /// GROUPLIMIT.
    pub(crate) fn group_limit(&self) -> Option<u64> {
        self.bound(Opt::GroupLimit)
    }

    /// AGING, in ms; None: off.
    pub(crate) fn aging_ms(&self) -> Option<u64> {
        Some(self.number(Opt::Aging)).filter(|ms| *ms > 0)
    }

    /// EXPIRYBACKOFF: whether an expired lease waits as a failure does.
    pub(crate) fn expiry_backoff(&self) -> bool {
        self.word(Opt::ExpiryBackoff) == 1
    }

    fn jitter(&self) -> Jitter {
        match self.word(Opt::Jitter) {
            0 => Jitter::Full,
            1 => Jitter::Equal,
            _ => Jitter::None,
        }
    }

    /// Writes the policy as pairs of a map.
    pub(crate) fn write(&self, out: &mut dyn Sink) {
        for (Entry { name, kind, .. }, value) in TABLE.iter().zip(self.values()) {
            out.text(&name.to_ascii_lowercase());
            match (*value, kind) {
                (Value::Number(n), _) => out.uint(n),
                (Value::Bound(None), _) => out.int(-1),
                (Value::Bound(Some(bound)), _) => out.uint(bound),
                (Value::Rate(None), _) => out.int(-1),
                (Value::Span(from, to) | Value::Rate(Some((from, to))), _) => {
                    out.array(2);
                    out.uint(from);
                    out.uint(to);
                }
                (Value::Word(at), Kind::Word(words)) => out.text(words.get(usize::from(at)).copied().unwrap_or("")),
                (Value::Word(_), _) => out.null(),
            }
        }
    }

    /// The wait in ms before the retry after the `n`-th failure (from 1), before jitter:
    /// `min(max, base * 2^(n-1))`, saturating.
    pub(crate) fn backoff_ms(&self, n: u64) -> u64 {
        let (base, max) = match self.values().get(Opt::Backoff as usize) {
            Some(Value::Span(base, max)) => (*base, *max),
            _ => (0, 0),
        };
        let doublings = u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX).min(63);
        let wait = u128::from(base) << doublings;
        u64::try_from(wait).unwrap_or(u64::MAX).min(max)
    }

    /// The same with jitter drawn from `random`.
    pub(crate) fn backoff_with_jitter_ms(&self, n: u64, random: u64) -> u64 {
        let wait = self.backoff_ms(n);
        let draw = |width: u64| random.checked_rem(width).map_or(0, |rest| rest.saturating_add(1));
        match self.jitter() {
            Jitter::None => wait,
            Jitter::Full => draw(wait),
            Jitter::Equal => {
                let half = wait / 2;
                wait.saturating_sub(half).saturating_add(draw(half))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_options() {
        for (n, entry) in TABLE.iter().enumerate() {
            assert_eq!(entry.opt as usize, n, "{}", entry.name);
            let default = Setting::new(entry.opt, entry.default);
            assert!(default.is_some(), "{}", entry.name);
            let (first, second) = default.unwrap().numbers();
            let back = Setting::from_numbers(entry.opt as u8, first, || second.ok_or(()));
            assert_eq!(back, Ok(default), "{}", entry.name);
        }
    }

    #[test]
    fn backoff_saturates_and_never_leaves_its_range() {
        let policy = |jitter| {
            let mut policy = Policy::default();
            policy.set(Setting::new(Opt::Jitter, Value::Word(jitter)).unwrap());
            policy
        };
        let mut last = 0;
        for n in (1..200).chain([1_100, 100_000, u64::MAX]) {
            let wait = policy(0).backoff_ms(n);
            assert!(wait >= last && (1_000..=3_600_000).contains(&wait), "{n}: {wait}");
            last = wait;
            for (jitter, low) in [(0, 1), (1, wait / 2 + 1), (2, wait)] {
                for random in [0, 1, wait - 1, wait, u64::MAX] {
                    let with = policy(jitter).backoff_with_jitter_ms(n, random);
                    assert!((low..=wait).contains(&with), "{jitter} {n} {random}: {with}");
                }
            }
        }
        assert_eq!(last, 3_600_000);
        let mut none = policy(0);
        none.set(Setting::new(Opt::Backoff, Value::Span(0, 0)).unwrap());
        assert_eq!(none.backoff_with_jitter_ms(7, 12345), 0);
    }
}
