//! The operations that both queues are given, and how a client spells them.

/// A job id as numbers.
pub type Id = (u64, u32);

pub fn id_text(id: Id) -> Vec<u8> {
    format!("{}-{}", id.0, id.1).into_bytes()
}

/// A choice of one job, made before it is known which jobs there will be.
#[derive(Debug, Clone)]
pub struct IdPick {
    pub among: Among,
    pub pick: u16,
    pub id: Id,
}

/// A choice of an id and a token, right or wrong.
#[derive(Debug, Clone)]
pub struct PairPick {
    pub among: Among,
    pub pick: u16,
    pub twist: Twist,
    pub id: Id,
    pub token: u64,
}

/// Which jobs a choice is made from; if there is none, from all that ever were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    Ready,
    Delayed,
    Leased,
    /// Expired, and not leased again.
    Late,
    /// The token was spent, and the job is still there.
    Spent,
    Dead,
    Done,
    Ever,
    Unknown,
}

/// What is done to a token on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    Exact,
    OneMore,
    OneLess,
    Zero,
    /// The token of an earlier delivery of the same job.
    Older,
}

/// A point in time, until it is bound a distance from now, or from a time of some job: bounds
/// are crossed exactly at them.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub of_job: Option<u16>,
    pub offset: i64,
    pub at: u64,
}

#[derive(Debug, Clone, Copy)]
pub enum When {
    Delay(u64),
    At(Moment),
}

/// DEDUP or DEDUPS of a push: a key for each payload.
#[derive(Debug, Clone)]
pub struct Dedup {
    pub keys: Vec<Vec<u8>>,
    pub window: Option<u64>,
    pub replace: bool,
    pub max_wait: Option<u64>,
    pub keep_last: bool,
}

#[derive(Debug, Clone, Default)]
pub struct JobOptions {
    pub when: Option<When>,
    pub priority: Option<i8>,
    pub lease: Option<u64>,
    pub max_deliveries: Option<u64>,
    pub ttl: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct LeaseOptions {
    pub count: Option<u64>,
    pub lease: Option<u64>,
    pub block: Option<u64>,
    pub max_bytes: Option<u64>,
    pub meta: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ready,
    Delayed,
    Leased,
    Dead,
    Done,
}

impl State {
    pub const ALL: [State; 5] = [State::Ready, State::Delayed, State::Leased, State::Dead, State::Done];

    pub fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Leased => "leased",
            State::Dead => "dead",
            State::Done => "done",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    Full,
    Equal,
    None,
}

impl Jitter {
    pub fn name(self) -> &'static str {
        match self {
            Jitter::Full => "full",
            Jitter::Equal => "equal",
            Jitter::None => "none",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Setting {
    Lease(u64),
    MaxRun(u64),
    MaxDeliveries(u64),
    MaxExpiries(u64),
    Backoff(u64, u64),
    Jitter(Jitter),
    ExpiryBackoff(bool),
    /// KEEPDONE, MAXLIVE and so on; None, spelled -1, is no bound.
    Bound(&'static str, Option<u64>),
    /// RATE n ms.
    Rate(Option<(u64, u64)>),
}

#[derive(Debug, Clone)]
pub struct RedriveMany {
    pub count: u64,
    pub reason: Option<&'static str>,
    pub after: Option<Moment>,
    pub before: Option<Moment>,
    pub spread: Option<u64>,
    pub priority: Option<i8>,
}

#[derive(Debug, Clone)]
pub enum Op {
    Push { payload: Vec<u8>, options: JobOptions, dedup: Option<Dedup> },
    MPush { payloads: Vec<Vec<u8>>, options: JobOptions, dedup: Option<Dedup> },
    GetDedup { key: Vec<u8> },
    DelDedup { keys: Vec<Vec<u8>> },
    Lease { consumer: Vec<u8>, options: LeaseOptions },
    Ack { pairs: Vec<PairPick>, result: Option<Vec<u8>> },
    AckLease { pair: PairPick, consumer: Vec<u8>, options: LeaseOptions },
    Nack { pairs: Vec<PairPick>, delay: Option<u64>, error: Option<Vec<u8>>, dead: bool },
    Release { pairs: Vec<PairPick>, delay: Option<u64> },
    ReleaseConsumer { consumer: Vec<u8> },
    Extend { pairs: Vec<PairPick>, lease: Option<u64> },
    Reap { count: Option<u64> },
    ReapConsumer { consumer: Vec<u8>, count: Option<u64> },
    ReapIds { ids: Vec<IdPick> },
    Redrive { ids: Vec<IdPick> },
    RedriveMany(RedriveMany),
    Set { id: IdPick, priority: Option<i8>, when: Option<When> },
    Del { ids: Vec<IdPick> },
    Purge { state: State, count: Option<u64>, reason: Option<&'static str>, before: Option<Moment> },
    Trim { by: &'static str, bound: u64, count: Option<u64> },
    /// `inward`: IN, else OUT.
    Pause { inward: bool, for_ms: Option<u64>, reason: Option<Vec<u8>> },
    Resume { inward: bool },
    Wait { id: IdPick },
    Get { id: IdPick },
    Peek { state: State, count: Option<u64>, payload: bool },
    Len { state: Option<State> },
    Info,
    Create { settings: Vec<Setting> },
    Alter { settings: Vec<Setting> },
}

/// What fills in the choices.
pub trait Binder {
    fn id(&self, among: Among, pick: u16) -> Id;
    fn pair(&self, among: Among, pick: u16, twist: Twist) -> (Id, u64);
    /// Now, or when the chosen job became due, expires or died.
    fn time(&self, of_job: Option<u16>) -> u64;
}

impl Op {
    /// Fixes every choice by the jobs there are now.
    pub fn bind(&mut self, binder: &dyn Binder) {
        let bind_id = |pick: &mut IdPick| pick.id = binder.id(pick.among, pick.pick);
        let bind_pair = |pick: &mut PairPick| {
            (pick.id, pick.token) = binder.pair(pick.among, pick.pick, pick.twist);
        };
        let bind_moment = |moment: &mut Moment| {
            moment.at = binder.time(moment.of_job).saturating_add_signed(moment.offset);
        };
        let bind_when = |when: &mut Option<When>| {
            if let Some(When::At(moment)) = when {
                bind_moment(moment);
            }
        };
        match self {
            Op::Push { options, .. } | Op::MPush { options, .. } => bind_when(&mut options.when),
            Op::Ack { pairs, .. } | Op::Nack { pairs, .. } | Op::Release { pairs, .. } | Op::Extend { pairs, .. } => {
                pairs.iter_mut().for_each(bind_pair);
            }
            Op::AckLease { pair, .. } => bind_pair(pair),
            Op::ReapIds { ids } | Op::Redrive { ids } | Op::Del { ids } => ids.iter_mut().for_each(bind_id),
            Op::RedriveMany(many) => {
                many.after.iter_mut().chain(many.before.iter_mut()).for_each(bind_moment);
            }
            Op::Set { id, when, .. } => {
                bind_id(id);
                bind_when(when);
            }
            Op::Purge { before, .. } => before.iter_mut().for_each(bind_moment),
            Op::Get { id } | Op::Wait { id } => bind_id(id),
            Op::GetDedup { .. } | Op::DelDedup { .. } | Op::Trim { .. } | Op::Pause { .. } | Op::Resume { .. } | Op::Lease { .. } | Op::ReleaseConsumer { .. } | Op::Reap { .. } | Op::ReapConsumer { .. }
            | Op::Peek { .. } | Op::Len { .. } | Op::Info | Op::Create { .. } | Op::Alter { .. } => {}
        }
    }

    /// DEDUP or DEDUPS.
    pub fn dedup(&self) -> Option<&Dedup> {
        match self {
            Op::Push { dedup, .. } | Op::MPush { dedup, .. } => dedup.as_ref(),
            _ => None,
        }
    }

    /// The command's name.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Push { .. } => "RQ.PUSH",
            Op::MPush { .. } => "RQ.MPUSH",
            Op::Lease { .. } => "RQ.LEASE",
            Op::Ack { .. } => "RQ.ACK",
            Op::AckLease { .. } => "RQ.ACKLEASE",
            Op::Nack { .. } => "RQ.NACK",
            Op::Release { .. } | Op::ReleaseConsumer { .. } => "RQ.RELEASE",
            Op::Extend { .. } => "RQ.EXTEND",
            Op::Reap { .. } | Op::ReapConsumer { .. } | Op::ReapIds { .. } => "RQ.REAP",
            Op::Redrive { .. } | Op::RedriveMany(_) => "RQ.REDRIVE",
            Op::Set { .. } => "RQ.SET",
            Op::Del { .. } | Op::DelDedup { .. } => "RQ.DEL",
            Op::Purge { .. } => "RQ.PURGE",
            Op::Trim { .. } => "RQ.TRIM",
            Op::Pause { .. } => "RQ.PAUSE",
            Op::Resume { .. } => "RQ.RESUME",
            Op::Wait { .. } => "RQ.WAIT",
            Op::Get { .. } | Op::GetDedup { .. } => "RQ.GET",
            Op::Peek { .. } => "RQ.PEEK",
            Op::Len { .. } => "RQ.LEN",
            Op::Info => "RQ.INFO",
            Op::Create { .. } => "RQ.CREATE",
            Op::Alter { .. } => "RQ.ALTER",
        }
    }

    /// The arguments after the key. `style` decides the order of the options and the case of
    /// their names, which must not matter.
    pub fn spell(&self, style: u32) -> Words {
        let mut words = Words { style, ..Words::default() };
        match self {
            Op::Push { payload, options, dedup } => {
                words.word(payload);
                words.job_options(options);
                words.dedup("DEDUP", dedup.as_ref());
            }
            Op::MPush { payloads, options, dedup } => {
                words.word(payloads.len().to_string().as_bytes());
                payloads.iter().for_each(|payload| words.word(payload));
                words.job_options(options);
                words.dedup("DEDUPS", dedup.as_ref());
            }
            Op::GetDedup { key } => {
                words.word(&words.keyword("DEDUP"));
                words.word(key);
            }
            Op::DelDedup { keys } => {
                words.word(&words.keyword("DEDUP"));
                keys.iter().for_each(|key| words.word(key));
            }
            Op::Lease { consumer, options } => {
                words.word(consumer);
                words.lease_options(options);
            }
            Op::Ack { pairs, result } => {
                words.pairs(pairs);
                words.value("RESULT", result.as_deref());
            }
            Op::AckLease { pair, consumer, options } => {
                words.pairs(std::slice::from_ref(pair));
                words.word(consumer);
                words.lease_options(options);
            }
            Op::Nack { pairs, delay, error, dead } => {
                words.pairs(pairs);
                words.number("DELAY", *delay);
                words.value("ERROR", error.as_deref());
                words.flag("DEAD", *dead);
            }
            Op::Release { pairs, delay } => {
                words.pairs(pairs);
                words.number("DELAY", *delay);
            }
            Op::ReleaseConsumer { consumer } => words.value("CONSUMER", Some(consumer)),
            Op::Extend { pairs, lease } => {
                words.pairs(pairs);
                words.number("LEASE", *lease);
            }
            Op::Reap { count } => words.number("COUNT", *count),
            Op::ReapConsumer { consumer, count } => {
                words.value("CONSUMER", Some(consumer));
                words.number("COUNT", *count);
            }
            Op::ReapIds { ids } => {
                words.word(&words.keyword("ID"));
                words.ids(ids);
            }
            Op::Redrive { ids } | Op::Del { ids } => words.ids(ids),
            Op::RedriveMany(many) => {
                words.number("COUNT", Some(many.count));
                words.value("REASON", many.reason.map(str::as_bytes));
                words.number("AFTER", many.after.map(|m| m.at));
                words.number("BEFORE", many.before.map(|m| m.at));
                words.number("SPREAD", many.spread);
                words.number("PRIORITY", many.priority);
            }
            Op::Set { id, priority, when } => {
                words.word(&id_text(id.id));
                words.number("PRIORITY", *priority);
                words.when(*when);
            }
            Op::Purge { state, count, reason, before } => {
                words.word(&words.keyword(state.name()));
                words.number("COUNT", *count);
                words.value("REASON", reason.map(str::as_bytes));
                words.number("BEFORE", before.map(|m| m.at));
            }
            Op::Trim { by, bound, count } => {
                words.number(by, Some(*bound));
                words.number("COUNT", *count);
            }
            Op::Pause { inward, for_ms, reason } => {
                words.flag(if *inward { "IN" } else { "OUT" }, *inward || words.style % 2 == 0);
                words.number("FOR", *for_ms);
                words.value("REASON", reason.as_deref());
            }
            Op::Resume { inward } => words.flag(if *inward { "IN" } else { "OUT" }, *inward || words.style % 2 == 0),
            Op::Get { id } | Op::Wait { id } => words.word(&id_text(id.id)),
            Op::Peek { state, count, payload } => {
                words.word(&words.keyword(state.name()));
                words.number("COUNT", *count);
                words.flag("NOPAYLOAD", !payload);
            }
            Op::Len { state } => state.iter().for_each(|state| words.word(&words.keyword(state.name()))),
            Op::Info => {}
            Op::Create { settings } | Op::Alter { settings } => words.settings(settings),
        }
        words
    }
}

/// Arguments in the making: what must come first, and the options.
#[derive(Debug, Clone, Default)]
pub struct Words {
    style: u32,
    pub fixed: Vec<Vec<u8>>,
    /// Each with its values.
    pub options: Vec<Vec<Vec<u8>>>,
}

impl Words {
    /// All of it, the options in an order that the style decides.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let mut options = self.options.clone();
        if !options.is_empty() {
            let by = self.style as usize % options.len();
            options.rotate_left(by);
        }
        self.fixed.iter().cloned().chain(options.into_iter().flatten()).collect()
    }

    fn keyword(&self, name: &str) -> Vec<u8> {
        match self.style % 3 {
            0 => name.to_ascii_lowercase(),
            1 => name.to_ascii_uppercase(),
            _ => name.char_indices().map(|(n, c)| if n % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect(),
        }
        .into_bytes()
    }

    fn word(&mut self, word: &[u8]) {
        self.fixed.push(word.to_vec());
    }

    fn ids(&mut self, ids: &[IdPick]) {
        ids.iter().for_each(|pick| self.word(&id_text(pick.id)));
    }

    fn pairs(&mut self, pairs: &[PairPick]) {
        for pair in pairs {
            self.word(&id_text(pair.id));
            self.word(pair.token.to_string().as_bytes());
        }
    }

    fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.options.push(vec![self.keyword(name)]);
        }
    }

    fn value(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.options.push(vec![self.keyword(name), value.to_vec()]);
        }
    }

    fn number(&mut self, name: &str, value: Option<impl ToString>) {
        self.value(name, value.map(|n| n.to_string().into_bytes()).as_deref());
    }

    fn when(&mut self, when: Option<When>) {
        match when {
            Some(When::Delay(ms)) => self.number("DELAY", Some(ms)),
            Some(When::At(moment)) => self.number("AT", Some(moment.at)),
            None => {}
        }
    }

    fn job_options(&mut self, options: &JobOptions) {
        self.when(options.when);
        self.number("PRIORITY", options.priority);
        self.number("LEASE", options.lease);
        self.number("MAXDELIVERIES", options.max_deliveries);
        self.number("TTL", options.ttl);
    }

    fn dedup(&mut self, name: &str, dedup: Option<&Dedup>) {
        let Some(dedup) = dedup else { return };
        self.options.push([vec![self.keyword(name)], dedup.keys.clone()].concat());
        self.number("WINDOW", dedup.window);
        self.flag("REPLACE", dedup.replace);
        self.number("MAXWAIT", dedup.max_wait);
        self.flag("KEEPLAST", dedup.keep_last);
    }

    fn lease_options(&mut self, options: &LeaseOptions) {
        self.number("COUNT", options.count);
        self.number("LEASE", options.lease);
        self.number("BLOCK", options.block);
        self.number("MAXBYTES", options.max_bytes);
        self.flag("META", options.meta);
    }

    fn settings(&mut self, settings: &[Setting]) {
        for setting in settings {
            match setting {
                Setting::Lease(ms) => self.number("LEASE", Some(ms)),
                Setting::MaxRun(ms) => self.number("MAXRUN", Some(ms)),
                Setting::MaxDeliveries(n) => self.number("MAXDELIVERIES", Some(n)),
                Setting::MaxExpiries(n) => self.number("MAXEXPIRIES", Some(n)),
                Setting::Backoff(base, max) => self.options.push(vec![
                    self.keyword("BACKOFF"),
                    base.to_string().into_bytes(),
                    max.to_string().into_bytes(),
                ]),
                Setting::Jitter(jitter) => self.value("JITTER", Some(jitter.name().as_bytes())),
                Setting::Bound(name, None) => self.value(name, Some(b"-1")),
                Setting::Bound(name, bound) => self.number(name, *bound),
                Setting::Rate(None) => self.value("RATE", Some(b"-1")),
                Setting::Rate(Some((n, ms))) => self.options.push(vec![
                    self.keyword("RATE"),
                    n.to_string().into_bytes(),
                    ms.to_string().into_bytes(),
                ]),
                Setting::ExpiryBackoff(yes) => self.value("EXPIRYBACKOFF", Some(if *yes { b"yes" } else { b"no" })),
            }
        }
    }
}
