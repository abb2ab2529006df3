//! HELP: the table of commands as lines to read.

use rq_core::table::{Command, COMMANDS};
use rq_core::Sink;

use crate::api::{Argv, Ctx};
use crate::sink::Reply;

/// Runs the command.
pub fn command(ctx: &Ctx, argv: &Argv<'_>) {
    let lines = match (argv.get(1), argv.len()) {
        (None, _) => all(),
        (Some(name), 2) => match find(name.bytes()) {
            Some(command) => of(command),
            None => return ctx.error(&format!("ERR there is no command {}: RQ.HELP shows all", rq_core::quote(name.bytes()))),
        },
        _ => return ctx.wrong_arity(),
    };
    let mut out = Reply(ctx);
    out.array(lines.len());
    lines.iter().for_each(|line| out.text(line));
}

/// A command by its name, with or without `RQ.`.
fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| {
        let short = command.name.strip_prefix("rq.").unwrap_or_default();
        [command.name, short].iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name))
    })
}

/// Each form of a command in a line.
fn usage(command: &Command) -> impl Iterator<Item = String> {
    let name = command.name.to_uppercase();
    command.syntax.split(" | key ").enumerate().map(move |(n, form)| {
        let key = if n == 0 { "" } else { "key " };
        format!("{name} {key}{form}")
    })
}

fn all() -> Vec<String> {
    let head = ["RQ: reliable job queues. RQ.HELP command tells more of one, RQ.DOCTOR what is wrong.".to_string()];
    let commands = COMMANDS.iter().flat_map(|command| usage(command).chain([format!("    {}", command.summary)]));
    head.into_iter().chain(commands).collect()
}

fn of(command: &Command) -> Vec<String> {
    let rest = [command.summary.into(), format!("Reply: {}", command.reply), format!("Cost: {}", command.complexity)];
    usage(command).chain(rest.into_iter().map(|line: String| format!("    {line}"))).collect()
}
