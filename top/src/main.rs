//! rq-top: a live view of RQ's queues on one server. `rq-top --help` tells how it is used.
//!
//! [`args`] reads the command line, [`server`] asks the server in a thread of its own, [`model`]
//! understands its replies, [`app`] knows what is shown and what keys do, [`draw`] draws that, and
//! [`live`] runs it on a terminal.

mod app;
mod args;
mod draw;
mod live;
mod model;
mod newest;
mod server;
mod text;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use app::App;
use args::{Options, Task};
use server::{Server, Wish};

/// How long from one sample to the next.
const EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("rq-top: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    match args::read(std::env::args_os(), |name| std::env::var(name).ok())? {
        Task::Help => print(args::HELP),
        Task::Version => print(concat!("rq-top ", env!("CARGO_PKG_VERSION"), "\n")),
        Task::Watch(options) => watch(options),
    }
}

fn watch(options: Options) -> Result<(), String> {
    let address = format!("{}/{}", options.server.addr(), options.server.redis_settings().db());
    let mut app = App::new(text::shown(address.as_bytes()), options.queue);
    let mut server = Server::new(options.server).map_err(|failure| failure.text().to_owned())?;
    // Before the terminal is taken: whoever mistypes the address sees why nothing comes.
    let all = Wish { rows: usize::MAX, ..app.wish() };
    let first = server.sample(&if options.once { all.clone() } else { app.wish() });
    app.take(Ok(first.map_err(|failure| format!("{}: {}", app.address, failure.text()))?));
    if !options.once {
        return live::run(server, app).map_err(|error| error.to_string());
    }
    std::thread::sleep(EVERY);
    app.take(server.sample(&all));
    print(&draw::picture(&mut app))?;
    match app.trouble {
        None => Ok(()),
        Some(failure) => Err(failure.text().to_owned()),
    }
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}
