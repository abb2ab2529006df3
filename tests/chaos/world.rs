//! What the clients of one run share: where the primary is, the gate, the ledger, chance.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::harness::{Client, Reply};
use crate::ledger::Ledger;

/// Unix ms: the servers' clock, being on this machine.
pub fn now() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    i64::try_from(wall.as_millis()).expect("a clock before the year 292 million")
}

pub fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Chance from a seed: xorshift.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64, who: u64) -> Chance {
        let mut chance = Chance((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (who + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1);
        (0..8).for_each(|_| _ = chance.below(2));
        chance
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[usize::try_from(self.below(these.len() as u64)).expect("a small number")]
    }
}

pub struct World {
    /// The port of the primary.
    pub port: AtomicU16,
    pub stop: AtomicBool,
    /// All requests but leases are sent, answered and recorded inside: who has it alone finds
    /// nothing on its way.
    pub gate: RwLock<()>,
    ledger: Mutex<Ledger>,
}

impl World {
    pub fn new(port: u16) -> World {
        World {
            port: AtomicU16::new(port),
            stop: AtomicBool::new(false),
            gate: RwLock::new(()),
            ledger: Mutex::new(Ledger::default()),
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("the ledger")
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

/// What became of a request.
pub enum Answer {
    Reply(Reply),
    /// It was answered with an error: nothing was done.
    Refused,
    /// It may have been done, or will be.
    Unknown,
}

/// Where a slot is, or for one request.
struct Elsewhere {
    port: u16,
    guest: bool,
}

/// A connection that comes again, to wherever the primary is.
pub struct Conn {
    client: Option<Client>,
    /// It is good for one request, where the slot is on its way to.
    guest: bool,
    /// One request in so many gets its connection reset before the reply is read; 0: none.
    pub resets: u64,
}

/// Refusals that a client has to expect here.
const EXPECTED: [&str; 13] = [
    "CLUSTERDOWN", "TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN", "UNBLOCKED", "PAUSED", "NOREPLICAS", "MISCONF",
    "OOM", "UNSAFE", "NOMASTERLINK", "ERR WAIT cannot",
];

impl Conn {
    pub fn new(resets: u64) -> Conn {
        Conn { client: None, guest: false, resets }
    }

    pub fn ask(&mut self, world: &World, chance: &mut Chance, line: &str) -> Answer {
        for _ in 0..100 {
            let answer = self.ask_here(world, chance, line);
            if std::mem::take(&mut self.guest) {
                self.client = None;
            }
            match answer {
                Ok(answer) => return answer,
                Err(elsewhere) => self.go(world, elsewhere),
            }
            // What it had to acknowledge was done before it waited, and was then sent on.
            if line.starts_with("RQ.ACKLEASE") {
                return Answer::Unknown;
            }
        }
        Answer::Refused
    }

    /// Goes to where the slot is now, in a cluster.
    fn go(&mut self, world: &World, Elsewhere { port, guest }: Elsewhere) {
        self.client = None;
        if !guest {
            return world.port.store(port, SeqCst);
        }
        let client = Client::connect(port).ok();
        self.client = client.filter(|client| client.try_send_bytes(b"ASKING\r\n").is_ok() && client.next_reply().is_ok());
        self.guest = self.client.is_some();
    }

    fn ask_here(&mut self, world: &World, chance: &mut Chance, line: &str) -> Result<Answer, Elsewhere> {
        if !self.connect(world) {
            return Ok(Answer::Refused);
        }
        let Some(client) = self.client.take() else { return Ok(Answer::Refused) };
        if client.try_send_bytes(format!("{line}\r\n").as_bytes()).is_err() {
            return Ok(Answer::Unknown);
        }
        if self.resets > 0 && chance.one_in(self.resets) {
            sleep(chance.of(&[0, 0, 1, 5]));
            client.reset();
            return Ok(Answer::Unknown);
        }
        Ok(match client.next_reply() {
            Ok(Reply::Error(text)) => {
                if let (Some(word @ ("MOVED" | "ASK")), Some((_, port))) = (text.split(' ').next(), text.rsplit_once(':')) {
                    return Err(Elsewhere { port: port.parse().expect("a port"), guest: word == "ASK" });
                }
                if !EXPECTED.iter().any(|code| text.starts_with(code)) {
                    world.ledger().finding(format!("{line}: refused: {text}"));
                }
                if text.starts_with("PAUSED") {
                    self.client = Some(client);
                }
                sleep(2);
                Answer::Refused
            }
            Ok(reply) => {
                self.client = Some(client);
                Answer::Reply(reply)
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::TimedOut {
                    world.ledger().finding(format!("{line}: {error}"));
                }
                Answer::Unknown
            }
        })
    }

    fn connect(&mut self, world: &World) -> bool {
        for _ in 0..20_000 {
            if self.client.is_some() {
                return true;
            }
            match Client::connect(world.port.load(SeqCst)) {
                Ok(client) => self.client = Some(client),
                Err(_) if world.stopped() => return false,
                Err(_) => sleep(3),
            }
        }
        panic!("no server to connect to");
    }
}
