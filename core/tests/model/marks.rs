//! What was seen on the way, so that a run that saw too little can be told from one that passed.

use std::collections::BTreeMap;

use rq_core::Tree;

use super::job::Token;
use super::op::{Op, Side, State};
use super::run::Run;
use super::verbs::Expect;
use crate::support::{int, show};

/// How often what was seen.
pub type Marks = BTreeMap<String, u64>;

impl Run {
    pub fn mark(&mut self, what: String) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// What the first token of a command is good for at that moment, after the due work.
    pub fn standing(&self, op: &Op) -> Option<String> {
        let (Op::Ack { pairs, .. } | Op::Nack { pairs, .. } | Op::Release { pairs, .. } | Op::Extend { pairs, .. }) = op else {
            return None;
        };
        let mut queue = self.world.queue.clone()?;
        queue.make_slots(self.world.now, self.world.bar_slots);
        queue.due(self.world.now, !self.world.hold_expiry);
        let pair = pairs.first()?;
        let Some(job) = queue.job(pair.id) else { return Some("gone".to_string()) };
        Some(match (job.standing(pair.token), job.state) {
            (Token::Void, _) => "stale".to_string(),
            (Token::Live, _) => "live".to_string(),
            (Token::Late, State::Dead) => "late and dead".to_string(),
            (Token::Late, _) => "late".to_string(),
            (Token::Spent(verb, code), _) => format!("spent by {verb} {code}"),
        })
    }

    pub fn mark_reply(&mut self, op: &Op, standing: Option<String>, expected: &Expect) {
        let name = op.name();
        match (op, expected, standing) {
            (_, Expect::Reply(Tree::Array(codes)), Some(standing)) => {
                self.mark(format!("{name} {standing}: {}", show(&codes[0])));
            }
            (Op::ReapIds { .. } | Op::Reap { .. } | Op::ReapConsumer { .. }, Expect::Reply(Tree::Array(all)), _) => {
                for one in all {
                    let Tree::Array(one) = one else { continue };
                    self.mark(format!("{name}: {}", show(&one[1])));
                }
            }
            (Op::Redrive { .. }, Expect::Reply(Tree::Array(codes)), _) => self.mark(format!("{name}: {}", show(&codes[0]))),
            (Op::Pause { side: Side::Group(_), .. }, ..) => self.mark(format!("{name} GROUP")),
            (Op::Resume { side: Side::Group(_) }, Expect::Reply(code), _) => self.mark(format!("{name} GROUP: {}", show(code))),
            (Op::Schedule { .. }, Expect::Reply(Tree::Array(reply)), _) => self.mark(format!("{name}: {}", show(&reply[0]))),
            (Op::Groups { after, .. } | Op::Consumers { after, .. }, Expect::Reply(Tree::Array(rows)), _) => {
                let after = if after.is_some() { " AFTER" } else { "" };
                self.mark(format!("{name}{after}: {}", if rows.is_empty() { "none" } else { "some" }));
            }
            (Op::Push { dedup: Some(_), .. }, Expect::Reply(Tree::Array(reply)), _) => {
                self.mark(format!("PUSH: {}", ["dropped", "stored", "replaced", "held"][int(&reply[1]) as usize]));
            }
            (Op::RedriveMany(_), Expect::Reply(Tree::Array(all)), _) if int(&all[1]) > 0 => self.mark("skipped by a redrive".to_string()),
            (Op::RedriveMany(_), Expect::Reply(Tree::Array(all)), _) => self.mark(format!("{name}: more {}", show(&all[2]))),
            (Op::Wait { .. }, Expect::Reply(Tree::Array(end)), _) => self.mark(format!("{name}: {}", show(&end[0]).replace('"', ""))),
            (Op::Set { .. } | Op::Create { .. } | Op::Resume { .. } | Op::Unschedule { .. } | Op::Trim { .. } | Op::Wait { .. }, Expect::Reply(code), _) => self.mark(format!("{name}: {}", show(code))),
            (_, Expect::Page(_, more), _) => self.mark(format!("{name}: more {more}")),
            (_, Expect::Wait(_), _) => self.mark(format!("{name}: waits")),
            (_, Expect::Error(code), _) => self.mark(format!("{name}: {code}")),
            _ => self.mark(name.to_string()),
        }
        for event in &self.driver.events {
            *self.marks.entry(event.clone()).or_default() += 1;
        }
        if let Some(queue) = &self.world.queue {
            *self.marks.entry(format!("held: {}", queue.held(self.world.now))).or_default() += 1;
            for state in State::ALL {
                if queue.count(state) > 600 {
                    *self.marks.entry(format!("over 600 jobs {}", state.name())).or_default() += 1;
                }
            }
            for reason in ["failed", "expired-lease", "rejected", "ttl"] {
                if queue.jobs.iter().any(|job| job.reason == Some(reason) && job.state == State::Dead) {
                    *self.marks.entry(format!("dead: {reason}")).or_default() += 1;
                }
            }
        }
    }
}
