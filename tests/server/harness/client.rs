//! A client of one connection. Written here, not taken from a library: the tests look at partial
//! and at missing replies, and cut connections in the middle.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::reply::{Fields, Reply};

/// How long anything may take before a test fails. Only a failing test ever waits so long.
/// `RQ_PATIENCE` has other seconds, for servers that something slows down.
pub fn patience() -> Duration {
    static PATIENCE: OnceLock<Duration> = OnceLock::new();
    *PATIENCE.get_or_init(|| {
        let seconds = std::env::var("RQ_PATIENCE").map_or(60, |text| text.parse().expect("RQ_PATIENCE in seconds"));
        Duration::from_secs(seconds)
    })
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    /// Bytes that came and were not taken as replies yet.
    unread: RefCell<Vec<u8>>,
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        // While nobody listens there, the kernel may give a socket that very port, and then it has
        // itself at the other end.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_nodelay(true)?;
        Ok(Client { stream, unread: RefCell::default() })
    }

    /// Sends a command without waiting for its reply.
    pub fn send<A: AsRef<[u8]>>(&self, args: &[A]) {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = arg.as_ref();
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        self.send_bytes(&bytes);
    }

    /// Sends the words of a line as a command.
    pub fn send_line(&self, line: impl AsRef<str>) {
        self.send(&words(line.as_ref()));
    }

    /// Sends what it is given.
    pub fn send_bytes(&self, bytes: &[u8]) {
        self.try_send_bytes(bytes).expect("send to the server");
    }

    /// Sends what it is given, to a server that may be gone.
    pub fn try_send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// The next reply.
    #[track_caller]
    pub fn reply(&self) -> Reply {
        match self.next_reply() {
            Ok(reply) => reply,
            Err(error) => panic!("no reply: {error}; unread: \"{}\"", self.unread.borrow().escape_ascii()),
        }
    }

    /// The next reply, or why there is none.
    pub fn next_reply(&self) -> io::Result<Reply> {
        let deadline = Instant::now() + patience();
        loop {
            if let Some(reply) = self.take_reply()? {
                return Ok(reply);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            self.read()?;
        }
    }

    /// Whether anything has come that was not taken, without waiting for it.
    pub fn has_reply(&self) -> bool {
        self.stream.set_nonblocking(true).expect("nonblocking");
        while self.read().is_ok() {}
        self.stream.set_nonblocking(false).expect("blocking");
        !self.unread.borrow().is_empty()
    }

    fn read(&self) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        match (&self.stream).read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.unread.borrow_mut().extend(&buffer[..n]);
                Ok(())
            }
        }
    }

    fn take_reply(&self) -> io::Result<Option<Reply>> {
        let mut unread = self.unread.borrow_mut();
        match Reply::decode(&unread).map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))? {
            None => Ok(None),
            Some((reply, len)) => {
                unread.drain(..len);
                Ok(Some(reply))
            }
        }
    }

    /// The bytes of the next reply as they came.
    #[track_caller]
    pub fn raw_reply(&self) -> Vec<u8> {
        loop {
            let whole = Reply::decode(&self.unread.borrow()).expect("a legal reply").map(|(_, len)| len);
            if let Some(len) = whole {
                return self.unread.borrow_mut().drain(..len).collect();
            }
            self.stream.set_read_timeout(Some(patience())).expect("timeout");
            self.read().expect("a reply");
        }
    }

    /// Sends a command, waits for the reply, whatever it is.
    #[track_caller]
    pub fn cmd<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        self.send(args);
        self.reply()
    }

    /// The words of a line as a command; the reply, whatever it is.
    #[track_caller]
    pub fn try_run(&self, line: impl AsRef<str>) -> Reply {
        self.cmd(&words(line.as_ref()))
    }

    /// The words of a line as a command that must succeed.
    #[track_caller]
    pub fn run(&self, line: impl AsRef<str>) -> Reply {
        let line = line.as_ref();
        let reply = self.try_run(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    }

    /// The words of a line as a command that must be refused; the error's text.
    #[track_caller]
    pub fn error(&self, line: impl AsRef<str>) -> String {
        let line = line.as_ref();
        match self.try_run(line) {
            Reply::Error(text) => text,
            other => panic!("{line}: not refused: {other:?}"),
        }
    }

    /// The words of a line as a command that replies an array of integers.
    #[track_caller]
    pub fn codes(&self, line: impl AsRef<str>) -> Vec<i64> {
        self.run(line).ints()
    }

    /// Runs commands in MULTI; the replies of EXEC.
    #[track_caller]
    pub fn multi(&self, lines: &[impl AsRef<str>]) -> Vec<Reply> {
        self.run("MULTI");
        for line in lines {
            assert_eq!(self.run(line), "QUEUED");
        }
        self.run("EXEC").array().to_vec()
    }

    /// Ends the connection so that the server sees it reset, with all unread replies lost.
    pub fn reset(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the descriptor is open as long as `self.stream`, the option's value is a
        // `linger` of the length given.
        let done = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&self.stream),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                std::ptr::from_ref(&linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0, "SO_LINGER");
    }

    /// Lines of INFO as names and values.
    #[track_caller]
    pub fn server_info(&self, section: &str) -> Fields {
        let reply = self.run(format!("INFO {section}"));
        let lines = reply.text().lines().filter_map(|line| line.split_once(':'));
        Fields(lines.map(|(name, value)| (name.to_owned(), Reply::Bulk(value.as_bytes().to_vec()))).collect())
    }

    /// One number of INFO.
    #[track_caller]
    pub fn server_number(&self, section: &str, name: &str) -> u64 {
        let value = self.server_info(section)[name].text().to_owned();
        value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
    }

    /// A setting of the server.
    #[track_caller]
    pub fn config(&self, name: &str) -> String {
        self.run(format!("CONFIG GET {name}")).fields()[name].text().to_owned()
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// What RQ's replies mean.
impl Client {
    /// RQ.PUSH; the id.
    #[track_caller]
    pub fn push(&self, key_payload_options: impl AsRef<str>) -> String {
        self.run(format!("RQ.PUSH {}", key_payload_options.as_ref())).text().to_owned()
    }

    /// RQ.LEASE; no job if the reply is null.
    #[track_caller]
    pub fn lease(&self, key_consumer_options: impl AsRef<str>) -> Vec<Job> {
        jobs(&self.run(format!("RQ.LEASE {}", key_consumer_options.as_ref())))
    }

    /// RQ.LEASE of exactly one job.
    #[track_caller]
    pub fn lease_one(&self, key_consumer_options: impl AsRef<str>) -> Job {
        let mut jobs = self.lease(key_consumer_options);
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    /// RQ.GET of a job that is there.
    #[track_caller]
    pub fn job(&self, key: &str, id: &str) -> Fields {
        self.run(format!("RQ.GET {key} {id}")).fields()
    }

    /// The state of a job, or "gone".
    #[track_caller]
    pub fn state(&self, key: &str, id: &str) -> String {
        let reply = self.run(format!("RQ.GET {key} {id}"));
        if reply.is_null() { "gone".to_owned() } else { reply.fields()["state"].text().to_owned() }
    }

    /// RQ.INFO of a queue that is there.
    #[track_caller]
    pub fn info(&self, key: &str) -> Fields {
        self.run(format!("RQ.INFO {key}")).fields()
    }

    /// The payloads of all jobs of one state, in the order of RQ.PEEK.
    #[track_caller]
    pub fn peek(&self, key: &str, state: &str) -> Vec<String> {
        let reply = self.run(format!("RQ.PEEK {key} {state} COUNT 1000"));
        assert_eq!(reply.array()[0], "0", "one page: {reply:?}");
        reply.array()[1].array().iter().map(|job| job.fields()["payload"].text().to_owned()).collect()
    }

    /// Payloads in the order in which RQ.LEASE hands the jobs out. They stay leased.
    #[track_caller]
    pub fn lease_order(&self, key: &str) -> Vec<String> {
        let jobs = self.lease(format!("{key} order COUNT 1000 LEASE 3600000"));
        jobs.iter().map(Job::text).collect()
    }

    /// Every job of every state, as RQ.PEEK shows it.
    #[track_caller]
    pub fn all_jobs(&self, key: impl AsRef<[u8]>) -> Vec<Fields> {
        let mut all = Vec::new();
        for state in ["READY", "DELAYED", "LEASED", "DEAD", "DONE"] {
            let mut cursor = b"0".to_vec();
            loop {
                let words = [b"RQ.PEEK", key.as_ref(), state.as_bytes(), b"CURSOR", &cursor, b"COUNT", b"1000"];
                let reply = self.cmd(&words);
                all.extend(reply.array()[1].array().iter().map(Reply::fields));
                cursor = reply.array()[0].bytes().to_vec();
                if cursor == b"0" {
                    break;
                }
            }
        }
        all
    }

    /// DEBUG DIGEST-VALUE.
    #[track_caller]
    pub fn digest(&self, key: &str) -> String {
        self.run(format!("DEBUG DIGEST-VALUE {key}")).array()[0].text().to_owned()
    }
}

/// A leased job, as RQ.LEASE replies it. As text: `id token`.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: String,
    pub token: i64,
    pub deliveries: i64,
    pub payload: Vec<u8>,
    pub lease_ms: i64,
    /// With META.
    pub meta: Option<Fields>,
}

impl Job {
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.payload.clone()).expect("text as the payload")
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.token)
    }
}

/// The jobs in a reply of RQ.LEASE; none if it is null.
#[track_caller]
pub fn jobs(reply: &Reply) -> Vec<Job> {
    if reply.is_null() {
        return Vec::new();
    }
    let jobs = reply.array();
    assert!(!jobs.is_empty(), "an empty array where null is meant");
    jobs.iter()
        .map(|job| {
            let job = job.array();
            Job {
                id: job[0].text().to_owned(),
                token: job[1].int(),
                deliveries: job[2].int(),
                payload: job[3].bytes().to_vec(),
                lease_ms: job[4].int(),
                meta: job.get(5).map(Reply::fields),
            }
        })
        .collect()
}

/// The ids of jobs.
pub fn ids(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.id.clone()).collect()
}

/// Waits until the condition holds; fails with the description if it never does.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience();
    while !holds() {
        assert!(Instant::now() < deadline, "waited {:?} for this: {what}", patience());
        std::thread::sleep(Duration::from_millis(1));
    }
}
