//! What goes wrong: servers die, connections break, clocks are set.

use super::ledger::{Ledger, Verdict};
use super::world::World;
use crate::support::lively::Dice;

impl World {
    pub fn fault(&mut self, dice: &mut Dice) -> Verdict {
        match dice.below(20) {
            0..=2 => self.restart(dice),
            3..=5 => self.fail_over(dice),
            6 => {
                // A role flip on purpose: the replica has everything.
                self.cluster.replicate(u64::MAX)?;
                self.fail_over(dice)
            }
            7 | 8 => {
                self.note("reload", format_args!("# the queue is loaded out of its own snapshot"));
                self.cluster.reload(dice.below(2) == 0)?;
                self.begin_grace();
                Ok(())
            }
            9 => {
                self.note("cut off", format_args!("# the replica is cut off"));
                self.cluster.cut_off();
                Ok(())
            }
            10..=12 if self.cluster.lag().is_none() => {
                self.note("full sync", format_args!("# the replica gets a whole copy"));
                self.cluster.full_sync(dice.below(2) == 0)
            }
            13 => {
                self.note("rewrite", format_args!("# the AOF is written anew"));
                self.cluster.rewrite();
                Ok(())
            }
            14..=17 if self.setup.clocks_step => {
                self.set_clock(dice);
                Ok(())
            }
            _ => self.cluster.replicate(u64::MAX),
        }
    }

    fn note(&mut self, mark: &'static str, line: std::fmt::Arguments<'_>) {
        self.mark(mark);
        self.trace.say(line);
    }

    fn begin_grace(&mut self) {
        let (true_us, grace) = (self.cluster.true_us, self.setup.grace);
        self.cluster.primary.begin_grace(true_us, grace);
    }

    /// What is true after a part of the past was lost; and at once it is looked whether it is.
    fn go_on_with(&mut self, ledger: Ledger) -> Verdict {
        let lost = self.ledger.jobs.len().abs_diff(ledger.jobs.len());
        if lost > 0 {
            self.mark("jobs lost with a tail");
        }
        self.ledger = ledger;
        self.begin_grace();
        self.audit()
    }

    /// The primary dies and starts again.
    pub fn restart(&mut self, dice: &mut Dice) -> Verdict {
        self.note("restart", format_args!("# the primary dies and starts again from its files"));
        self.cluster.true_us += 1_000 + *dice.pick(&[0, 100_000, 3_000_000]);
        self.cluster.primary.forget_time();
        self.cluster.primary.hang_up();
        let ledger = self.cluster.restart(dice.below(2) == 0)?;
        self.go_on_with(ledger)
    }

    fn fail_over(&mut self, dice: &mut Dice) -> Verdict {
        let Some(lag) = self.cluster.lag() else { return Ok(()) };
        self.note("failover", format_args!("# the replica takes over, {lag} steps are lost"));
        self.cluster.true_us += 1_000 + *dice.pick(&[0, 500_000, 15_000_000]);
        self.cluster.primary.hang_up();
        let Some(ledger) = self.cluster.fail_over() else { return Ok(()) };
        self.go_on_with(ledger)
    }

    fn set_clock(&mut self, dice: &mut Dice) {
        let by = *dice.pick(&[30, 5_000, 1_200_000, 10_800_000]) * if dice.below(2) == 0 { 1 } else { -1 };
        let who = dice.below(2);
        let node = if who == 0 { &mut self.cluster.primary } else { &mut self.cluster.replica };
        node.offset_ms += by;
        node.drift_ppm = dice.below(100_000) as i64 - 50_000;
        self.note("clock set", format_args!("# the clock of {} is set by {by} ms", if who == 0 { "the primary" } else { "the replica" }));
    }
}
