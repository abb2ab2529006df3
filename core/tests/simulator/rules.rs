//! What is chosen once for a run: the policy of the queue, and what may go wrong.

use crate::support::lively::Dice;

/// No run has more steps than this.
pub const MOST_STEPS: usize = 320;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    Full,
    Equal,
    None,
}

/// The policy of the queue, by its meaning in the contract.
#[derive(Debug, Clone)]
pub struct Rules {
    pub lease: u64,
    pub max_run: u64,
    pub max_deliveries: u64,
    pub max_expiries: u64,
    pub backoff: (u64, u64),
    pub jitter: Jitter,
    pub expiry_backoff: bool,
    pub keep_done: Option<u64>,
    pub keep_done_ms: Option<u64>,
    pub keep_dead: Option<u64>,
    pub keep_dead_ms: Option<u64>,
    pub max_live: Option<u64>,
    pub concurrency: Option<u64>,
    pub rate: Option<(u64, u64)>,
    pub group_order: bool,
    pub group_limit: Option<u64>,
    pub group_rate: Option<(u64, u64)>,
    pub aging: u64,
}

/// What else differs from run to run.
#[derive(Debug, Clone)]
pub struct Setup {
    pub rules: Rules,
    pub grace: u64,
    pub fsync_always: bool,
    pub clocks_step: bool,
    pub groups: bool,
    pub keys: bool,
    pub priorities: bool,
    pub schedules: bool,
    pub pauses: bool,
    pub steps: usize,
}

fn often<T>(dice: &mut Dice, usual: T, others: &[T]) -> T
where
    T: Copy,
{
    if dice.below(2) == 0 { usual } else { *dice.pick(others) }
}

impl Setup {
    pub fn of(dice: &mut Dice) -> Setup {
        let rules = Rules {
            lease: *dice.pick(&[200, 1_000, 30_000]),
            max_run: often(dice, 0, &[1_500, 60_000]),
            max_deliveries: *dice.pick(&[1, 2, 3, 5, 20, 0]),
            max_expiries: *dice.pick(&[1, 2, 5, 0]),
            backoff: *dice.pick(&[(0, 0), (50, 400), (1_000, 3_600_000), (7, 7)]),
            jitter: *dice.pick(&[Jitter::Full, Jitter::Equal, Jitter::None]),
            expiry_backoff: dice.below(3) == 0,
            keep_done: *dice.pick(&[Some(0), Some(3), None]),
            keep_done_ms: often(dice, None, &[Some(0), Some(5_000)]),
            keep_dead: often(dice, None, &[Some(2), Some(0)]),
            keep_dead_ms: often(dice, None, &[Some(20_000)]),
            max_live: often(dice, None, &[Some(5), Some(15)]),
            concurrency: often(dice, None, &[Some(1), Some(4)]),
            rate: often(dice, None, &[Some((2, 300)), Some((5, 5_000))]),
            group_order: dice.below(3) == 0,
            group_limit: often(dice, None, &[Some(1), Some(2)]),
            group_rate: often(dice, None, &[Some((1, 200)), Some((3, 4_000))]),
            aging: often(dice, 0, &[50, 5_000]),
        };
        let mut setup = Setup {
            rules,
            grace: *dice.pick(&[0, 500, 10_000]),
            fsync_always: dice.below(2) == 0,
            clocks_step: dice.below(2) == 0,
            groups: dice.below(2) == 0,
            keys: dice.below(2) == 0,
            priorities: dice.below(2) == 0,
            schedules: dice.below(3) == 0,
            pauses: dice.below(3) == 0,
            steps: MOST_STEPS - dice.below(200),
        };
        // What holds jobs back also hides much of what is to be judged: in half of the runs nothing does.
        if dice.below(2) == 0 {
            let plain = Rules { concurrency: None, rate: None, group_order: false, group_limit: None, group_rate: None, aging: 0, ..setup.rules };
            setup.rules = plain;
        }
        setup
    }
}

impl Rules {
    /// The options of CREATE.
    pub fn options(&self) -> String {
        let bound = |bound: Option<u64>| bound.map_or("-1".to_string(), |bound| bound.to_string());
        let rate = |rate: Option<(u64, u64)>| rate.map_or("-1".to_string(), |(n, ms)| format!("{n} {ms}"));
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        let jitter = match self.jitter {
            Jitter::Full => "full",
            Jitter::Equal => "equal",
            Jitter::None => "none",
        };
        format!(
            "LEASE {} MAXRUN {} MAXDELIVERIES {} MAXEXPIRIES {} BACKOFF {} {} JITTER {jitter} EXPIRYBACKOFF {} \
             KEEPDONE {} KEEPDONEMS {} KEEPDEAD {} KEEPDEADMS {} MAXLIVE {} CONCURRENCY {} RATE {} GROUPORDER {} \
             GROUPLIMIT {} GROUPRATE {} AGING {}",
            self.lease, self.max_run, self.max_deliveries, self.max_expiries, self.backoff.0, self.backoff.1,
            yes(self.expiry_backoff), bound(self.keep_done), bound(self.keep_done_ms), bound(self.keep_dead),
            bound(self.keep_dead_ms), bound(self.max_live), bound(self.concurrency), rate(self.rate),
            yes(self.group_order), bound(self.group_limit), rate(self.group_rate), self.aging,
        )
    }

    pub fn keeps_done(&self) -> bool {
        self.keep_done != Some(0) && self.keep_done_ms != Some(0)
    }

    /// The longest wait before the n-th try after a failure, and the shortest.
    pub fn backoff(&self, failures: u64) -> (u64, u64) {
        let (base, max) = self.backoff;
        let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = 1u64.checked_shl(doublings).map_or(max, |factor| base.saturating_mul(factor)).min(max);
        let most = if base == 0 { 0 } else { most };
        let least = match self.jitter {
            Jitter::Full => most.min(1),
            Jitter::Equal => most / 2,
            Jitter::None => most,
        };
        (least, most)
    }

    /// Something other than a pause may hold back jobs that are ready.
    pub fn bars(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some() || self.group_order || self.group_limit.is_some() || self.group_rate.is_some()
    }
}
