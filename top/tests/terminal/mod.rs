//! A program on a pseudo terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::harness::wait_until;

/// The program and what it has written so far. It is killed when this is dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn start(mut command: Command) -> Terminal {
        let (ours, theirs) = open();
        let other = || Stdio::from(theirs.try_clone().expect("the terminal"));
        let child = command.stdin(other()).stdout(other()).stderr(other()).spawn().expect("start it");
        // The command has copies; the last one closed ends the reading below.
        drop((command, theirs));
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut screen = File::from(ours.try_clone().expect("the terminal"));
        let all = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut buffer) {
                all.lock().expect("what was written").extend(&buffer[..n]);
            }
        });
        Terminal { child, keyboard: File::from(ours), written }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("press keys");
    }

    /// Waits until this was written since the last time. What is on the screen already is not
    /// written again, and blanks may be left out: so wait for words.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let all = || String::from_utf8_lossy(&self.written.lock().expect("what was written")).into_owned();
        wait_until(&format!("{text:?} on the terminal"), || {
            let all = all();
            all.contains(text) || blanks(&all).contains(text)
        });
        self.written.lock().expect("what was written").clear();
    }

    /// Waits for its end, which must be a good one, with the terminal as it was.
    #[track_caller]
    pub fn ends(mut self) {
        wait_until("the program's end", || self.child.try_wait().expect("wait for it").is_some());
        let status = self.child.wait().expect("wait for it");
        // It leaves the alternate screen.
        wait_until("the old screen", || {
            self.written.lock().expect("what was written").windows(8).any(|bytes| bytes == b"\x1b[?1049l")
        });
        assert!(status.success(), "{status}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let written = self.written.lock().expect("what was written");
            eprintln!("--- on the terminal: {}", written.escape_ascii());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Moves of the cursor as blanks.
fn blanks(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let end = part.find(|each: char| each.is_ascii_alphabetic()).unwrap_or(0);
        let (code, rest) = part.split_at(end);
        if rest.starts_with('H') && !code.is_empty() {
            plain.push(' ');
        }
        plain.push_str(rest.get(1..).unwrap_or(""));
    }
    plain
}

/// Both ends of a new pseudo terminal, of 100 columns and 30 lines; the first one is ours.
fn open() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are to what they say or null, which openpty allows for the name and
    // the settings; after a success both descriptors are open and nobody else's.
    unsafe {
        let done = libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size);
        assert_eq!(done, 0, "openpty: {}", std::io::Error::last_os_error());
        for end in [ours, theirs] {
            // Other children must not hold it open.
            libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}
