//! Runs it on a terminal. The server is asked in a thread of its own, so that keys are obeyed
//! while it does not answer.

use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::DefaultTerminal;

use crate::app::{Action, App};
use crate::draw;
use crate::model::Sample;
use crate::server::{Failure, Redriven, Server, Wish};
use crate::EVERY;

/// How long a reply may wait to be drawn.
const TURN: Duration = Duration::from_millis(50);

/// What the thread is asked for.
enum Ask {
    Sample(Wish),
    Act(Action),
}

/// What it tells.
enum Told {
    Sample(Result<Sample, Failure>),
    /// In the end or so far.
    Redriven(Vec<u8>, Result<Redriven, Failure>, bool),
    /// Which queue is what.
    Changed(Vec<u8>, &'static str, Result<(), Failure>),
}

/// Shows the app until a key ends it.
pub fn run(server: Server, mut app: App) -> io::Result<()> {
    let (ask, asked) = channel();
    let (tell, told) = channel();
    std::thread::spawn(move || serve(server, &asked, &tell));
    let mut terminal = ratatui::try_init()?;
    let result = turns(&mut terminal, &mut app, &ask, &told);
    ratatui::try_restore()?;
    result
}

fn turns(terminal: &mut DefaultTerminal, app: &mut App, ask: &Sender<Ask>, told: &Receiver<Told>) -> io::Result<()> {
    // When the last sample was asked for; none is asked for while one is on its way.
    let mut asked_at: Option<Instant> = None;
    let mut waiting = false;
    // Receiver and sender end together with the thread, which ends only if it panicked.
    let gone = || io::Error::other("the connection's thread has ended");
    loop {
        terminal.draw(|frame| draw::draw(app, frame.area(), frame.buffer_mut()))?;
        // All keys that were pressed, then one picture.
        let mut wait = TURN;
        while event::poll(wait)? {
            wait = Duration::ZERO;
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let before = app.wish();
            match app.key(key) {
                Some(Action::Quit) => return Ok(()),
                Some(action) => ask.send(Ask::Act(action)).map_err(|_| gone())?,
                None => {}
            }
            if app.wish() != before {
                asked_at = None;
            }
        }
        for told in told.try_iter() {
            match told {
                Told::Sample(sample) => {
                    waiting = false;
                    app.take(sample);
                }
                Told::Redriven(queue, result, done) => app.redriven(&queue, result, done),
                Told::Changed(queue, what, result) => app.changed(&queue, what, result),
            }
        }
        if !waiting && asked_at.is_none_or(|at| at.elapsed() >= EVERY) {
            (waiting, asked_at) = (true, Some(Instant::now()));
            ask.send(Ask::Sample(app.wish())).map_err(|_| gone())?;
        }
    }
}

/// Does what is asked for until nobody listens any more.
fn serve(mut server: Server, asked: &Receiver<Ask>, tell: &Sender<Told>) {
    for ask in asked {
        let told = match ask {
            Ask::Sample(wish) => Told::Sample(server.sample(&wish)),
            Ask::Act(Action::Redrive(queue, dead)) => {
                let so_far = |sum| drop(tell.send(Told::Redriven(queue.clone(), Ok(sum), false)));
                let result = server.redrive(&queue, dead, so_far);
                Told::Redriven(queue, result, true)
            }
            Ask::Act(Action::Pause(queue)) => {
                let result = server.pause(&queue);
                Told::Changed(queue, "paused", result)
            }
            Ask::Act(Action::Resume(queue)) => {
                let result = server.resume(&queue);
                Told::Changed(queue, "resumed", result)
            }
            Ask::Act(Action::Quit) => return,
        };
        if tell.send(told).is_err() {
            return;
        }
    }
}
