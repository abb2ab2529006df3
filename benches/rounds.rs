//! What a job costs: all contenders in turn on one server, round after round, so that what else
//! the machine does falls on all of them. Medians; a ratio is the median of the rounds' ratios.

use serde::{Deserialize, Serialize};

use crate::bullmq::BullMq;
use crate::contenders::{payload, Kind, Side};
use crate::harness::Server;
use crate::meter::{median, Cost, Meter};
use crate::{scaled, PAYLOADS};

const ROUNDS: usize = 5;
pub const BATCHES: [usize; 3] = [1, 10, 100];

/// One contender in one setting.
#[derive(Clone, Serialize, Deserialize)]
pub struct CostRow {
    pub aof: bool,
    pub replica: bool,
    pub payload: usize,
    /// Jobs per call.
    pub batch: usize,
    pub contender: String,
    #[serde(flatten)]
    pub cost: Cost,
    /// The same beside a stream, and the first beside a list and BullMQ.
    pub to_stream: Ratios,
    pub commands_to_list: Option<f64>,
    pub commands_to_bullmq: Option<f64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Ratios {
    pub commands: Option<f64>,
    pub main_thread: Option<f64>,
    pub aof_bytes: Option<f64>,
    pub replicated_bytes: Option<f64>,
    pub wall: Option<f64>,
}

/// All settings on one server.
pub fn measure(kinds: &[Kind], bullmq: bool) -> Vec<CostRow> {
    let mut rows = Vec::new();
    for (aof, replica) in [(false, false), (true, false), (false, true), (true, true)] {
        let config: &[&str] = if aof { &crate::WITH_AOF } else { &crate::PLAIN };
        let server = Server::with(config);
        let _replica = replica.then(|| server.replica(&crate::PLAIN));
        let mut bullmq = bullmq.then(|| BullMq::start(server.port));
        for size in PAYLOADS {
            for batch in BATCHES {
                let setting = CostRow {
                    aof,
                    replica,
                    payload: size,
                    batch,
                    contender: String::new(),
                    cost: Cost::default(),
                    to_stream: Ratios { commands: None, main_thread: None, aof_bytes: None, replicated_bytes: None, wall: None },
                    commands_to_list: None,
                    commands_to_bullmq: None,
                };
                rows.extend(take_turns(&server, kinds, bullmq.as_mut(), &setting));
            }
        }
    }
    rows
}

fn take_turns(server: &Server, kinds: &[Kind], mut bullmq: Option<&mut BullMq>, setting: &CostRow) -> Vec<CostRow> {
    let batch = setting.batch;
    let kinds: Vec<Kind> = kinds
        .iter()
        .copied()
        .filter(|kind| *kind != Kind::RqAckLease || batch == 1)
        .chain(bullmq.is_some().then_some(Kind::BullMq))
        .collect();
    let mut sides: Vec<Side> = kinds.iter().map(|kind| Side::new(*kind, server.port, 0)).collect();
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); kinds.len()];
    // Round 0 warms up.
    for round in 0..=ROUNDS {
        for ((kind, side), costs) in kinds.iter().zip(&mut sides).zip(&mut costs) {
            let jobs = jobs_of_a_round(*kind, batch);
            let meter = Meter::start(server);
            match (kind, &mut bullmq) {
                (Kind::BullMq, Some(bullmq)) => bullmq.cost(jobs, batch, setting.payload),
                (Kind::RqAckLease, _) => run_with_next(side, jobs, setting.payload),
                _ => run(side, jobs, batch, setting.payload),
            }
            let cost = meter.stop(jobs, *kind == Kind::BullMq);
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    kinds.iter().zip(&costs).map(|(kind, own)| row(*kind, own, &kinds, &costs, setting)).collect()
}

fn jobs_of_a_round(kind: Kind, batch: usize) -> usize {
    let jobs = match (kind, batch) {
        (Kind::BullMq, 1) => 300,
        (Kind::BullMq, _) => 1_000,
        (_, 1) => 1_000,
        (_, 10) => 4_000,
        _ => 10_000,
    };
    scaled(jobs).max(batch).div_ceil(batch) * batch
}

fn run(side: &mut Side, jobs: usize, batch: usize, size: usize) {
    for from in (0..jobs as u64).step_by(batch) {
        let payloads: Vec<Vec<u8>> = (from..from + batch as u64).map(|n| payload(n, size)).collect();
        side.push(&payloads);
        let taken = side.take(batch, false);
        assert_eq!(taken.len(), batch, "a whole batch");
        side.finish(&taken);
    }
}

/// One job ahead, so that there always is a next one.
fn run_with_next(side: &mut Side, jobs: usize, size: usize) {
    side.push(&[payload(0, size)]);
    let mut taken = side.take(1, false);
    for n in 1..jobs as u64 {
        side.push(&[payload(n, size)]);
        taken = side.next(&taken, 1, false);
    }
    side.finish(&taken);
}

fn row(kind: Kind, own: &[Cost], kinds: &[Kind], costs: &[Vec<Cost>], setting: &CostRow) -> CostRow {
    let of = |figure: fn(&Cost) -> f64| median(own.iter().map(figure));
    let ratio = |to: Kind, figure: fn(&Cost) -> f64| {
        let base = costs.get(kinds.iter().position(|kind| *kind == to)?)?;
        let ratios = own.iter().zip(base).filter(|(_, base)| figure(base) > 0.0).map(|(own, base)| figure(own) / figure(base));
        Some(median(ratios)).filter(|ratio| ratio.is_finite())
    };
    CostRow {
        contender: kind.name().to_owned(),
        cost: Cost {
            commands_us: of(|cost| cost.commands_us),
            main_thread_us: of(|cost| cost.main_thread_us),
            aof_bytes: of(|cost| cost.aof_bytes),
            replicated_bytes: of(|cost| cost.replicated_bytes),
            wall_us: of(|cost| cost.wall_us),
        },
        to_stream: Ratios {
            commands: ratio(Kind::Stream, |cost| cost.commands_us),
            main_thread: ratio(Kind::Stream, |cost| cost.main_thread_us),
            aof_bytes: ratio(Kind::Stream, |cost| cost.aof_bytes),
            replicated_bytes: ratio(Kind::Stream, |cost| cost.replicated_bytes),
            wall: ratio(Kind::Stream, |cost| cost.wall_us),
        },
        commands_to_list: ratio(Kind::List, |cost| cost.commands_us),
        commands_to_bullmq: ratio(Kind::BullMq, |cost| cost.commands_us),
        ..setting.clone()
    }
}
