//! The policy of a queue: its options, their defaults and ranges, and what follows from them.

use crate::args::Args;
use crate::error::{quote, Error};
use crate::limits::{MAX_DELIVERIES, MAX_LEASE_MS, MAX_SPAN_MS};
use crate::sink::Sink;

/// How the wait before a retry is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Uniform in (0, d].
    Full,
    /// d/2 + uniform in (0, d/2].
    Equal,
    /// d.
    None,
}

impl Jitter {
    /// Its name in commands and replies.
    pub fn name(self) -> &'static str {
        match self {
            Jitter::Full => "full",
            Jitter::Equal => "equal",
            Jitter::None => "none",
        }
    }
}

/// The options of a queue. They are read when they are used, not copied into jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// LEASE: how long a lease lasts, in ms.
    pub lease_ms: u64,
    /// MAXRUN: EXTEND cannot carry one delivery past this many ms; 0: no bound.
    pub max_run_ms: u64,
    /// MAXDELIVERIES: deliveries before dead; 0: no limit.
    pub max_deliveries: u64,
    /// MAXEXPIRIES: of those, how many may end by expiry; 0: no limit of its own.
    pub max_expiries: u64,
    /// BACKOFF: the wait after the first failure, in ms.
    pub backoff_base_ms: u64,
    /// BACKOFF: the longest wait, in ms.
    pub backoff_max_ms: u64,
    /// JITTER.
    pub jitter: Jitter,
    /// EXPIRYBACKOFF: whether an expired lease waits as a failure does.
    pub expiry_backoff: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            lease_ms: 30_000,
            max_run_ms: 0,
            max_deliveries: 20,
            max_expiries: 5,
            backoff_base_ms: 1_000,
            backoff_max_ms: 3_600_000,
            jitter: Jitter::Full,
            expiry_backoff: false,
        }
    }
}

/// One option with its value, as CREATE and ALTER set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// LEASE ms.
    Lease(u64),
    /// MAXRUN ms.
    MaxRun(u64),
    /// MAXDELIVERIES n.
    MaxDeliveries(u64),
    /// MAXEXPIRIES n.
    MaxExpiries(u64),
    /// BACKOFF base max.
    Backoff(u64, u64),
    /// JITTER.
    Jitter(Jitter),
    /// EXPIRYBACKOFF.
    ExpiryBackoff(bool),
}

impl Setting {
    /// Reads the value of option `name` (upper case) from the arguments; None if there is no
    /// such option.
    pub(crate) fn parse(name: &[u8], args: &mut Args<'_>) -> Result<Option<Setting>, Error> {
        Ok(Some(match name {
            b"LEASE" => Setting::Lease(args.number("LEASE", 1, MAX_LEASE_MS)?),
            b"MAXRUN" => Setting::MaxRun(args.number("MAXRUN", 0, MAX_SPAN_MS)?),
            b"MAXDELIVERIES" => Setting::MaxDeliveries(args.number("MAXDELIVERIES", 0, MAX_DELIVERIES)?),
            b"MAXEXPIRIES" => Setting::MaxExpiries(args.number("MAXEXPIRIES", 0, MAX_DELIVERIES)?),
            b"BACKOFF" => {
                let base = args.number("BACKOFF base", 0, MAX_SPAN_MS)?;
                let max = args.number("BACKOFF max", 0, MAX_SPAN_MS)?;
                if max < base {
                    return Err(Error::new(format!("BACKOFF max must not be below its base, {max} is below {base}")));
                }
                Setting::Backoff(base, max)
            }
            b"JITTER" => {
                let value = args.value("JITTER")?;
                Setting::Jitter(match value.to_ascii_lowercase().as_slice() {
                    b"full" => Jitter::Full,
                    b"equal" => Jitter::Equal,
                    b"none" => Jitter::None,
                    _ => return Err(Error::new(format!("JITTER must be full, equal or none, not {}", quote(value)))),
                })
            }
            b"EXPIRYBACKOFF" => {
                let value = args.value("EXPIRYBACKOFF")?;
                Setting::ExpiryBackoff(match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(Error::new(format!("EXPIRYBACKOFF must be yes or no, not {}", quote(value)))),
                })
            }
            _ => return Ok(None),
        }))
    }

    /// Whether two settings are of the same option.
    pub(crate) fn same_option(&self, other: &Setting) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether its values are in range, for settings that were decoded.
    pub(crate) fn in_range(&self) -> bool {
        match *self {
            Setting::Lease(ms) => (1..=MAX_LEASE_MS).contains(&ms),
            Setting::MaxRun(ms) => ms <= MAX_SPAN_MS,
            Setting::MaxDeliveries(n) | Setting::MaxExpiries(n) => n <= MAX_DELIVERIES,
            Setting::Backoff(base, max) => base <= max && max <= MAX_SPAN_MS,
            Setting::Jitter(_) | Setting::ExpiryBackoff(_) => true,
        }
    }
}

impl Policy {
    /// Sets one option.
    pub fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Lease(ms) => self.lease_ms = ms,
            Setting::MaxRun(ms) => self.max_run_ms = ms,
            Setting::MaxDeliveries(n) => self.max_deliveries = n,
            Setting::MaxExpiries(n) => self.max_expiries = n,
            Setting::Backoff(base, max) => {
                self.backoff_base_ms = base;
                self.backoff_max_ms = max;
            }
            Setting::Jitter(jitter) => self.jitter = jitter,
            Setting::ExpiryBackoff(yes) => self.expiry_backoff = yes,
        }
    }

    /// All options as settings, in the order of the command reference.
    pub fn settings(&self) -> [Setting; 7] {
        [
            Setting::Lease(self.lease_ms),
            Setting::MaxRun(self.max_run_ms),
            Setting::MaxDeliveries(self.max_deliveries),
            Setting::MaxExpiries(self.max_expiries),
            Setting::Backoff(self.backoff_base_ms, self.backoff_max_ms),
            Setting::Jitter(self.jitter),
            Setting::ExpiryBackoff(self.expiry_backoff),
        ]
    }

    /// How many pairs [`Policy::write`] writes.
    pub(crate) const PAIRS: usize = 7;

    /// Writes the policy as pairs of a map.
    pub(crate) fn write(&self, out: &mut dyn Sink) {
        for setting in self.settings() {
            match setting {
                Setting::Lease(n) => pair(out, "lease", n),
                Setting::MaxRun(n) => pair(out, "maxrun", n),
                Setting::MaxDeliveries(n) => pair(out, "maxdeliveries", n),
                Setting::MaxExpiries(n) => pair(out, "maxexpiries", n),
                Setting::Backoff(base, max) => {
                    out.text("backoff");
                    out.array(2);
                    out.uint(base);
                    out.uint(max);
                }
                Setting::Jitter(jitter) => {
                    out.text("jitter");
                    out.text(jitter.name());
                }
                Setting::ExpiryBackoff(yes) => {
                    out.text("expirybackoff");
                    out.text(if yes { "yes" } else { "no" });
                }
            }
        }
    }

    /// The wait in ms before the retry after the `n`-th failure (from 1), before jitter:
    /// `min(max, base * 2^(n-1))`, saturating.
    pub fn backoff_ms(&self, n: u64) -> u64 {
        let doublings = u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX).min(63);
        let wait = u128::from(self.backoff_base_ms) << doublings;
        u64::try_from(wait).unwrap_or(u64::MAX).min(self.backoff_max_ms)
    }

    /// The same with jitter drawn from `random`.
    pub fn backoff_with_jitter_ms(&self, n: u64, random: u64) -> u64 {
        let wait = self.backoff_ms(n);
        let draw = |width: u64| match random.checked_rem(width) {
            Some(rest) => rest.saturating_add(1),
            None => 0,
        };
        match self.jitter {
            Jitter::None => wait,
            Jitter::Full => draw(wait),
            Jitter::Equal => {
                let half = wait / 2;
                wait.saturating_sub(half).saturating_add(draw(half))
            }
        }
    }
}

fn pair(out: &mut dyn Sink, name: &str, value: u64) {
    out.text(name);
    out.uint(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_saturates_and_never_leaves_its_range() {
        let policy = Policy { backoff_base_ms: 1_000, backoff_max_ms: 3_600_000, ..Policy::default() };
        let mut last = 0;
        for n in (1..200).chain([1_100, 100_000, u64::MAX]) {
            let wait = policy.backoff_ms(n);
            assert!(wait >= last && (1_000..=3_600_000).contains(&wait), "{n}: {wait}");
            last = wait;
            for (jitter, low) in [(Jitter::Full, 1), (Jitter::Equal, wait / 2 + 1), (Jitter::None, wait)] {
                let policy = Policy { jitter, ..policy.clone() };
                for random in [0, 1, wait - 1, wait, u64::MAX] {
                    let with = policy.backoff_with_jitter_ms(n, random);
                    assert!((low..=wait).contains(&with), "{jitter:?} {n} {random}: {with}");
                }
            }
        }
        assert_eq!(last, 3_600_000);
        let none = Policy { backoff_base_ms: 0, backoff_max_ms: 0, ..policy };
        assert_eq!(none.backoff_with_jitter_ms(7, 12345), 0);
    }
}
