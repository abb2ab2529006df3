//! What RQ.DOCTOR can find: the one table, from which docs/DOCTOR.md is made.

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Jobs can be lost, or are about to be refused.
    Critical,
    /// Jobs can be lost in a crash, are held up, or run twice.
    Warning,
    /// Worth to know.
    Notice,
}

impl Severity {
    /// Its name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        }
    }
}

/// One kind of finding. `{name}` stands for what differs from one to the next.
#[derive(Debug)]
pub struct Finding {
    /// A name for programs.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter.
    pub text: &'static str,
    /// The line to type.
    pub remedy: &'static str,
}

/// A finding on this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How bad it is.
    pub severity: Severity,
    /// Of what kind.
    pub code: &'static str,
    /// What is the matter.
    pub text: String,
    /// The line to type.
    pub remedy: String,
}

impl Finding {
    /// The finding with its values in place.
    pub fn with(&self, values: &[(&str, &dyn std::fmt::Display)]) -> Found {
        // Each place is filled once: what is put in may hold braces of its own.
        let fill = |template: &str| {
            let (mut text, mut rest) = (String::new(), template);
            while let Some((before, after)) = rest.split_once('{') {
                let (name, after) = after.split_once('}').unwrap_or((after, ""));
                text.push_str(before);
                match values.iter().find(|(one, _)| *one == name) {
                    Some((_, value)) => text.push_str(&value.to_string()),
                    None => debug_assert!(false, "no value for {name} of {}", self.code),
                }
                rest = after;
            }
            text + rest
        };
        Found { severity: self.severity, code: self.code, text: fill(self.text), remedy: fill(self.remedy) }
    }
}

macro_rules! findings {
    ($($name:ident: $code:literal, $severity:ident, $text:literal, $remedy:literal;)*) => {
        $(
            #[doc = $text]
            pub static $name: Finding =
                Finding { code: $code, severity: Severity::$severity, text: $text, remedy: $remedy };
        )*
        /// All of them, in the order in which they are reported.
        pub static FINDINGS: &[&Finding] = &[$(&$name),*];
    };
}

findings! {
    EVICTION: "eviction-allkeys", Critical,
        "maxmemory-policy is {policy}: when memory is full, the server removes whole queues with all their jobs",
        "CONFIG SET maxmemory-policy noeviction";
    EVICTED: "evicted", Critical,
        "{queues} queues were evicted since the start, with {jobs} jobs as far as that is known, and the policy is still {policy}",
        "CONFIG SET maxmemory-policy noeviction";
    RESCUED: "evicted-and-put-back", Warning,
        "queues were evicted {count} times since the start and put back, which costs time, and other keys in their place; the policy is still {policy}",
        "CONFIG SET maxmemory-policy noeviction";
    MEMORY_FULL: "memory-full", Critical,
        "{used} of {max} bytes (maxmemory) are in use: when it is full, pushes are refused",
        "CONFIG SET maxmemory {more}";
    GIVEN_WAY: "eviction-given-way", Warning,
        "nothing but queues was left to evict, so RQ has set maxmemory-policy from {policy} to noeviction, until less than 90 % of maxmemory is used or there are other keys again: writes that need more memory are refused (no CONFIG REWRITE meanwhile, it would keep noeviction)",
        "CONFIG SET maxmemory {more}";
    DIVERGED: "replica-diverged", Critical,
        "{count} changes that came from the primary could not be applied here: this replica may lack jobs. Give it the primary's version of the module and start it anew without its files, so that it copies everything",
        "SHUTDOWN NOSAVE";
    QUEUE_TTL: "queue-ttl", Critical,
        "the key {key} expires in {ms} ms, and its {jobs} jobs with it",
        "PERSIST {key}";
    VOLATILE: "eviction-volatile", Warning,
        "maxmemory-policy is {policy}, but {keys} keys that are no queues have no TTL, so they are never evicted: they can fill the memory, and then pushes are refused",
        "CONFIG SET maxmemory-policy noeviction";
    AOF_OFF: "aof-off", Warning,
        "there is no append-only file: a crash loses all changes since the last RDB file, if there is any",
        "CONFIG SET appendonly yes";
    AOF_FSYNC: "aof-fsync", Warning,
        "the append-only file is written to disk when the system likes (appendfsync no): a power cut can lose half a minute",
        "CONFIG SET appendfsync everysec";
    NO_REPLICA: "no-replica", Warning,
        "this server has no replica: if its disk is lost, all jobs are. To be typed on another server, which then copies this one",
        "REPLICAOF {host} {port}";
    NO_REPLICA_IN_CLUSTER: "no-replica-in-cluster", Warning,
        "this node has no replica: if its disk is lost, all its jobs are. To be typed on another node of the cluster without slots, which then copies this one",
        "CLUSTER REPLICATE {node}";
    REPLICA_NOT_NEEDED: "replica-not-needed", Warning,
        "writes are taken when no replica is connected: a failover then loses what only this server has",
        "CONFIG SET min-replicas-to-write 1";
    ACCEPT_APPLY: "accept-apply", Warning,
        "rq.accept-apply is on: whoever may run RQ.APPLY can change queues past all rules",
        "CONFIG SET rq.accept-apply no";
    DEAD_GROWING: "dead-growing", Warning,
        "{died} jobs of {key} went to dead in the last minutes, {dead} are there. RQ.PEEK {key} DEAD shows why; when that is mended, bring them back",
        "RQ.REDRIVE {key} COUNT 10000";
    DEAD_MANY: "dead-many", Warning,
        "{key} holds {dead} dead jobs of {bytes} bytes. Bring them back over an hour, 10000 at a time, or remove them (RQ.PURGE), or bound them (KEEPDEADMS)",
        "RQ.REDRIVE {key} COUNT 10000 SPREAD 3600000";
    LEASE_SHORT: "lease-short", Warning,
        "LEASE of {key} is {lease} ms, but one run in a hundred takes {p99} ms or more, and {expired} leases expired in the last minutes: those jobs run twice. Make it longer, or let workers RQ.EXTEND",
        "RQ.ALTER {key} LEASE {longer}";
    STALE: "stale-tokens", Warning,
        "{stale} tokens of {key} were refused in the last minutes: workers came back for jobs that others have got by then. LEASE is {lease} ms: make it longer, or let workers RQ.EXTEND",
        "RQ.ALTER {key} LEASE {longer}";
    SLOTS_PAUSED: "slots-paused", Warning,
        "schedules of {key} made no jobs for {skipped} of their slots, and pushes to it are paused",
        "RQ.RESUME {key} IN";
    SLOTS_FULL: "slots-full", Warning,
        "schedules of {key} made no jobs for {skipped} of their slots, and it is full: {option} is {max}. Add workers, or raise it",
        "RQ.ALTER {key} {option} {more}";
    NOBODY_LEASING: "nobody-leasing", Warning,
        "{key} has {ready} ready jobs, the oldest one for {age} ms, and nobody leases. Start workers, which send this (by hand, it takes a job until its lease ends)",
        "RQ.LEASE {key} worker BLOCK 2000";
    PAUSED_LONG: "paused", Warning,
        "{key} is paused, and {ready} jobs are ready, the oldest one for {age} ms",
        "RQ.RESUME {key}";
    GROUP_PAUSED: "group-paused", Warning,
        "the group {group} of {key} is paused, and {ready} jobs of it are ready, the oldest one for {age} ms",
        "RQ.RESUME {key} GROUP {group}";
    GROUP_RETRY: "group-retry", Warning,
        "{ready} ready jobs of the group {group} of {key} wait, the oldest one for {age} ms, because one before them waits for its retry (GROUPORDER). Try that one now",
        "RQ.SET {key} {id} DELAY 0";
    QUEUE_LARGE: "queue-large", Warning,
        "{key} takes {bytes} bytes: a cluster moves a queue in one piece, of proto-max-bulk-len ({max}) at most. Raise it on all nodes, or split the queue by name",
        "CONFIG SET proto-max-bulk-len {more}";
    NO_MAXMEMORY: "no-maxmemory", Notice,
        "there is no maxmemory: a queue that grows and grows takes the machine's memory until the system ends the server",
        "CONFIG SET maxmemory {bytes}{policy}";
    NOT_ALL: "not-all", Notice,
        "this database has more queues than the {count} that were looked at, or more to be said of them than that: ask for one of them with RQ.DOCTOR KEY",
        "RQ.QUEUES COUNT 10000";
}

/// A key or a name as one word of a line that can be typed, in redis-cli or as an inline command.
pub fn word(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_they_have_to_be() {
        for (bytes, expected) in [
            (&b"jobs:mail{1}"[..], "jobs:mail{1}"),
            (b"", "\"\""),
            (b"a b", "\"a b\""),
            (b"it's \"q\" \\", "\"it's \\\"q\\\" \\\\\""),
            (b"\0\n\xff", "\"\\x00\\x0a\\xff\""),
        ] {
            assert_eq!(word(bytes), expected);
        }
    }

    #[test]
    fn places_are_filled_once() {
        let found = QUEUE_TTL.with(&[("key", &"{ms}"), ("ms", &5), ("jobs", &1)]);
        assert_eq!((found.text.as_str(), found.remedy.as_str()), ("the key {ms} expires in 5 ms, and its 1 jobs with it", "PERSIST {ms}"));
    }

    #[test]
    fn codes_are_there_once() {
        let mut codes: Vec<&str> = FINDINGS.iter().map(|finding| finding.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), FINDINGS.len());
    }
}
