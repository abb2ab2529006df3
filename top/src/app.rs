//! What is on the screen and what keys do. Knows neither the terminal nor the connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::model::{Info, Rates, Row, Sample, Totals};
use crate::server::{Failure, Redriven, Wish};
use crate::text::shown;

/// Over less time a rate would jump about: a key may bring a sample early.
const SHORTEST: Duration = Duration::from_millis(500);

/// What a key asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Quit,
    /// The queue, and how many are dead.
    Redrive(Vec<u8>, u64),
    Pause(Vec<u8>),
    Resume(Vec<u8>),
}

/// All that is shown.
#[derive(Debug, Default)]
pub struct App {
    /// The server's address.
    pub address: String,
    pub sample: Option<Sample>,
    rates: BTreeMap<Vec<u8>, Rates>,
    /// What the next rates count from.
    since: BTreeMap<Vec<u8>, (Instant, Totals)>,
    /// The name of the queue that keys are about.
    pub chosen: Option<Vec<u8>>,
    pub detail: bool,
    /// The first queue on the screen, and for how many there is room.
    pub first: usize,
    pub room: usize,
    /// What happens if the key is pressed again.
    pub pending: Option<Action>,
    /// What came of the last action.
    pub notice: String,
    /// Why what is shown is not of now.
    pub trouble: Option<Failure>,
}

impl App {
    pub fn new(address: String, chosen: Option<Vec<u8>>) -> App {
        App { address, detail: chosen.is_some(), chosen, ..App::default() }
    }

    /// What the next sample shall tell of.
    pub fn wish(&self) -> Wish {
        Wish { first: self.first, rows: self.room, chosen: self.chosen.clone(), detail: self.detail }
    }

    pub fn rows(&self) -> &[Row] {
        self.sample.as_ref().map_or(&[], |sample| &sample.rows)
    }

    /// The place of the chosen queue in the list, if it is there.
    pub fn place(&self) -> Option<usize> {
        self.rows().iter().position(|row| Some(&row.name) == self.chosen.as_ref())
    }

    pub fn info(&self, name: &[u8]) -> Option<&Info> {
        self.sample.as_ref()?.infos.get(name)
    }

    /// Takes a new sample, or why there is none: then the old one stays, marked.
    pub fn take(&mut self, sample: Result<Sample, Failure>) {
        let sample = match sample {
            Ok(sample) => sample,
            Err(failure) => {
                self.trouble = Some(failure);
                return;
            }
        };
        self.trouble = None;
        self.count(&sample);
        self.sample = Some(sample);
        if self.chosen.is_none() {
            self.chosen = self.rows().first().map(|row| row.name.clone());
        }
        self.scroll();
    }

    fn count(&mut self, sample: &Sample) {
        self.since.retain(|name, _| sample.infos.contains_key(name));
        self.rates.retain(|name, _| sample.infos.contains_key(name));
        for (name, info) in &sample.infos {
            let (at, before) = *self.since.entry(name.clone()).or_insert((sample.at, info.totals));
            let time = sample.at.saturating_duration_since(at);
            if time < SHORTEST {
                continue;
            }
            self.since.insert(name.clone(), (sample.at, info.totals));
            match Rates::between(&before, &info.totals, time) {
                Some(rates) => self.rates.insert(name.clone(), rates),
                None => self.rates.remove(name),
            };
        }
    }

    /// Known once two samples told of the queue.
    pub fn rates(&self, name: &[u8]) -> Option<&Rates> {
        self.rates.get(name)
    }

    /// How many rows of queues the screen has now.
    pub fn resize(&mut self, room: usize) {
        self.room = room;
        self.scroll();
    }

    /// Brings the chosen queue onto the screen.
    fn scroll(&mut self) {
        let last = self.rows().len().saturating_sub(self.room);
        let place = self.place().unwrap_or(self.first);
        let lowest = (place.saturating_add(1)).saturating_sub(self.room);
        self.first = self.first.min(place).max(lowest).min(last);
    }

    pub fn key(&mut self, key: KeyEvent) -> Option<Action> {
        let pending = self.pending.take();
        self.notice.clear();
        match key.code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(Action::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Enter => self.detail = !self.detail,
            // It cancels what is pending before it closes anything.
            KeyCode::Esc if pending.is_none() => self.detail = false,
            KeyCode::Char('r') => return self.ask(pending, App::redrive),
            KeyCode::Char('p') => return self.ask(pending, App::pause),
            _ => {}
        }
        None
    }

    /// The first press asks, the second one does it, if it is still about the same.
    fn ask(&mut self, pending: Option<Action>, action: impl FnOnce(&App) -> Result<Action, String>) -> Option<Action> {
        match action(self) {
            Err(text) => self.notice = text,
            Ok(action) => {
                let same = pending.as_ref().is_some_and(|asked| same(asked, &action));
                if same {
                    return pending;
                }
                self.pending = Some(action);
            }
        }
        None
    }

    fn redrive(&self) -> Result<Action, String> {
        let row = self.chosen_row()?;
        match row.dead {
            0 => Err(format!("{} has no dead jobs", shown(&row.name))),
            dead => Ok(Action::Redrive(row.name.clone(), dead)),
        }
    }

    fn pause(&self) -> Result<Action, String> {
        let name = &self.chosen_row()?.name;
        match self.info(name) {
            None => Err(format!("whether {} is paused is not known", shown(name))),
            Some(info) if info.paused_out.is_some() => Ok(Action::Resume(name.clone())),
            Some(_) => Ok(Action::Pause(name.clone())),
        }
    }

    fn chosen_row(&self) -> Result<&Row, String> {
        let row = self.place().and_then(|place| self.rows().get(place));
        row.ok_or_else(|| "choose a queue first".to_owned())
    }

    fn step(&mut self, by: isize) {
        let place = self.place().map_or(0, |place| place.saturating_add_signed(by));
        let place = place.min(self.rows().len().saturating_sub(1));
        if let Some(row) = self.rows().get(place) {
            self.chosen = Some(row.name.clone());
        }
        self.scroll();
    }

    /// What came of bringing jobs back, in the end or so far.
    pub fn redriven(&mut self, queue: &[u8], result: Result<Redriven, Failure>, done: bool) {
        self.notice = match result {
            Err(failure) => failure.text().to_owned(),
            Ok(Redriven { moved, skipped }) => {
                let skipped = match skipped {
                    0 => String::new(),
                    skipped => format!(", {skipped} stay: their dedup keys are other jobs' by now"),
                };
                let so_far = if done { "" } else { " so far" };
                format!("{}: {moved} dead jobs brought back{so_far}{skipped}", shown(queue))
            }
        };
    }

    /// What came of pausing or resuming.
    pub fn changed(&mut self, queue: &[u8], what: &str, result: Result<(), Failure>) {
        self.notice = match result {
            Err(failure) => failure.text().to_owned(),
            Ok(()) => format!("{} is {what}", shown(queue)),
        };
    }
}

/// Whether it is the same action on the same queue; numbers go on changing meanwhile.
fn same(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::Redrive(a, _), Action::Redrive(b, _)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(queues: &[(&str, u64)]) -> Sample {
        let row = |(name, dead): &(&str, u64)| Row { name: name.as_bytes().to_vec(), ready: 0, leased: 0, dead: *dead, oldest_ready_ms: None };
        Sample {
            at: Instant::now(), unix_ms: 0, rows: queues.iter().map(row).collect(),
            infos: queues.iter().map(|(name, _)| (name.as_bytes().to_vec(), Info::default())).collect(),
            detail: None, refused: None,
        }
    }

    fn app(queues: &[(&str, u64)]) -> App {
        let mut app = App::default();
        app.resize(3);
        app.take(Ok(sample(queues)));
        app
    }

    fn press(app: &mut App, code: KeyCode) -> Option<Action> {
        app.key(code.into())
    }

    #[test]
    fn choosing_scrolls() {
        let mut app = app(&[("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 0)]);
        assert_eq!((app.place(), app.first), (Some(0), 0));
        press(&mut app, KeyCode::Up);
        assert_eq!(app.place(), Some(0));
        for _ in 0..3 {
            press(&mut app, KeyCode::Down);
        }
        assert_eq!((app.place(), app.first), (Some(3), 1));
        for _ in 0..9 {
            press(&mut app, KeyCode::Char('j'));
        }
        assert_eq!((app.place(), app.first), (Some(4), 2));
        app.resize(2);
        assert_eq!(app.first, 3);
        for _ in 0..9 {
            press(&mut app, KeyCode::Char('k'));
        }
        assert_eq!((app.place(), app.first), (Some(0), 0));
    }

    #[test]
    fn the_choice_is_a_name_not_a_place() {
        let mut app = app(&[("b", 0), ("c", 0)]);
        press(&mut app, KeyCode::Down);
        app.take(Ok(sample(&[("a", 0), ("b", 0), ("c", 0)])));
        assert_eq!(app.place(), Some(2));
        app.take(Ok(sample(&[("a", 0)])));
        assert_eq!((app.place(), app.chosen.as_deref()), (None, Some(&b"c"[..])), "it may come back");
        assert_eq!(press(&mut app, KeyCode::Char('r')), None);
        assert_eq!(app.notice, "choose a queue first");
        press(&mut app, KeyCode::Down);
        assert_eq!(app.place(), Some(0));
    }

    #[test]
    fn dead_jobs_come_back_only_after_a_second_press() {
        let mut app = app(&[("a", 5), ("b", 0)]);
        let redrive = Action::Redrive(b"a".to_vec(), 5);
        assert_eq!(press(&mut app, KeyCode::Char('r')), None);
        assert_eq!(app.pending, Some(redrive.clone()));
        // More die meanwhile: what was asked for is done.
        app.take(Ok(sample(&[("a", 7), ("b", 0)])));
        assert_eq!(press(&mut app, KeyCode::Char('r')), Some(redrive));
        assert_eq!(app.pending, None);
        for other in [KeyCode::Esc, KeyCode::Down, KeyCode::Enter, KeyCode::Char('x')] {
            app.chosen = Some(b"a".to_vec());
            press(&mut app, KeyCode::Char('r'));
            assert_eq!(press(&mut app, other), None);
            assert_eq!(app.pending, None, "{other}");
        }
        app.chosen = Some(b"b".to_vec());
        assert_eq!(press(&mut app, KeyCode::Char('r')), None);
        assert_eq!((app.pending.as_ref(), app.notice.as_str()), (None, "b has no dead jobs"));
    }

    #[test]
    fn another_key_asks_its_own_question() {
        let mut app = app(&[("a", 5)]);
        press(&mut app, KeyCode::Char('r'));
        assert_eq!(press(&mut app, KeyCode::Char('p')), None);
        assert_eq!(press(&mut app, KeyCode::Char('p')), Some(Action::Pause(b"a".to_vec())));
        let mut paused = sample(&[("a", 5)]);
        paused.infos.get_mut(&b"a"[..]).unwrap().paused_out = Some(0);
        // Between the presses somebody else paused it: asked again.
        press(&mut app, KeyCode::Char('p'));
        app.take(Ok(paused));
        assert_eq!(press(&mut app, KeyCode::Char('p')), None);
        assert_eq!(press(&mut app, KeyCode::Char('p')), Some(Action::Resume(b"a".to_vec())));
    }

    #[test]
    fn what_came_of_it() {
        let mut app = app(&[("a", 5)]);
        app.redriven(b"a", Ok(Redriven { moved: 1000, skipped: 0 }), false);
        assert_eq!(app.notice, "a: 1000 dead jobs brought back so far");
        app.redriven(b"a", Ok(Redriven { moved: 4, skipped: 1 }), true);
        assert_eq!(app.notice, "a: 4 dead jobs brought back, 1 stay: their dedup keys are other jobs' by now");
        app.redriven(b"a", Err(Failure::Refused("NOPERM no".into())), true);
        assert_eq!(app.notice, "NOPERM no");
        app.changed(b"a", "paused", Ok(()));
        assert_eq!(app.notice, "a is paused");
        press(&mut app, KeyCode::Char('x'));
        assert_eq!(app.notice, "");
    }

    #[test]
    fn quitting() {
        let mut app = app(&[]);
        assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Action::Quit));
        assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(press(&mut app, KeyCode::Char('c')), None);
    }

    #[test]
    fn rates_are_of_at_least_half_a_second() {
        let mut app = App::default();
        let start = Instant::now();
        let mut take = |ms, pushed| {
            let mut next = sample(&[("a", 0)]);
            next.at = start + Duration::from_millis(ms);
            next.infos.get_mut(&b"a"[..]).unwrap().totals.pushed = pushed;
            app.take(Ok(next));
            app.rates(b"a").map(|rates| rates.pushed)
        };
        assert_eq!(take(0, 100), None);
        assert_eq!(take(100, 200), None, "too early");
        assert_eq!(take(1000, 200), Some(100.0));
        assert_eq!(take(1400, 900), Some(100.0), "still");
        assert_eq!(take(2000, 900), Some(700.0));
        assert_eq!(take(3000, 0), None, "another queue of that name");
        assert_eq!(take(4000, 5), Some(5.0));
    }
}
