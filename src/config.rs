//! The options `rq.*`, and the arguments of `loadmodule`.

use std::cell::{Cell, RefCell};

use rq_core::table::Verb;
use rq_core::{Policy, Request};

use crate::api::{Argv, Ctx, OwnedStr, Setting, Value};
use crate::node::Node;
use crate::{api, guard, timer};

/// The values of the options that are read elsewhere.
#[derive(Default)]
pub struct Options {
    /// `rq.eviction-guard`, see [`guard`].
    pub eviction_guard: Cell<i64>,
    /// `rq.accept-apply`: whether RQ.APPLY is taken from clients.
    pub accept_apply: Cell<bool>,
    /// `rq.max-payload`: the longest payload that is taken, in bytes.
    pub max_payload: Cell<usize>,
    /// `rq.tick-budget`: how long the timer may work at once, in µs.
    pub tick_us: Cell<u64>,
    /// `rq.defaults`: the options of queues that are made, as they were given.
    defaults: RefCell<Box<[u8]>>,
    /// The same, if there are any.
    policy: RefCell<Option<Box<Policy>>>,
    /// The text that the server was shown last.
    pub shown: Cell<Option<OwnedStr>>,
    /// Loaded with `test-hooks yes`.
    pub test_hooks: Cell<bool>,
}

impl Options {
    /// The policy that a new queue begins with; None: the built-in one.
    pub fn policy(&self) -> Option<Box<Policy>> {
        self.policy.borrow().clone()
    }
}

/// The options; their places are what [`get`] and [`set`] go by.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: c"expiry-grace",
        value: Value::Number { default: 10_000, low: 0, high: 3_600_000 },
        hidden: false,
    },
    Setting {
        name: c"eviction-guard",
        value: Value::Word { default: guard::default, words: guard::WORDS },
        hidden: false,
    },
    Setting { name: c"accept-apply", value: Value::Bool { default: false }, hidden: false },
    Setting {
        name: c"max-payload",
        value: Value::Number { default: MAX_PAYLOAD, low: 1, high: MAX_PAYLOAD },
        hidden: false,
    },
    Setting {
        name: c"test-clock-offset",
        value: Value::Number { default: 0, low: -MAX_OFFSET_MS, high: MAX_OFFSET_MS },
        hidden: true,
    },
    Setting {
        name: c"tick-budget",
        value: Value::Number { default: 1_000, low: 100, high: 100_000 },
        hidden: false,
    },
    Setting { name: c"defaults", value: Value::Text { default: c"" }, hidden: false },
];

/// What the core can store at the most.
const MAX_PAYLOAD: i64 = rq_core::MAX_PAYLOAD as i64;
/// A century.
const MAX_OFFSET_MS: i64 = 3_155_760_000_000;

/// The value of the option in this place.
pub fn get(node: &Node, place: usize) -> i64 {
    match place {
        0 => i64::try_from(node.time.grace_ms()).unwrap_or(i64::MAX),
        1 => node.options.eviction_guard.get(),
        2 => node.options.accept_apply.get().into(),
        3 => i64::try_from(node.options.max_payload.get()).unwrap_or(i64::MAX),
        4 => node.time.offset_ms(),
        5 => i64::try_from(node.options.tick_us.get()).unwrap_or(i64::MAX),
        _ => 0,
    }
}

/// Sets the option in this place.
///
/// # Errors
/// Why not.
pub fn set(node: &Node, place: usize, value: i64) -> Result<(), &'static str> {
    match place {
        0 => node.time.set_grace_ms(u64::try_from(value).unwrap_or(0)),
        1 if value == guard::RESCUE && !api::can_rescue() => {
            return Err("this server cannot put evicted queues back: rescue needs Redis 7.2.4 or Valkey 8.0. Use refuse");
        }
        1 => node.options.eviction_guard.set(value),
        2 => node.options.accept_apply.set(value != 0),
        3 => node.options.max_payload.set(usize::try_from(value).unwrap_or(0)),
        4 if value != 0 && !node.options.test_hooks.get() => {
            return Err("this is for tests: the module must be loaded with the argument 'test-hooks yes'");
        }
        4 => node.time.set_offset_ms(value),
        5 => node.options.tick_us.set(u64::try_from(value).unwrap_or(0)),
        _ => return Err("no such option"),
    }
    Ok(())
}

/// The text of the option in this place.
pub fn get_text(node: &Node, place: usize) -> Box<[u8]> {
    match place {
        6 => node.options.defaults.borrow().clone(),
        _ => Box::default(),
    }
}

/// Sets the text of the option in this place.
///
/// # Errors
/// Why not.
pub fn set_text(node: &Node, place: usize, text: &[u8]) -> Result<(), String> {
    if place != 6 {
        return Err("no such option".into());
    }
    let words: Vec<&[u8]> = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let request = rq_core::parse(Verb::Create, &words);
    let settings = match request.map_err(|error| error.to_string())? {
        Request::Create { settings } => settings,
        _ => return Err("no options of RQ.CREATE".into()),
    };
    let policy = (!settings.is_empty()).then(|| {
        let mut policy = Policy::default();
        settings.into_iter().for_each(|setting| policy.set(setting));
        Box::new(policy)
    });
    node.options.policy.replace(policy);
    node.options.defaults.replace(text.into());
    Ok(())
}

/// An option was set: the clock may show something else now.
pub fn changed(node: &Node, ctx: &Ctx) {
    timer::rearm(node, ctx);
}

/// Reads the arguments of `loadmodule`.
///
/// # Errors
/// What cannot be understood.
pub fn read_arguments(node: &Node, argv: &Argv<'_>) -> Result<(), String> {
    let mut at = 0;
    while let Some(name) = argv.get(at) {
        let value = argv.get(at + 1).map(|value| value.bytes().to_ascii_lowercase());
        match (name.bytes().to_ascii_lowercase().as_slice(), value.as_deref()) {
            (b"test-hooks", Some(b"yes")) => node.options.test_hooks.set(true),
            (b"test-hooks", Some(b"no")) => node.options.test_hooks.set(false),
            (b"test-hooks", _) => return Err("test-hooks takes yes or no".into()),
            (name, _) => {
                return Err(format!(
                    "unknown argument {}: the only one is 'test-hooks yes|no'; options such as rq.expiry-grace \
                     stand in the server's configuration file",
                    rq_core::quote(name),
                ))
            }
        }
        at += 2;
    }
    Ok(())
}
