//! ACK, NACK, RELEASE, EXTEND, REAP, REDRIVE, SET on the reference.

use rq_core::Tree;

use super::job::Token;
use super::op::{id_text, Id, State};
use super::queue::{End, Reference};

impl Reference {
    pub fn ack(&mut self, now: u64, id: Id, token: u64, result: Option<&[u8]>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        match self.jobs[n].standing(token) {
            Token::Live | Token::Late => {
                self.totals.acked += 1;
                if self.policy.keep_done.contains(&Some(0)) {
                    self.notes.ended.push((id, End::Done(None)));
                    self.remove(id);
                    self.ended(now, id, false);
                    return 1;
                }
                self.totals.kept += 1;
                let job = &mut self.jobs[n];
                job.state = State::Done;
                job.done_at = now;
                job.result = result.unwrap_or_default().to_vec();
                job.reason = None;
                job.token_is = Token::Spent("ack", 1);
                let result = job.result.clone();
                self.notes.ended.push((id, End::Done(Some(result))));
                self.settle_turns();
                self.ended(now, id, false);
                1
            }
            Token::Spent("ack", code) => code,
            Token::Void | Token::Spent(..) => 0,
        }
    }

    pub fn nack(&mut self, now: u64, id: Id, token: u64, delay: Option<u64>, error: Option<&[u8]>, dead: bool) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        match self.jobs[n].standing(token) {
            Token::Spent("nack", code) => return code,
            Token::Void | Token::Spent(..) => return 0,
            Token::Live | Token::Late => {}
        }
        self.totals.failed += 1;
        let policy = self.policy.clone();
        let job = &mut self.jobs[n];
        job.failures += 1;
        job.budget_failures += 1;
        if let Some(error) = error {
            job.error = error[..error.len().min(1_024)].to_vec();
        }
        let attempt = job.budget_failures;
        let code = if job.state == State::Dead {
            2
        } else if dead {
            self.bury(n, now, "rejected");
            2
        } else if job.deliveries_are_spent(&policy) {
            self.bury(n, now, "failed");
            2
        } else {
            match delay {
                Some(delay) => self.wait(n, now, now + delay),
                None => self.back_off(n, now, attempt),
            }
            1
        };
        self.jobs[n].token_is = Token::Spent("nack", code);
        code
    }

    pub fn release(&mut self, now: u64, id: Id, token: u64, delay: Option<u64>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        let job = &mut self.jobs[n];
        match job.standing(token) {
            Token::Spent("release", code) => return code,
            Token::Void | Token::Spent(..) => return 0,
            Token::Live | Token::Late if job.state == State::Dead => return 0,
            Token::Live => {}
            Token::Late => {
                job.expiries -= 1;
                job.budget_expiries -= 1;
            }
        }
        // Its grant does not count after all.
        let (granted, group) = (job.last_delivered, job.group.clone());
        let of_group = group.and_then(|name| self.groups.get_mut(&name)).map(|group| &mut group.grants);
        for grants in of_group.into_iter().chain([&mut self.grants]) {
            if let Some(grant) = grants.iter().position(|at| Some(*at) == granted) {
                grants.remove(grant);
            }
        }
        let job = &mut self.jobs[n];
        job.deliveries -= 1;
        job.total_deliveries -= 1;
        job.releases += 1;
        job.token_is = Token::Spent("release", 1);
        // One that expiry had put back already has been ready since then.
        let since = job.ready_since;
        let was_back = job.state == State::Ready && since > job.place;
        match delay.unwrap_or(0) {
            0 => self.put_back(n, now),
            delay => self.wait(n, now, now + delay),
        }
        if was_back && self.jobs[n].state == State::Ready {
            self.jobs[n].ready_since = since;
        }
        self.totals.released += 1;
        1
    }

    pub fn release_consumer(&mut self, now: u64, consumer: &[u8]) -> i64 {
        let held: Vec<(Id, u64)> = self.listed(State::Leased).iter()
            .filter(|job| job.consumer.as_deref() == Some(consumer))
            .map(|job| (job.id, job.token))
            .collect();
        held.into_iter().map(|(id, token)| self.release(now, id, token, None)).sum()
    }

    pub fn extend(&mut self, now: u64, id: Id, token: u64, lease: Option<u64>) -> i64 {
        let max_run = self.policy.max_run;
        let Some(n) = self.find(id) else { return -1 };
        let standing = self.jobs[n].standing(token);
        if !matches!(standing, Token::Live | Token::Late) || self.jobs[n].state == State::Dead {
            return 0;
        }
        if standing == Token::Late && !self.has_place_again(n) {
            return 0;
        }
        let job = &mut self.jobs[n];
        let mut deadline = now + lease.unwrap_or(job.lease_ms);
        if max_run > 0 {
            let end = job.last_delivered.unwrap_or(0) + max_run;
            if now >= end {
                return 0;
            }
            deadline = deadline.min(end);
        }
        if standing == Token::Late {
            job.expiries -= 1;
            job.budget_expiries -= 1;
            job.state = State::Leased;
            job.token_is = Token::Live;
            job.drawn = None;
        }
        job.deadline = deadline;
        self.longest_lease = self.longest_lease.max(deadline - now);
        self.settle_turns();
        1
    }

    pub fn reap(&mut self, now: u64, ids: &[Id]) -> Tree {
        let mut reply = Vec::new();
        for &id in ids {
            let Some(n) = self.find(id).filter(|&n| self.jobs[n].state == State::Leased) else { continue };
            self.expire(n, now);
            let job = &self.jobs[n];
            reply.push(Tree::Array(vec![
                Tree::Bulk(id_text(id)),
                Tree::Bulk(job.state.name().into()),
                Tree::Int(job.deliveries as i64),
                Tree::Bulk(job.consumer.clone().unwrap_or_default()),
            ]));
        }
        Tree::Array(reply)
    }

    pub fn redrive(&mut self, now: u64, id: Id, due: u64, priority: Option<i8>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        if self.jobs[n].state != State::Dead {
            return 0;
        }
        if self.key_is_taken(id, now) {
            return -2;
        }
        let job = &mut self.jobs[n];
        job.priority = priority.unwrap_or(job.priority);
        (job.deliveries, job.budget_failures, job.budget_expiries) = (0, 0, 0);
        job.redrives += 1;
        job.token_is = Token::Void;
        job.first_due = due;
        self.totals.redriven += 1;
        self.wait(n, now, due);
        self.take_key_back(id, now);
        1
    }

    pub fn set(&mut self, now: u64, id: Id, priority: Option<i8>, due: Option<u64>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        if !self.jobs[n].waits() {
            return 0;
        }
        let job = &mut self.jobs[n];
        job.priority = priority.unwrap_or(job.priority);
        let delayed = job.state == State::Delayed;
        if let Some(due) = due.filter(|&due| if delayed { due != job.place } else { due > now }) {
            if job.total_deliveries == 0 {
                job.first_due = due;
            }
            self.wait(n, now, due);
        }
        self.settle_turns();
        1
    }
}
