//! The operations that both queues are given.

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
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    pub of_job: Option<u16>,
    pub offset: i64,
    pub at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
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

#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobOptions {
    pub when: Option<When>,
    pub priority: Option<i8>,
    pub lease: Option<u64>,
    pub max_deliveries: Option<u64>,
    pub ttl: Option<u64>,
    pub group: Option<Vec<u8>>,
}

/// What is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    Out,
    In,
    Group(Vec<u8>),
}

/// When the slots of a schedule are. A cron line of the driver's calendar is a number: slots are
/// at its multiples, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Every(u64),
    Cron(u64, Option<&'static str>),
}

/// What becomes of slots that nobody made in their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    One,
    Skip,
    All,
}

impl Missed {
    pub fn name(self) -> &'static str {
        match self {
            Missed::One => "one",
            Missed::Skip => "skip",
            Missed::All => "all",
        }
    }
}

/// How much of the last SCHEDULE is said again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Nothing,
    /// All but the payload.
    Slots,
    All,
}

/// What SCHEDULE says after the name.
#[derive(Debug, Clone)]
pub struct Plan {
    pub rule: Rule,
    pub start: Option<Moment>,
    pub end: Option<Moment>,
    pub limit: Option<u64>,
    /// Not said: one.
    pub missed: Option<Missed>,
    pub payload: Vec<u8>,
    /// Without a time.
    pub options: JobOptions,
    pub dedup: Option<Vec<u8>>,
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
    GroupRate(Option<(u64, u64)>),
    GroupOrder(bool),
    Aging(u64),
}

impl Setting {
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Lease(_) => "LEASE",
            Setting::MaxRun(_) => "MAXRUN",
            Setting::MaxDeliveries(_) => "MAXDELIVERIES",
            Setting::MaxExpiries(_) => "MAXEXPIRIES",
            Setting::Backoff(..) => "BACKOFF",
            Setting::Jitter(_) => "JITTER",
            Setting::ExpiryBackoff(_) => "EXPIRYBACKOFF",
            Setting::Bound(name, _) => name,
            Setting::Rate(_) => "RATE",
            Setting::GroupRate(_) => "GROUPRATE",
            Setting::GroupOrder(_) => "GROUPORDER",
            Setting::Aging(_) => "AGING",
        }
    }
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
    Pause { side: Side, for_ms: Option<u64>, reason: Option<Vec<u8>> },
    Resume { side: Side },
    Schedule { name: Vec<u8>, plan: Plan, again: Again },
    Unschedule { names: Vec<Vec<u8>> },
    Schedules,
    Groups { after: Option<Vec<u8>>, count: Option<u64> },
    Consumers { after: Option<Vec<u8>>, count: Option<u64> },
    Wait { id: IdPick, block: Option<u64> },
    Get { id: IdPick },
    Peek { state: State, count: Option<u64>, payload: bool },
    Len { state: Option<State> },
    Info { json: bool },
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
            Op::Get { id } | Op::Wait { id, .. } => bind_id(id),
            Op::Schedule { plan, .. } => plan.start.iter_mut().chain(plan.end.iter_mut()).for_each(bind_moment),
            Op::Lease { .. } | Op::ReleaseConsumer { .. } | Op::Reap { .. } | Op::ReapConsumer { .. } => {}
            Op::GetDedup { .. } | Op::DelDedup { .. } | Op::Trim { .. } | Op::Create { .. } | Op::Alter { .. } => {}
            Op::Pause { .. } | Op::Resume { .. } | Op::Unschedule { .. } => {}
            Op::Peek { .. } | Op::Len { .. } | Op::Info { .. } | Op::Schedules | Op::Groups { .. } | Op::Consumers { .. } => {}
        }
    }

    /// DEDUP or DEDUPS.
    pub fn dedup(&self) -> Option<&Dedup> {
        match self {
            Op::Push { dedup, .. } | Op::MPush { dedup, .. } => dedup.as_ref(),
            _ => None,
        }
    }

    /// Whether it only looks.
    pub fn reads(&self) -> bool {
        matches!(self, Op::Get { .. } | Op::GetDedup { .. } | Op::Peek { .. } | Op::Len { .. } | Op::Info { .. } | Op::Wait { .. })
            || matches!(self, Op::Schedules | Op::Groups { .. } | Op::Consumers { .. })
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
            Op::Schedule { .. } => "RQ.SCHEDULE",
            Op::Unschedule { .. } => "RQ.UNSCHEDULE",
            Op::Schedules => "RQ.SCHEDULES",
            Op::Groups { .. } => "RQ.GROUPS",
            Op::Consumers { .. } => "RQ.CONSUMERS",
            Op::Wait { .. } => "RQ.WAIT",
            Op::Get { .. } | Op::GetDedup { .. } => "RQ.GET",
            Op::Peek { .. } => "RQ.PEEK",
            Op::Len { .. } => "RQ.LEN",
            Op::Info { .. } => "RQ.INFO",
            Op::Create { .. } => "RQ.CREATE",
            Op::Alter { .. } => "RQ.ALTER",
        }
    }
}
