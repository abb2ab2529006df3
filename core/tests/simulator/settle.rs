//! What a token is good for: the table of the contract, for ACK, NACK, RELEASE, EXTEND.

use super::call::{Id, Pair};
use super::ledger::{rule, Claim, Ledger, State, Verb, Verdict};
use super::node::Ended;

impl Ledger {
    /// Retention may remove it at any time.
    pub fn may_be_dropped(&self, state: State) -> bool {
        let rules = &self.rules;
        match state {
            State::Done => rules.keep_done.is_some() || rules.keep_done_ms.is_some(),
            State::Dead(_) => rules.keep_dead.is_some() || rules.keep_dead_ms.is_some(),
            _ => false,
        }
    }

    /// A reply says that there is no such job; whether the ledger had one.
    fn missing(&mut self, id: Id, code: i64) -> Verdict<bool> {
        let there = self.job(id).map(|job| job.state);
        if self.just_dropped(id) {
            return Ok(true);
        }
        let Some(state) = there else {
            rule(code == -1, || format!("{id:?} is gone, but the code is {code}"))?;
            return Ok(true);
        };
        if code == -1 {
            rule(self.may_be_dropped(state), || format!("{id:?} is {state:?}, but the reply says it is gone"))?;
            self.jobs.get_mut(&id).expect("it is there").state = State::Gone;
            return Ok(true);
        }
        Ok(false)
    }

    /// What the token is good for; 0 if the token is not that of the last lease.
    fn claim(&mut self, (id, token): Pair) -> (Claim, State) {
        let job = self.job(id).expect("asked before");
        (if token == 0 || job.token != token { Claim::None } else { job.claim }, job.state)
    }

    pub fn ack(&mut self, pair: Pair, code: i64, now: u64) -> Verdict {
        let id = pair.0;
        if self.missing(id, code)? {
            return Ok(());
        }
        let (claim, _) = self.claim(pair);
        let expected = match claim {
            Claim::Open | Claim::Spent(Verb::Ack, _) => 1,
            _ => 0,
        };
        rule(code == expected, || format!("ACK of {pair:?} with a token that is {claim:?}: {code}"))?;
        if claim == Claim::Open {
            self.job(id).expect("it is there").claim = Claim::Spent(Verb::Ack, 1);
            let state = if self.rules.keeps_done() { State::Done } else { State::Gone };
            self.end(id, state, Ended::Done, now);
        }
        Ok(())
    }

    pub fn nack(&mut self, pair: Pair, code: i64, delay: Option<u64>, dead: bool, now: u64) -> Verdict {
        let id = pair.0;
        if self.missing(id, code)? {
            return Ok(());
        }
        let (claim, state) = self.claim(pair);
        let rules = self.rules.clone();
        let job = *self.job(id).expect("it is there");
        let spent = self.max_deliveries(&job) > 0 && job.deliveries >= self.max_deliveries(&job);
        let expected = match (claim, state) {
            (Claim::Open, State::Dead(_)) => 2,
            (Claim::Open, _) => if dead || spent { 2 } else { 1 },
            (Claim::Spent(Verb::Nack, code), _) => code,
            _ => 0,
        };
        rule(code == expected, || format!("NACK of {pair:?} with a token that is {claim:?}, {state:?}: {code}, not {expected}"))?;
        if claim != Claim::Open {
            return Ok(());
        }
        let job = self.job(id).expect("it is there");
        job.claim = Claim::Spent(Verb::Nack, code);
        job.failures += 1;
        job.all_failures += 1;
        match (state, code) {
            (State::Dead(_), _) => {}
            (_, 2) => self.bury(id, if dead { "rejected" } else { "failed" }, now),
            _ => {
                let (least, most) = delay.map_or_else(|| rules.backoff(job.failures), |delay| (delay, delay));
                job.waits(now, (now + least, now + most));
            }
        }
        Ok(())
    }

    pub fn release(&mut self, pair: Pair, code: i64, delay: u64, now: u64) -> Verdict {
        let id = pair.0;
        if self.missing(id, code)? {
            return Ok(());
        }
        let (claim, state) = self.claim(pair);
        let expected = match (claim, state) {
            (Claim::Open, State::Dead(_)) => 0,
            (Claim::Open | Claim::Spent(Verb::Release, _), _) => 1,
            _ => 0,
        };
        rule(code == expected, || format!("RELEASE of {pair:?} with a token that is {claim:?}, {state:?}: {code}"))?;
        if claim == Claim::Open && code == 1 {
            self.give_back(id, delay, now);
        }
        Ok(())
    }

    /// A delivery is not counted after all, nor is the expiry of it.
    pub fn give_back(&mut self, id: Id, delay: u64, now: u64) {
        let job = self.job(id).expect("it is there");
        if job.state == State::Waiting {
            job.expiries -= 1;
            job.all_expiries -= 1;
        }
        job.claim = Claim::Spent(Verb::Release, 1);
        job.deliveries -= 1;
        job.waits(now, (now + delay, now + delay));
        let (granted_at, group) = (job.delivered_at, job.options.group);
        let mut of = vec![None];
        of.extend(group.map(Some));
        for of in of {
            let grants = self.grants.entry(of).or_default();
            if let Some(place) = grants.iter().position(|at| *at == granted_at) {
                grants.remove(place);
            }
        }
    }

    pub fn extend(&mut self, pair: Pair, code: i64, lease: Option<u64>, now: u64) -> Verdict {
        let id = pair.0;
        if self.missing(id, code)? {
            return Ok(());
        }
        let (claim, state) = self.claim(pair);
        let (max_run, bars) = (self.rules.max_run, self.rules.bars());
        let job = self.job(id).expect("it is there");
        let end = if max_run > 0 { job.delivered_at + max_run } else { u64::MAX };
        let good = claim == Claim::Open && matches!(state, State::Leased | State::Waiting) && end > now;
        // A late one needs a place again, and there may be none.
        let may_fail = !good || (state == State::Waiting && bars);
        let fits = code == 1 && good || code == 0 && may_fail;
        rule(fits, || format!("EXTEND of {pair:?} with a token that is {claim:?}, {state:?}, delivered {}: {code}", job.delivered_at))?;
        if code == 0 {
            return Ok(());
        }
        if state == State::Waiting {
            job.expiries -= 1;
            job.all_expiries -= 1;
            job.fresh = false;
        }
        job.state = State::Leased;
        job.ready = false;
        job.deadline = (now + lease.unwrap_or(job.lease)).min(end);
        let length = job.deadline - now;
        let group = job.options.group;
        self.longest_lease = self.longest_lease.max(length);
        self.within_limits(group)
    }

    /// CONCURRENCY, GROUPLIMIT and GROUPORDER hold.
    pub fn within_limits(&self, group: Option<u8>) -> Verdict {
        let rules = &self.rules;
        let (all, of_group) = (self.leased_of(None), group.map_or(0, |group| self.leased_of(Some(group))));
        rule(rules.concurrency.is_none_or(|most| all <= most), || format!("{all} leases are out, CONCURRENCY is {:?}", rules.concurrency))?;
        rule(rules.group_limit.is_none_or(|most| of_group <= most), || format!("{of_group} of {group:?} are out, GROUPLIMIT is {:?}", rules.group_limit))?;
        rule(!rules.group_order || of_group <= 1, || format!("{of_group} of {group:?} are out, with GROUPORDER"))
    }
}
