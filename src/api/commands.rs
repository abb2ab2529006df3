//! Commands: their functions, and what the server tells clients about them.

use std::ffi::{c_char, c_int, CString};
use std::marker::PhantomData;
use std::mem::size_of;

use redis_module::raw;
use rq_core::syntax::{self, Arg, Kind};
use rq_core::table::{Access, Command, Keys, COMMANDS};

use super::{guarded, log, Ctx, Level, Str};
use crate::run;

/// The arguments of a command, the name first.
pub struct Argv<'a> {
    all: &'a [*mut raw::RedisModuleString],
    life: PhantomData<Str<'a>>,
}

impl<'a> Argv<'a> {
    /// # Safety
    /// `argv` are `argc` strings that live as long as this is used.
    pub(super) unsafe fn from_raw(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Argv<'a> {
        let all = match usize::try_from(argc) {
            // SAFETY: the caller's promise.
            Ok(argc) if argc > 0 && !argv.is_null() => unsafe { std::slice::from_raw_parts(argv, argc) },
            _ => &[],
        };
        Argv { all, life: PhantomData }
    }

    /// How many, with the name.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Str<'a>> {
        // SAFETY: they are the server's, for as long as the command runs.
        self.all.get(at).and_then(|raw| unsafe { Str::from_raw(*raw) })
    }
}

/// The function of the `N`th command of the table. By its place, not by its name, which the
/// server's operator may have changed.
unsafe extern "C" fn command<const N: usize>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server lends the context for this call.
    let Some(ctx) = (unsafe { Ctx::from_raw(ctx) }) else { return raw::REDISMODULE_ERR as c_int };
    let finished = guarded(false, |node| {
        // SAFETY: the server passes `argc` strings, for this call.
        let argv = unsafe { Argv::from_raw(argv, argc) };
        if let Some(command) = COMMANDS.get(N) {
            if !tells_keys(&ctx, command, &argv) {
                run::command(node, &ctx, command, &argv);
            }
        }
        true
    });
    if !finished {
        // Part of a reply may be out already. Then the client sees this as one of its elements.
        ctx.error("ERR internal error, a bug in RQ: see the server's log");
    }
    raw::REDISMODULE_OK as c_int
}

/// Where the keys of a command are that does not have one in the first place, if that is all that
/// the server asks.
///
/// What `describe` says would be enough for ACLs and clients. But to find a command's slot, Redis
/// 7.0 and Valkey ask the command itself; unasked, it would run whatever slots its keys are in.
fn tells_keys(ctx: &Ctx, command: &Command, argv: &Argv<'_>) -> bool {
    // SAFETY: the context is valid.
    if !asks_for_keys(command.verb.keys()) || unsafe { f!(RedisModule_IsKeysPositionRequest)(ctx.as_ptr()) } == 0 {
        return false;
    }
    if let Keys::After(word) = command.verb.keys() {
        let is_word = |at: &usize| argv.get(*at).is_some_and(|arg| arg.bytes().eq_ignore_ascii_case(word.as_bytes()));
        let key = (1..argv.len()).find(is_word).and_then(|at| at.checked_add(1)).filter(|at| *at < argv.len());
        if let Some(at) = key.and_then(|at| c_int::try_from(at).ok()) {
            // SAFETY: the context is valid, and there is an argument at this place.
            unsafe { f!(RedisModule_KeyAtPos)(ctx.as_ptr(), at) };
        }
        return true;
    }
    let n = argv.get(1).and_then(|n| std::str::from_utf8(n.bytes()).ok()?.parse::<c_int>().ok());
    let end = n.and_then(|n| n.checked_add(2)).filter(|end| usize::try_from(*end).is_ok_and(|end| end <= argv.len()));
    for at in 2..end.unwrap_or(0) {
        // SAFETY: the context is valid, and there is an argument at this place.
        unsafe { f!(RedisModule_KeyAtPos)(ctx.as_ptr(), at) };
    }
    true
}

/// Whether the server has to ask where the keys are.
fn asks_for_keys(keys: Keys) -> bool {
    matches!(keys, Keys::Numbered | Keys::After(_))
}

macro_rules! functions {
    ($($n:literal)*) => {
        /// A function for every place in the table, and some to spare.
        const FUNCTIONS: &[unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int]
            = &[$(command::<$n>),*];
    };
}

functions! {
     0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19
    20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
}

/// Registers all commands of the table.
///
/// # Errors
/// Which one the server refused.
pub fn create_commands(ctx: &Ctx) -> Result<(), String> {
    let own_category = add_category(ctx);
    for (n, entry) in COMMANDS.iter().enumerate() {
        let function = FUNCTIONS.get(n).ok_or("more commands than functions for them: extend FUNCTIONS")?;
        let name = CString::new(entry.name).map_err(|_| "a NUL in a name")?;
        // Keys that are numbered are told of by `describe` and `tells_keys`.
        let (first, last, step) = if entry.verb.keys() == Keys::First { (1, 1, 1) } else { (0, 0, 0) };
        let more = if asks_for_keys(entry.verb.keys()) { " getkeys-api" } else { "" };
        let flags = CString::new(format!("{}{more}", entry.flags)).map_err(|_| "a NUL in flags")?;
        // SAFETY: the context is valid, the strings end with NUL and are copied.
        let result = unsafe {
            f!(RedisModule_CreateCommand)(ctx.as_ptr(), name.as_ptr(), Some(*function), flags.as_ptr(), first, last, step)
        };
        if result != 0 {
            return Err(format!("the server refuses the command {}: is there another module that has it?", entry.name));
        }
        // SAFETY: the context is valid, the name ends with NUL.
        let created = unsafe { f!(RedisModule_GetCommand)(ctx.as_ptr(), name.as_ptr()) };
        if created.is_null() {
            return Err(format!("the server does not find the command {}", entry.name));
        }
        // Documentation that is refused is not worth failing for.
        if !describe(created, entry) {
            log(Level::Warning, &format!("the server refuses the documentation of {}", entry.name));
        }
        // SAFETY: the command was found above.
        unsafe { categorize(created, entry, own_category) };
    }
    Ok(())
}

/// Adds the access category `rq`, if the server has categories of modules (7.4).
fn add_category(ctx: &Ctx) -> bool {
    // SAFETY: it is only read; the context is valid and the name ends with NUL.
    unsafe { raw::RedisModule_AddACLCategory.is_some_and(|add| add(ctx.as_ptr(), c"rq".as_ptr()) == 0) }
}

/// Puts a command into its access categories, where the server lets modules do so (7.2). They do
/// not follow from a module's flags, so they are given as the server does for its own commands.
///
/// # Safety
/// `created` is a command that is being registered.
unsafe fn categorize(created: *mut raw::RedisModuleCommand, entry: &Command, own_category: bool) {
    // SAFETY: it is only read.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else { return };
    let mut categories = String::from(if own_category { "rq" } else { "" });
    let mut speed = " slow";
    for flag in entry.flags.split(' ') {
        categories.push_str(match flag {
            "write" => " write",
            "readonly" => " read",
            "blocking" => " blocking",
            "admin" => " admin dangerous",
            _ => "",
        });
        if flag == "fast" {
            speed = " fast";
        }
    }
    categories.push_str(speed);
    let text = CString::new(categories.trim_start()).unwrap_or_default();
    // SAFETY: the command is valid, and the text ends with NUL.
    if unsafe { set(created, text.as_ptr()) } != 0 {
        log(Level::Warning, &format!("the server refuses the access categories of {}", entry.name));
    }
}

/// Tells the server what `COMMAND DOCS` and `COMMAND INFO` shall say.
fn describe(created: *mut raw::RedisModuleCommand, entry: &Command) -> bool {
    let args = match syntax::parse(entry.syntax) {
        Ok(args) => args,
        Err(why) => {
            log(Level::Warning, &format!("the syntax of {}: {why}", entry.name));
            Vec::new()
        }
    };
    let mut texts = Texts::default();
    let mut args = Args::new(&args, &mut texts);
    let access = match entry.access {
        Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        Access::Insert => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
        Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
        Access::ReadWrite => {
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
        }
    };
    // SAFETY: both are structures of numbers and pointers, for which all zeros is "not given".
    let (mut keys, mut info) = unsafe {
        (std::mem::zeroed::<[raw::RedisModuleCommandKeySpec; 2]>(), std::mem::zeroed::<raw::RedisModuleCommandInfo>())
    };
    // The second one stays zero: it ends the list.
    let [key, _] = &mut keys;
    key.flags = access.into();
    key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    key.bs.index.pos = 1;
    match entry.verb.keys() {
        Keys::First => {
            key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
            key.fk.range.lastkey = 0;
            key.fk.range.keystep = 1;
            key.fk.range.limit = 0;
        }
        Keys::Numbered => {
            key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            key.fk.keynum.keynumidx = 0;
            key.fk.keynum.firstkey = 1;
            key.fk.keynum.keystep = 1;
        }
        Keys::After(word) => {
            key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            key.bs.keyword.keyword = texts.keep(word);
            key.bs.keyword.startfrom = 1;
            key.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
            key.fk.range.lastkey = 0;
            key.fk.range.keystep = 1;
            key.fk.range.limit = 0;
        }
        // Nothing: the list ends at once.
        Keys::None => {
            key.flags = 0;
            key.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INVALID;
        }
    }
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    info.version = &version;
    info.summary = texts.keep(entry.summary);
    info.complexity = texts.keep(entry.complexity);
    info.since = texts.keep(env!("CARGO_PKG_VERSION"));
    info.arity = entry.arity;
    if entry.verb.keys() != Keys::None {
        info.key_specs = keys.as_mut_ptr();
    }
    info.args = args.as_mut_ptr();
    // SAFETY: the command is valid; everything `info` points to lives until here and is copied.
    unsafe { f!(RedisModule_SetCommandInfo)(created, &info) == 0 }
}


/// C strings that live as long as this.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn keep(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text).unwrap_or_default();
        // The characters stay where they are when the vector moves the `CString`.
        let start = text.as_ptr();
        self.0.push(text);
        start
    }
}

/// Arguments as the server wants them: a list that ends with an empty one. Inner lists live in
/// `below`, whose buffers stay where they are.
struct Args {
    list: Vec<raw::RedisModuleCommandArg>,
    below: Vec<Args>,
}

impl Args {
    fn new(args: &[Arg], texts: &mut Texts) -> Args {
        let mut made = Args { list: Vec::with_capacity(args.len().saturating_add(1)), below: Vec::new() };
        for arg in args {
            let one = made.convert(arg, texts);
            made.list.push(one);
        }
        // SAFETY: numbers and pointers, for which all zeros is the end of the list.
        made.list.push(unsafe { std::mem::zeroed() });
        made
    }

    fn convert(&mut self, arg: &Arg, texts: &mut Texts) -> raw::RedisModuleCommandArg {
        // SAFETY: numbers and pointers, for which all zeros is "not given".
        let mut one: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
        one.name = texts.keep(&arg.name);
        one.key_spec_index = -1;
        one.type_ = match &arg.kind {
            Kind::Key => {
                one.key_spec_index = 0;
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
            }
            Kind::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            Kind::UnixTime => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
            Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            Kind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            Kind::Block(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        };
        if let Some(keyword) = &arg.keyword {
            one.token = texts.keep(keyword);
        }
        let optional = if arg.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
        let multiple = if arg.multiple { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
        one.flags = (optional | multiple) as c_int;
        if let Kind::OneOf(inner) | Kind::Block(inner) = &arg.kind {
            let mut inner = Args::new(inner, texts);
            one.subargs = inner.as_mut_ptr();
            self.below.push(inner);
        }
        one
    }

    fn as_mut_ptr(&mut self) -> *mut raw::RedisModuleCommandArg {
        self.list.as_mut_ptr()
    }
}
