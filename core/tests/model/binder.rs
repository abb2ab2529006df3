//! Which jobs, tokens and times a step is about: chosen from what there is when it runs.

use super::job::Token;
use super::op::{Again, Among, Binder, Id, Op, Plan, State, Twist};
use super::verbs::World;
use crate::support::START;

/// What there was so far, to choose from.
#[derive(Default)]
pub struct History {
    pub ids: Vec<Id>,
    pub leases: Vec<(Id, u64)>,
    /// What the last SCHEDULE said.
    said: Option<(Vec<u8>, Plan)>,
}

impl History {
    /// What is to be said again is what was said last.
    pub fn say_again(&mut self, op: &mut Op) {
        let Op::Schedule { name, plan, again } = op else { return };
        if let (Some(said), Again::Slots | Again::All) = (&self.said, &again) {
            let payload = plan.payload.clone();
            (*name, *plan) = said.clone();
            if *again == Again::Slots {
                plan.payload = payload;
            }
        }
        self.said = Some((name.clone(), plan.clone()));
    }
}

pub struct Choice<'a> {
    pub world: &'a World,
    pub history: &'a History,
}

fn pick<T: Copy>(from: &[T], pick: u16) -> Option<T> {
    from.get(usize::from(pick) % from.len().max(1)).copied()
}

impl Choice<'_> {
    fn among(&self, among: Among) -> Vec<Id> {
        let jobs = self.world.queue.as_ref().map_or(&[][..], |queue| &queue.jobs);
        let fits = |state: State| jobs.iter().filter(move |job| job.state == state).map(|job| job.id).collect();
        match among {
            Among::Ready => fits(State::Ready),
            Among::Delayed => fits(State::Delayed),
            Among::Leased => fits(State::Leased),
            Among::Dead => fits(State::Dead),
            Among::Done => fits(State::Done),
            Among::Late => jobs.iter().filter(|job| job.token_is == Token::Late).map(|job| job.id).collect(),
            Among::Spent => {
                jobs.iter().filter(|job| matches!(job.token_is, Token::Spent(..))).map(|job| job.id).collect()
            }
            Among::Ever => self.history.ids.clone(),
            Among::Unknown => Vec::new(),
        }
    }
}

impl Binder for Choice<'_> {
    fn id(&self, among: Among, which: u16) -> Id {
        let unknown = (START + u64::from(which), u32::from(which) + 1_000);
        if among == Among::Unknown {
            return unknown;
        }
        pick(&self.among(among), which).or_else(|| pick(&self.history.ids, which)).unwrap_or(unknown)
    }

    fn pair(&self, among: Among, which: u16, twist: Twist) -> (Id, u64) {
        let id = self.id(among, which);
        let tokens: Vec<u64> = self.history.leases.iter().filter(|lease| lease.0 == id).map(|lease| lease.1).collect();
        let last = tokens.last().copied().unwrap_or(START * 1_000);
        let token = match twist {
            Twist::Exact => last,
            Twist::OneMore => last + 1,
            Twist::OneLess => last - 1,
            Twist::Zero => 0,
            Twist::Older => pick(&tokens, which).unwrap_or(1),
        };
        (id, token)
    }

    fn time(&self, of_job: Option<u16>) -> u64 {
        let jobs = self.world.queue.as_ref().map_or(&[][..], |queue| &queue.jobs);
        let job = of_job.and_then(|which| jobs.get(usize::from(which) % jobs.len().max(1)));
        match job.map(|job| (job.state, job)) {
            None => self.world.now,
            Some((State::Dead, job)) => job.dead_at,
            Some((State::Leased, job)) => job.deadline,
            Some((_, job)) => job.place,
        }
    }
}
