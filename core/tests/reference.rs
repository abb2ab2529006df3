//! The command reference is made from the table: this test holds the two together.
//! `RQ_UPDATE=1 cargo test -p rq-core --test reference` writes it anew.

use std::fmt::Write as _;

use rq_core::findings::FINDINGS;
use rq_core::table::{Access, Keys, COMMANDS};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/COMMANDS.md");

const DOCTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/DOCTOR.md");

const DOCTOR_HEAD: &str = "# What RQ.DOCTOR finds

Made from the table of findings (`core/src/findings.rs`); do not edit by hand.

`RQ.DOCTOR` replies an array of `[severity, code, finding, remedy]`, the worst first; `RQ.DOCTOR JSON` the same
as a list of objects. The remedy is the line to type, in redis-cli or valkey-cli; when it has worked,
the finding is gone. Findings are about now: what was in order again before is in the log and in
`INFO rq`. `RQ.DOCTOR KEY key` looks at one queue, `RQ.DOCTOR` at up to 1,000 of the database. On a
replica, lines that write are for its primary. What `CONFIG SET` has mended, `CONFIG REWRITE` keeps.

`critical`: jobs can be lost, or are about to be refused. `warning`: jobs can be lost in a crash, are
held up, or run twice. `notice`: worth to know.
";

fn doctor() -> String {
    let mut page = DOCTOR_HEAD.to_string();
    for finding in FINDINGS {
        let _ = write!(page, "\n## {}\n\n{}: {}.\n\n    {}\n", finding.code, finding.severity.name(), finding.text, finding.remedy);
    }
    page
}

#[test]
fn the_list_of_findings_is_the_table() {
    let made = doctor();
    if std::env::var_os("RQ_UPDATE").is_some() {
        std::fs::write(DOCTOR, &made).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(DOCTOR).unwrap_or_default();
    assert!(kept == made, "docs/DOCTOR.md is not what the table says: run\n  RQ_UPDATE=1 cargo test -p rq-core --test reference");
}

const HEAD: &str = "# Commands

Made from the command table (`core/src/table.rs`); do not edit by hand.

Keywords are case-insensitive. Payloads, names and error texts are binary-safe. Times are
milliseconds; `AT`, `AFTER` and `BEFORE` take Unix milliseconds (a value below 10^11 is refused: it
looks like seconds). A number out of range is refused with its range; a refused command changes
nothing. Commands that settle jobs reply one code per pair, also for one pair. In RESP2 a map is a
flat array of names and values, and nothing is the null array; in RESP3 it is a map, and null.
";

fn page() -> String {
    let mut page = HEAD.to_string();
    for command in COMMANDS {
        let name = command.name.to_uppercase();
        let access = match command.access {
            _ if command.verb.keys() == Keys::None => "none",
            _ if matches!(command.verb.keys(), Keys::After(_)) => "reads (`%R~`), if one is given",
            Access::Read => "reads (`%R~`)",
            Access::Insert => "adds (`%W~`)",
            Access::ReadWrite => "reads and writes (`%R~` and `%W~`)",
            Access::Update => "writes (`%W~`)",
        };
        let _ = write!(page, "\n## {name}\n\n");
        for (n, form) in command.syntax.split(" | key ").enumerate() {
            let key = if n == 0 { "" } else { "key " };
            let _ = writeln!(page, "    {name} {key}{form}");
        }
        let _ = write!(
            page,
            "\n{}\n\n- Reply: {}\n- Cost: {}\n- Key: {access}\n- Flags: {}\n",
            command.summary, command.reply, command.complexity, command.flags
        );
    }
    page
}

#[test]
fn the_command_reference_is_the_table() {
    let made = page();
    if std::env::var_os("RQ_UPDATE").is_some() {
        std::fs::write(PAGE, &made).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(kept == made, "docs/COMMANDS.md is not what the table says: run\n  RQ_UPDATE=1 cargo test -p rq-core --test reference");
}
