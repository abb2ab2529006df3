//! The one table of the commands. Registration, `COMMAND DOCS`, key specifications, access
//! control and the command reference all come from it.

/// What a command does; its place in [`COMMANDS`] is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is described in the table")]
pub enum Verb {
    Push,
    MPush,
    Lease,
    MLease,
    Ack,
    AckLease,
    Nack,
    Release,
    Extend,
    Reap,
    Redrive,
    Set,
    Del,
    Purge,
    Trim,
    Get,
    Wait,
    Peek,
    Len,
    Info,
    Schedule,
    Unschedule,
    Schedules,
    Pause,
    Resume,
    Groups,
    Consumers,
    Queues,
    Doctor,
    Help,
    XTrim,
    Create,
    Alter,
    Apply,
}

/// What a command does to its key, for access control and clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads: needs `%R~`.
    Read,
    /// Adds jobs or the queue, returns nothing stored: needs `%W~`.
    Insert,
    /// Changes jobs and returns what is stored: needs `%R~` and `%W~`.
    ReadWrite,
    /// Changes or removes jobs, returns nothing stored: needs `%W~`.
    Update,
}

/// Where the keys of a command are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The first argument is the only one.
    First,
    /// The first argument is their number, then they follow.
    Numbered,
    /// After this keyword, if that is given.
    After(&'static str),
    /// There are none.
    None,
}

/// One command.
#[derive(Debug)]
pub struct Command {
    /// What it does.
    pub verb: Verb,
    /// Its name, lower case, as the server registers it.
    pub name: &'static str,
    /// The arguments in the notation of the command reference. Capitals are keywords, `[]` is
    /// optional, `...` repeats, `|` is one of.
    pub syntax: &'static str,
    /// The number of arguments with the name; negative: at least.
    pub arity: i32,
    /// Flags in the module API's spelling.
    pub flags: &'static str,
    /// What it does to its key, which is always the first argument.
    pub access: Access,
    /// One sentence.
    pub summary: &'static str,
    /// Cost.
    pub complexity: &'static str,
    /// What it replies.
    pub reply: &'static str,
}

#[cfg(test)]
const JOB_OPTIONS: &str = "[DELAY ms | AT unix-ms] [PRIORITY n] [LEASE ms] [MAXDELIVERIES n] [TTL ms]";

macro_rules! command {
    ($verb:ident, $name:literal, $arity:literal, $flags:literal, $access:ident, $syntax:expr,
     $summary:literal, $complexity:literal, $reply:literal) => {
        Command {
            verb: Verb::$verb,
            name: $name,
            syntax: $syntax,
            arity: $arity,
            flags: $flags,
            access: Access::$access,
            summary: $summary,
            complexity: $complexity,
            reply: $reply,
        }
    };
}

/// All commands, in the order of [`Verb`].
pub static COMMANDS: &[Command] = &[
    command!(Push, "rq.push", -3, "write deny-oom fast", Insert,
        "key payload [DELAY ms | AT unix-ms] [PRIORITY n] [LEASE ms] [MAXDELIVERIES n] [TTL ms] [GROUP g] [DEDUP dkey [WINDOW ms] [REPLACE [MAXWAIT ms]] [KEEPLAST]]",
        "Adds a job. Makes the queue if there is none.",
        "O(log n)",
        "The job's id. With DEDUP [id, code], the id being the winner's: 1 stored, 0 duplicate, dropped, 2 replaced the waiting one, 3 held behind the leased one."),
    command!(MPush, "rq.mpush", -4, "write deny-oom", Insert,
        "key n payload [payload ...] [DELAY ms | AT unix-ms] [PRIORITY n] [LEASE ms] [MAXDELIVERIES n] [TTL ms] [GROUP g] [DEDUPS dkey [dkey ...] [WINDOW ms]]",
        "Adds several jobs with the same options, all or nothing.",
        "O(k log n) for k jobs",
        "Array of ids, with DEDUPS of [id, code]."),
    command!(Lease, "rq.lease", -3, "write blocking", ReadWrite,
        "key consumer [COUNT n] [LEASE ms] [BLOCK ms] [MAXBYTES n] [META]",
        "Takes jobs for a while: each is this consumer's until its lease ends, then anybody's again.",
        "O(k log n) for k jobs",
        "Array of [id, token, deliveries, payload, lease-ms] (META appends the map of RQ.GET without payload), or null when nothing can be leased. BLOCK 0 waits for ever; inside MULTI and scripts BLOCK is ignored."),
    command!(MLease, "rq.mlease", -4, "write blocking", ReadWrite,
        "numkeys key [key ...] consumer [COUNT n] [LEASE ms] [BLOCK ms] [MAXBYTES n] [META]",
        "Takes jobs from the first queue, in the order given, that has something.",
        "O(q + k log n) for q queues and k jobs",
        "[key, jobs], jobs being the reply of RQ.LEASE, or null."),
    command!(Ack, "rq.ack", -4, "write fast", Update,
        "key id token [id token ...] [RESULT blob]",
        "Finishes jobs: they are done and never come back. With KEEPDONE the result is kept with them.",
        "O(k log n) for k pairs",
        "Per pair: 1 finished, 0 not yours (leased again since, or already settled otherwise), -1 no such job."),
    command!(AckLease, "rq.acklease", -5, "write blocking", ReadWrite,
        "key id token consumer [COUNT n] [LEASE ms] [BLOCK ms] [MAXBYTES n] [META]",
        "Finishes a job and leases the next in one call.",
        "O(k log n) for k jobs",
        "[code, jobs]: the code of RQ.ACK, and the reply of RQ.LEASE. The acknowledgement counts even if the wait ends empty."),
    command!(Nack, "rq.nack", -4, "write fast", Update,
        "key id token [id token ...] [DELAY ms] [ERROR text] [DEAD]",
        "Reports failure: the job waits by the queue's backoff (or DELAY) and is tried again, or goes to dead when its deliveries are spent, or at once with DEAD.",
        "O(k log n) for k pairs",
        "Per pair: 1 will be retried, 2 went to dead, 0 not yours, -1 no such job."),
    command!(Release, "rq.release", -4, "write fast", Update,
        "key id token [id token ...] [DELAY ms] | key CONSUMER consumer",
        "Gives jobs back unspent: this delivery is not counted. With CONSUMER: all that it holds.",
        "O(k log n) for k jobs",
        "Per pair: 1 given back, 0 not yours, -1 no such job. With CONSUMER: the number given back."),
    command!(Extend, "rq.extend", -4, "write fast", Update,
        "key id token [id token ...] [LEASE ms]",
        "Heartbeat: the lease ends ms from now (without LEASE: as long as it was given).",
        "O(k log n) for k pairs",
        "Per pair: 1 extended, 0 not yours, -1 no such job: stop working on it."),
    command!(Reap, "rq.reap", -2, "write", ReadWrite,
        "key [COUNT n] [CONSUMER consumer | ID id [id ...]]",
        "Ends leases now: the expired ones, or all of a dead consumer, or those of certain jobs. Each counts as an expiry.",
        "O(k log n) for k jobs",
        "Array of [id, state, deliveries, consumer]."),
    command!(Redrive, "rq.redrive", -3, "write", Update,
        "key id [id ...] | key COUNT n [REASON reason] [AFTER unix-ms] [BEFORE unix-ms] [SPREAD ms] [PRIORITY n]",
        "Brings dead jobs back with a fresh budget of deliveries.",
        "O(k log n) for k jobs",
        "Per id: 1 brought back, 0 not dead, -1 no such job, -2 its dedup key is held by another job. With COUNT: [moved, skipped, more], more being 1 if it is worth calling again (not if all that were looked at stay: then AFTER goes on behind them)."),
    command!(Set, "rq.set", -5, "write fast", Update,
        "key id [PRIORITY n] [DELAY ms | AT unix-ms]",
        "Changes the priority or the due time of a waiting job; DELAY 0 makes it ready.",
        "O(log n)",
        "1 set, 0 not waiting, -1 no such job."),
    command!(Del, "rq.del", -3, "write fast", Update,
        "key id [id ...] | key DEDUP dkey [dkey ...]",
        "Cancels jobs in any state. The worker of a leased one learns it from its next RQ.EXTEND.",
        "O(k log n) for k jobs",
        "The number of jobs removed."),
    command!(Purge, "rq.purge", -3, "write", Update,
        "key READY | DELAYED | DEAD | DONE [COUNT n] [REASON reason] [BEFORE unix-ms]",
        "Removes jobs of one state in that state's order, at most COUNT (1000). REASON selects among dead ones. BEFORE: those that became ready, are due, died or were done before that time.",
        "O(k log n) for k jobs",
        "The number of jobs removed."),
    command!(Trim, "rq.trim", -4, "write", Update,
        "key MAXLEN n | MAXAGE ms | MAXBYTES n [COUNT n]",
        "Removes finished jobs that KEEPDONE has kept, oldest first, until the bound holds, at most COUNT (1000). Jobs that are not finished are never touched.",
        "O(k log n) for k jobs",
        "The number of jobs removed."),
    command!(Get, "rq.get", -3, "readonly fast", Read,
        "key id | key DEDUP dkey",
        "Shows one job.",
        "O(log n)",
        "Map of the job, null if it is unknown."),
    command!(Wait, "rq.wait", -3, "readonly blocking", Read,
        "key id [BLOCK ms]",
        "Waits for the end of a job. BLOCK 0 waits for ever; inside MULTI and scripts BLOCK is ignored.",
        "O(log n)",
        "[state, result] once the job is done or dead (the result is null unless KEEPDONE keeps it), null if it is not yet, or unknown, or removed."),
    command!(Peek, "rq.peek", -3, "readonly", Read,
        "key READY | DELAYED | LEASED | DEAD | DONE [CURSOR cursor] [COUNT n] [NOPAYLOAD]",
        "Shows jobs of one state in that state's order and changes nothing.",
        "O(log n + COUNT)",
        "[next-cursor, maps of jobs]; a cursor of 0 begins and ends."),
    command!(Len, "rq.len", -2, "readonly fast", Read,
        "key [READY | DELAYED | LEASED | DEAD | DONE]",
        "Counts the jobs of one state; without one, those that are ready, delayed or leased.",
        "O(1)",
        "Integer; 0 if there is no queue."),
    command!(Info, "rq.info", -2, "readonly fast", Read,
        "key [JSON]",
        "Shows the policy, the counts and the totals of a queue.",
        "O(1)",
        "Map, or with JSON one string; null if there is no queue."),
    command!(Schedule, "rq.schedule", -6, "write deny-oom", Insert,
        "key name CRON line [TZ zone] [START unix-ms] [END unix-ms] [LIMIT n] [MISSED one | skip | all] PAYLOAD p [PRIORITY n] [LEASE ms] [MAXDELIVERIES n] [TTL ms] [GROUP g] [DEDUP dkey] | key name EVERY ms [START unix-ms] [END unix-ms] [LIMIT n] [MISSED one | skip | all] PAYLOAD p [PRIORITY n] [LEASE ms] [MAXDELIVERIES n] [TTL ms] [GROUP g] [DEDUP dkey]",
        "Makes or changes a schedule: one job per slot, however many clients say so, across restarts and failovers.",
        "O(log n)",
        "[code, next-at]: 1 made, 2 changed, 0 the same; next-at is null if there is no slot any more."),
    command!(Unschedule, "rq.unschedule", -3, "write", Update,
        "key name [name ...]",
        "Removes schedules. The jobs that they made stay.",
        "O(k log n) for k names",
        "The number of schedules removed."),
    command!(Schedules, "rq.schedules", 2, "readonly", Read,
        "key",
        "Shows the schedules by name.",
        "O(n) for n schedules",
        "Array of maps."),
    command!(Pause, "rq.pause", -2, "write fast", Insert,
        "key [OUT | IN] [FOR ms] [GROUP g] [REASON text]",
        "Pauses leasing (OUT), pushing (IN) or the leasing of one group, for a time or until RQ.RESUME. A pause never gets shorter by another one. Workers can always settle and extend what they have.",
        "O(1)",
        "When it ends, Unix ms; 0 if it does not end by itself."),
    command!(Resume, "rq.resume", -2, "write fast", Update,
        "key [OUT | IN] [GROUP g]",
        "Ends a pause.",
        "O(1)",
        "1 ended, 0 there was none."),
    command!(Groups, "rq.groups", -2, "readonly", Read,
        "key [AFTER name] [COUNT n]",
        "Shows the groups by name, at most COUNT (1000).",
        "O(log n + COUNT)",
        "Array of [name, ready, leased, retrying, jobs, paused-until, oldest-ready-ms]; paused-until is null for a group that is not paused and 0 for a pause without end, oldest-ready-ms null if nothing is ready."),
    command!(Consumers, "rq.consumers", -2, "readonly", Read,
        "key [AFTER name] [COUNT n]",
        "Shows the consumers that a job remembers, by name, at most COUNT (1000).",
        "O(log n + COUNT) and the leases of those shown",
        "Array of [name, leased, jobs, oldest-lease-ms, last-seen-ms]: the first age is null if it has leased nothing, the other one (since its last LEASE, ACK, NACK, EXTEND or RELEASE that was not refused, as this server knows) if it has not called here."),
    command!(Queues, "rq.queues", -1, "readonly", Read,
        "[COUNT n]",
        "Shows queues of this node and database that the user may read, at most COUNT (1000).",
        "O(q) for q queues",
        "Array of [key, ready, leased, dead, oldest-ready-ms]."),
    command!(Doctor, "rq.doctor", -1, "readonly", Read,
        "[KEY key] [JSON]",
        "Tells what on this server can lose or hold up jobs now: about the server, and about the queue KEY, or up to 1000 queues of this database that the user may read.",
        "O(q) for q queues",
        "Array of [severity, code, finding, remedy], the worst first, the remedy being the line to type; with JSON one string. docs/DOCTOR.md lists all codes."),
    command!(Help, "rq.help", -1, "readonly fast", Read,
        "[command]",
        "Shows the commands with their arguments, or one of them (with or without RQ.) with its reply and cost.",
        "O(1)",
        "Array of lines."),
    command!(XTrim, "rq.xtrim", -4, "write", Update,
        "stream MAXLEN | MINID [= | ~] threshold [LIMIT n]",
        "Trims a stream, oldest first, of entries that every consumer group has read and acknowledged, until the threshold is met. The others stay.",
        "O(n) for n entries looked at",
        "The number of entries removed."),
    command!(Create, "rq.create", -2, "write deny-oom fast", Insert,
        "key [LEASE ms] [MAXRUN ms] [MAXDELIVERIES n] [MAXEXPIRIES n] [BACKOFF base max] [JITTER full | equal | none] [EXPIRYBACKOFF no | yes] [KEEPDONE n] [KEEPDONEMS ms] [KEEPDONEBYTES n] [KEEPDEAD n] [KEEPDEADMS ms] [KEEPDEADBYTES n] [MAXLIVE n] [MAXLIVEBYTES n] [CONCURRENCY n] [RATE n ms] [GROUPORDER no | yes] [GROUPLIMIT n] [GROUPRATE n ms] [AGING ms]",
        "Makes a queue, or sets the named options of the one that is there.",
        "O(1), O(g) with options of groups",
        "1 made, 0 was there."),
    command!(Alter, "rq.alter", -4, "write fast", Update,
        "key [LEASE ms] [MAXRUN ms] [MAXDELIVERIES n] [MAXEXPIRIES n] [BACKOFF base max] [JITTER full | equal | none] [EXPIRYBACKOFF no | yes] [KEEPDONE n] [KEEPDONEMS ms] [KEEPDONEBYTES n] [KEEPDEAD n] [KEEPDEADMS ms] [KEEPDEADBYTES n] [MAXLIVE n] [MAXLIVEBYTES n] [CONCURRENCY n] [RATE n ms] [GROUPORDER no | yes] [GROUPLIMIT n] [GROUPRATE n ms] [AGING ms]",
        "Sets options of a queue that is there.",
        "O(1), O(g) with options of groups",
        "OK."),
    command!(Apply, "rq.apply", 3, "write admin deny-script", ReadWrite,
        "key ops",
        "Internal: how the primary tells replicas and the AOF what was decided.",
        "O(k log n) for k ops",
        "OK."),
];

impl Verb {
    /// Its entry in the table.
    pub fn command(self) -> &'static Command {
        #[allow(clippy::indexing_slicing, reason = "an entry for every verb, in order: tested below")]
        &COMMANDS[self as usize]
    }

    /// Where its keys are.
    pub fn keys(self) -> Keys {
        match self {
            Verb::Queues | Verb::Help => Keys::None,
            Verb::Doctor => Keys::After("KEY"),
            Verb::MLease => Keys::Numbered,
            _ => Keys::First,
        }
    }

    /// Whether it changes anything at all.
    pub fn writes(self) -> bool {
        self.command().access != Access::Read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_verbs() {
        for (n, command) in COMMANDS.iter().enumerate() {
            assert_eq!(command.verb as usize, n, "{}", command.name);
            assert_eq!(command.flags.contains("readonly"), command.access == Access::Read, "{}", command.name);
        }
        assert_eq!(COMMANDS.len(), Verb::Apply as usize + 1);
        assert!(COMMANDS[0].syntax.contains(JOB_OPTIONS) && COMMANDS[1].syntax.contains(JOB_OPTIONS));
    }
}
