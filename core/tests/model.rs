//! Random commands on the real queue and on a reference, which must agree in every reply.
//!
//! `PROPTEST_CASES` raises the number of runs, `PROPTEST_RNG_SEED` gives others. A failure
//! prints the shortest run found, as lines for redis-cli.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

mod model {
    pub mod op;
    pub mod queue;
    pub mod run;
    pub mod steps;
    pub mod verbs;
    pub mod view;
}

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use model::run::Run;
use model::steps::steps;

#[test]
fn the_queue_and_the_reference_agree() {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20_240_229);
    }
    let result = TestRunner::new(config).run(&steps(), |steps| {
        let mut run = Run::new();
        for step in steps {
            if let Err(difference) = run.step(step) {
                return Err(TestCaseError::fail(format!("{difference}\n\n{}\n", run.transcript())));
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        let text = error.to_string();
        // The list of steps as values is of no use beside the list of commands.
        panic!("{}", text.split("\nminimal failing input").next().unwrap_or(&text));
    }
}
