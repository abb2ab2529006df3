//! Arguments made by the syntax of the command table, and then spoiled a little.

use rq_core::syntax::{parse, Arg, Kind};
use rq_core::table::Command;

use crate::support::lively::Dice;
use crate::support::{at, field, items, string, Driver};
use rq_core::Tree;

/// Jobs that there are, with their tokens.
pub struct Known(Vec<(String, u64)>);

impl Known {
    pub fn of(q: &mut Driver) -> Known {
        let mut known = vec![("1-0".to_string(), 1)];
        for state in ["READY", "DELAYED", "LEASED", "DEAD", "DONE"] {
            let page = q.ask("RQ.PEEK", &[state.as_bytes(), b"COUNT", b"20", b"NOPAYLOAD"]);
            known.extend(items(at(&page, 1)).iter().map(|job| {
                let token = match field(job, "token") {
                    Tree::Int(token) => token as u64,
                    _ => 7,
                };
                (string(&field(job, "id")), token)
            }));
        }
        Known(known)
    }
}

/// Arguments after the key.
pub fn arguments(dice: &mut Dice, command: &Command, known: &Known) -> Vec<Vec<u8>> {
    let syntax = parse(command.syntax).expect("the table's own syntax");
    let mut words = Vec::new();
    // Pairs of id and token belong together.
    let job = dice.pick(&known.0).clone();
    for arg in syntax.iter().filter(|arg| arg.kind != Kind::Key) {
        write(dice, arg, &job, &mut words);
    }
    for _ in 0..dice.below(8).saturating_sub(4) {
        spoil(dice, &mut words);
    }
    words
}

fn write(dice: &mut Dice, arg: &Arg, job: &(String, u64), words: &mut Vec<Vec<u8>>) {
    if arg.optional && dice.below(3) > 0 {
        return;
    }
    for _ in 0..if arg.multiple { 1 + dice.below(3) } else { 1 } {
        if let Some(keyword) = arg.keyword.as_ref().filter(|_| arg.kind != Kind::Word) {
            words.push(cased(dice, keyword));
        }
        match &arg.kind {
            Kind::Key => words.push(b"q".to_vec()),
            Kind::Word => words.push(cased(dice, arg.keyword.as_ref().unwrap_or(&arg.name))),
            Kind::String if arg.name == "id" => words.push(job.0.clone().into_bytes()),
            Kind::Integer if arg.name == "token" => words.push(job.1.to_string().into_bytes()),
            Kind::String => words.push(dice.pick(&[&b"a"[..], b"bb", b"", b"READY", b"\xff\x00\r\n", b"0", b"50", b"COUNT"]).to_vec()),
            Kind::Integer => words.push(number(dice)),
            Kind::UnixTime => words.push(dice.pick(&["1700000000000", "1700000003500", "253402300799999", "99999999999"]).as_bytes().to_vec()),
            Kind::OneOf(choices) => {
                let choice = dice.pick(choices);
                write(dice, choice, job, words);
            }
            Kind::Block(args) => args.iter().for_each(|arg| write(dice, arg, job, words)),
        }
    }
}

fn number(dice: &mut Dice) -> Vec<u8> {
    let usual = [1, 1, 2, 3, 5, 40, 100, 1_000];
    match dice.below(12) {
        0 => dice.pick(&["0", "-1", "-128", "127", "128", "9007199254740991", "18446744073709551616", "1.5", "+1", "007"]).as_bytes().to_vec(),
        _ => dice.pick(&usual).to_string().into_bytes(),
    }
}

fn cased(dice: &mut Dice, word: &str) -> Vec<u8> {
    match dice.below(4) {
        0 => word.to_ascii_lowercase().into_bytes(),
        _ => word.as_bytes().to_vec(),
    }
}

fn spoil(dice: &mut Dice, words: &mut Vec<Vec<u8>>) {
    let place = dice.below(words.len() + 1);
    let odd: Vec<u8> = (0..dice.below(12)).map(|_| dice.below(256) as u8).collect();
    if place == words.len() {
        return words.push(odd);
    }
    match dice.below(7) {
        0 => drop(words.remove(place)),
        1 => words.insert(place, words[place].clone()),
        2 => {
            let with = dice.below(words.len());
            words.swap(place, with);
        }
        3 => words[place] = odd,
        4 => words.truncate(place),
        5 => {
            let len = dice.below(words[place].len() + 1);
            words[place].truncate(len);
        }
        _ => {
            let times = 1 + dice.below(200);
            words[place] = words[place].repeat(times);
        }
    }
}
