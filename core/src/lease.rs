//! LEASE: which jobs, with which token, for how long.

use crate::canary::Fault;
use crate::choose::Choice;
use crate::clock::is_of_our_time;
use crate::effects::Run;
use crate::id::IdText;
use crate::job::Reason;
use crate::limits::{DUE_STEPS, MAX_STORED_TOKEN, MAX_TOKEN};
use crate::op::Op;
use crate::orders::back_since;
use crate::request::LeaseOptions;
use crate::sink::Sink;
use crate::view;

impl Run<'_, '_> {
    /// Leases up to COUNT jobs in order; `effects.granted` tells which.
    pub(crate) fn take(&mut self, consumer: &[u8], options: &LeaseOptions) {
        let now = self.now();
        self.effects.begin_granting();
        if let Some(groups) = self.queue.groups.there() {
            groups.wake(now);
        }
        let (mut bytes, mut passed_over) = (0u64, 0u32);
        while (self.effects.granted().len() as u64) < options.count && self.queue.barred(now).is_none() {
            let (id, slot) = match self.queue.choose(now) {
                None => break,
                Some(Choice::Job((_, _, id), slot)) => (id, slot),
                Some(Choice::Barred(group, why)) => {
                    self.queue.groups.park(group, why);
                    continue;
                }
            };
            let Some(job) = self.queue.jobs.get(slot) else { break };
            if job.ttl_at().is_some_and(|at| at <= now) {
                if passed_over >= DUE_STEPS {
                    break;
                }
                passed_over = passed_over.saturating_add(1);
                self.commit(&Op::Bury { id, reason: Reason::Ttl, error: None });
                continue;
            }
            bytes = bytes.saturating_add(job.size());
            if bytes > options.max_bytes && !self.effects.granted().is_empty() {
                break;
            }
            let lease_ms = match job.own_lease_ms {
                0 => options.lease_ms.unwrap_or(self.queue.head.policy.lease_ms()),
                own => own,
            };
            let waited_ms = now.saturating_sub(back_since(&job).unwrap_or(job.place));
            let token = self.next_token();
            if token <= self.queue.head.last_token {
                // 2^53 tokens are spent: only a forged snapshot gets here.
                break;
            }
            self.commit(&Op::Lease { id, token, lease_ms, consumer });
            self.effects.grant(id, token, slot);
            if is_of_our_time(token, now) {
                self.effects.saw_token(token);
            }
            self.effects.waited(waited_ms);
        }
        self.queue.names.saw(consumer, now);
    }

    /// Above every token before it, also those of a queue that was here before, and those that this
    /// node never saw, as far as clocks agree.
    fn next_token(&self) -> u64 {
        let by_clock = self.now().saturating_mul(1000).min(MAX_STORED_TOKEN);
        let by_clock = if Fault::TokensStartAnew.is_on() { 0 } else { by_clock };
        let last = if Fault::TokensStartAnew.is_on() { 0 } else { self.turn.last_token };
        self.queue.head.last_token.max(last).saturating_add(1).max(by_clock).min(MAX_TOKEN)
    }

    /// The reply of LEASE about `effects.granted`: null if it is empty.
    pub(crate) fn write_leases(&self, options: &LeaseOptions, out: &mut dyn Sink) {
        if self.effects.granted().is_empty() {
            out.null_array();
            return;
        }
        out.array(self.effects.granted().len());
        let mut text = IdText::new();
        for (id, token, slot) in self.effects.granted_jobs() {
            let Some(job) = self.queue.jobs.get(slot) else {
                out.null_array();
                continue;
            };
            out.array(if options.meta { 6 } else { 5 });
            out.bulk(id.write(&mut text));
            out.uint(token);
            out.uint(job.deliveries);
            out.bulk(job.payload);
            out.uint(job.lease_ms);
            if options.meta {
                view::write_job(self.queue, &job, false, out);
            }
        }
    }
}
