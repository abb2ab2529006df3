//! The command line.

use std::ffi::OsString;

use lexopt::prelude::*;
use redis::{ConnectionInfo, IntoConnectionInfo};

pub const HELP: &str = "\
A live view of RQ's queues on one server.

    rq-top [URL] [--queue NAME] [--once]

URL           redis://[user:password@]host[:port][/db], by default $REDIS_URL, else
              redis://127.0.0.1:6379; $REDISCLI_AUTH is the password if the URL has none
--queue NAME  show this queue's workers and dead jobs
--once        print one picture as text, after a second, for the rates; exit code 1 if it can't
--help, --version

Keys: up and down choose a queue, Enter shows its workers and newest dead jobs; r brings its dead
jobs back, p pauses or resumes leasing from it (both ask once: press again); q quits.

What the user may not do, the server refuses. To look on: +rq.queues +rq.info +rq.consumers
+rq.peek and %R~ on the keys; r needs +rq.redrive, p +rq.pause +rq.resume, both %W~.
";

/// What to do.
#[derive(Debug)]
pub enum Task {
    Help,
    Version,
    Watch(Options),
}

/// What to watch.
#[derive(Debug)]
pub struct Options {
    pub server: ConnectionInfo,
    pub queue: Option<Vec<u8>>,
    pub once: bool,
}

/// Reads the command line and the environment.
pub fn read(args: impl IntoIterator<Item = OsString>, env: impl Fn(&str) -> Option<String>) -> Result<Task, String> {
    let (mut url, mut queue, mut once) = (None, None, false);
    let mut parser = lexopt::Parser::from_iter(args);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(Task::Help),
            Long("version") | Short('V') => return Ok(Task::Version),
            Long("once") => once = true,
            Long("queue") => {
                let name = parser.value().map_err(|error| error.to_string())?;
                queue = Some(std::os::unix::ffi::OsStringExt::into_vec(name));
            }
            Value(value) if url.is_none() => url = Some(value.string().map_err(|error| error.to_string())?),
            _ => return Err(arg.unexpected().to_string()),
        }
    }
    let url = url.or_else(|| env("REDIS_URL")).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    // The URL itself is not told: it may have a password in it.
    let server = url.as_str().into_connection_info().map_err(|error| {
        format!("no address of a server, redis://[user:password@]host[:port][/db]: {error}")
    })?;
    Ok(Task::Watch(Options { server: with_password(server, env("REDISCLI_AUTH")), queue, once }))
}

fn with_password(server: ConnectionInfo, password: Option<String>) -> ConnectionInfo {
    let settings = server.redis_settings();
    match password {
        Some(password) if settings.password().is_none() => {
            let settings = settings.clone().set_password(password);
            server.set_redis_settings(settings)
        }
        _ => server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(args: &[&str], env: &[(&str, &str)]) -> Result<Options, String> {
        let env = |name: &str| env.iter().find(|(each, _)| *each == name).map(|(_, value)| (*value).to_owned());
        let program = std::iter::once("rq-top").chain(args.iter().copied());
        match read(program.map(OsString::from), env)? {
            Task::Watch(options) => Ok(options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_address_comes_from_the_line_the_environment_or_neither() {
        let at = |args, env| watch(args, env).unwrap().server.addr().to_string();
        let env = [("REDIS_URL", "redis://there:7000")];
        assert_eq!(at(&[], &[]), "127.0.0.1:6379");
        assert_eq!(at(&[], &env), "there:7000");
        assert_eq!(at(&["redis://here:1"], &env), "here:1");
    }

    #[test]
    fn the_user_the_password_and_the_database() {
        let url = "redis://me:secret@h:1/5";
        let server = watch(&[url], &[("REDISCLI_AUTH", "other")]).unwrap().server;
        let settings = server.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("me"), Some("secret"), 5));
        let server = watch(&["redis://me@h"], &[("REDISCLI_AUTH", "other")]).unwrap().server;
        let settings = server.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("me"), Some("other")));
    }

    #[test]
    fn options_and_mistakes() {
        let options = watch(&["--once", "--queue", "a b"], &[]).unwrap();
        assert!(options.once);
        assert_eq!(options.queue.as_deref(), Some(&b"a b"[..]));
        for (args, error) in [
            (&["--onc"][..], "invalid option '--onc'"),
            (&["redis://a", "redis://b"], "unexpected argument \"redis://b\""),
            (&["--queue"], "missing argument for option '--queue'"),
            (&["nowhere"], "no address of a server"),
        ] {
            let told = watch(args, &[]).unwrap_err();
            assert!(told.starts_with(error), "{told}");
        }
        let told = watch(&["http://me:secret@h"], &[]).unwrap_err();
        assert!(!told.contains("secret"), "{told}");
    }
}
