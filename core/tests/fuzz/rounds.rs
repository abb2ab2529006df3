//! How long to go on, and with which seeds.

use std::time::{Duration, Instant};

use crate::support::lively::Dice;

#[allow(clippy::disallowed_methods, reason = "the core must not read it, who runs tests may say how long")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says which seed it was if a round fails.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {0}: RQ_FUZZ_SEED={0} repeats it", self.0);
        }
    }
}

/// Does so many rounds, each with its own dice; or as many as there is time for. Whether there
/// were at least as many as usual.
#[allow(clippy::disallowed_methods, reason = "the core must not read a clock, who runs tests may")]
pub fn rounds(usual: u64, mut round: impl FnMut(&mut Dice)) -> bool {
    if let Some(seed) = number("RQ_FUZZ_SEED") {
        let _naming = Naming(seed);
        round(&mut dice(seed));
        return false;
    }
    let time = number("RQ_FUZZ_SECONDS").map(Duration::from_secs);
    let (from, began) = (number("RQ_FUZZ_FROM").unwrap_or(0), Instant::now());
    let mut done = 0;
    while time.map_or(done < usual, |time| began.elapsed() < time) {
        let _naming = Naming(from + done);
        round(&mut dice(from + done));
        done += 1;
    }
    if time.is_some() {
        eprintln!("{done} rounds from seed {from}");
    }
    done >= usual
}

fn dice(seed: u64) -> Dice {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    Dice(mixed | 1)
}
