//! Batches taken apart into their ops, and put together anew.

use rq_core::Effects;

use crate::support::lively::Dice;

/// A batch: its beginning, and its ops.
pub struct Pieces {
    pub header: Vec<u8>,
    pub ops: Vec<Vec<u8>>,
}

/// Takes a batch apart where it may end: what comes before such a place decodes.
pub fn pieces(batch: &[u8]) -> Pieces {
    let decodes = |len: &usize| rq_core::apply_absent(&batch[..*len], &mut Effects::new()).is_ok();
    let ends: Vec<usize> = (0..=batch.len()).filter(decodes).collect();
    assert_eq!(ends.last(), Some(&batch.len()), "a real batch decodes");
    let ops = ends.windows(2).map(|ends| batch[ends[0]..ends[1]].to_vec()).collect();
    Pieces { header: batch[..ends[0]].to_vec(), ops }
}

pub fn put_together(header: &[u8], ops: &[Vec<u8>]) -> Vec<u8> {
    [header, &ops.concat()].concat()
}

/// A few changes: ops that are left out, repeated, moved, taken from others, or have another
/// number in them.
pub fn shuffle(dice: &mut Dice, mut ops: Vec<Vec<u8>>, others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    for _ in 0..dice.below(4) {
        if ops.is_empty() {
            break;
        }
        let at = dice.below(ops.len());
        match dice.below(8) {
            0 => drop(ops.remove(at)),
            1 => ops.insert(at, ops[at].clone()),
            2 => {
                let with = dice.below(ops.len());
                ops.swap(at, with);
            }
            3 => {
                let op = ops.remove(at);
                let to = dice.below(ops.len() + 1);
                ops.insert(to, op);
            }
            4 if !others.is_empty() => ops.insert(at, dice.pick(others).clone()),
            _ => change_number(dice, &mut ops[at]),
        }
    }
    ops
}

/// Puts another number where one is: of seven bits a byte, the highest bit saying that it goes on.
fn change_number(dice: &mut Dice, op: &mut Vec<u8>) {
    let from = dice.below(op.len());
    let len = op[from..].iter().take(10).position(|byte| byte & 0x80 == 0).map_or(1, |last| last + 1);
    let old = op[from..from + len].iter().rev().fold(0u64, |n, byte| n << 7 | u64::from(byte & 0x7f));
    let new = match dice.below(4) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ (1 << dice.below(64)),
        _ => *dice.pick(&[0, 1, 2, 0x7f, 0x80, 0x3fff, 1_700_000_000_000, 253_402_300_799_999, (1 << 53) - 1, 1 << 53, u64::MAX >> 1, u64::MAX]),
    };
    op.splice(from..from + len, varint(new));
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0x7f {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}
