//! The bounds of every number and name that comes from outside.
//!
//! They bind requests with an error that names them, and decoding of ops and snapshots with a
//! refusal, so that arithmetic on stored values cannot overflow.

/// The last Unix millisecond that can be named: the end of the year 9999.
pub const MAX_TIME_MS: u64 = 253_402_300_799_999;
/// `AT` below this is refused: it looks like seconds.
pub const MIN_AT_MS: u64 = 100_000_000_000;
/// The longest delay, time to live, backoff or spread: ten years.
pub const MAX_SPAN_MS: u64 = 315_360_000_000;
/// The longest lease: one year.
pub const MAX_LEASE_MS: u64 = 31_536_000_000;
/// Tokens are below 2^53, so that every client's numbers hold them.
pub const MAX_TOKEN: u64 = (1 << 53) - 1;
/// The highest token that a clock gives. Those above it are reached only by counting on, so that
/// a clock gone wild does not use up the last ones.
pub const MAX_STORED_TOKEN: u64 = MAX_TOKEN - (1 << 40);
/// The most deliveries that can be asked for, and the highest count that is kept.
pub const MAX_DELIVERIES: u64 = 1_000_000_000;
/// The most jobs that one LEASE hands out, and the bound of COUNT elsewhere.
pub const MAX_COUNT: u64 = 10_000;
/// The most keys of one MLEASE.
pub const MAX_KEYS: u64 = 1_000;
/// LEASE without MAXBYTES stops when its payloads come to this much, so that a large COUNT cannot
/// fill the server's memory with one reply.
pub const LEASE_BYTES: u64 = 64 << 20;
/// The most maps that one PEEK shows.
pub const MAX_PEEK: u64 = 1_000;
/// PEEK ends its page when it has shown this many payload bytes.
pub const PEEK_BYTES: u64 = 16 << 20;
/// One batch of ops, hence one command's changes, is at most this long.
pub const MAX_BATCH: usize = 16 << 20;
/// What a batch says of a pushed job at most, beside its payload and its names.
pub(crate) const SAID_OF_A_JOB: usize = 64;
/// What a batch needs beside its payloads, and the room for the leases it hands to waiters.
pub const BATCH_ROOM: usize = 64 << 10;
/// The longest payload.
pub const MAX_PAYLOAD: usize = MAX_BATCH - BATCH_ROOM;
/// The longest name of a consumer.
pub const MAX_NAME: usize = 1_024;
/// An error text is cut here.
pub const MAX_ERROR: usize = 1_024;
/// Snapshots are cut into batches of about this size.
pub const SNAPSHOT_CHUNK: usize = 64 << 10;
/// How many due steps a write verb does before its own work.
pub const DUE_STEPS: u32 = 128;
/// REDRIVE and PURGE look at this many jobs beyond COUNT.
pub const LOOK_BEYOND: u64 = 1_000;
