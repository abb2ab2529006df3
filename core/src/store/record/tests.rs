//! Which form a job's record takes, and that none forgets anything.

use super::*;

const ID: JobId = JobId { ms: 1_700_000_000_123, seq: 7 };

fn delivered() -> More {
    More {
        token: 1_700_000_000_200_001,
        consumer: Some(3),
        lease_ms: 30_000,
        until: 1_700_000_030_200,
        old_place: 1_700_000_000_150,
        first_delivered_at: 1_700_000_000_200,
        last_delivered_at: 1_700_000_000_200,
        deliveries: 1,
        total_deliveries: 1,
        ..More::default()
    }
}

#[track_caller]
fn same(place: u64, priority: i8, more: &More) -> Record {
    let facts = Facts { id: ID, state: State::Leased, place, priority, more: more.clone() };
    let mut record = Record::pack(&mut facts.clone());
    assert_eq!(*record.more(place), *more);
    assert_eq!(record.last_delivered_at(), more.last_delivered_at);
    let outline = record.outline(ID, State::Leased, 7);
    assert_eq!(format!("{outline:?}"), format!("{:?}", facts.outline(7)));
    let mut taken = record.take(ID, State::Leased);
    assert_eq!(taken, facts);
    record.put_back(&mut taken);
    assert_eq!(record.clone().take(ID, State::Leased), facts);
    record
}

#[test]
fn the_common_jobs_are_short() {
    for (place, priority) in [(ID.ms, 0), (ID.ms + 315_360_000_000, -128), (5_000, 127)] {
        let short = same(place, priority, &More::default());
        assert!(matches!(short, Record::Waiting(_)) || place == 5_000);
    }
    let options = More {
        own_lease_ms: 31_536_000_000,
        own_max_deliveries: Some(0),
        ttl_ms: 315_360_000_000,
        ttl_at: 253_402_300_799_999,
        group: Some(u32::MAX),
        ..More::default()
    };
    assert!(matches!(same(ID.ms, 3, &options), Record::Waiting(_)));
    let leased = delivered();
    assert!(matches!(same(leased.old_place, -1, &leased), Record::Delivered(_)));
    let done = More { settled: Settled::Finished, ..delivered() };
    assert!(matches!(same(done.old_place, 0, &done), Record::Delivered(_)));
}

#[test]
fn what_has_a_history_is_packed() {
    let history: [fn(&mut More); 16] = [
        |more| more.deliveries = 2,
        |more| (more.failures, more.budget_failures) = (7, u64::from(u32::MAX)),
        |more| (more.expiries, more.budget_expiries) = (8, 3),
        |more| (more.releases, more.redrives, more.total_deliveries) = (9, 10, 11),
        |more| more.last_delivered_at = 1,
        |more| more.first_delivered_at = 2,
        |more| more.back_since = 1_700_000_000_300,
        |more| more.old_place = 1,
        |more| more.consumer = None,
        |more| (more.consumer, more.deliveries) = (Some(u32::MAX), 3),
        |more| more.error = Box::from(*b"no"),
        |more| more.group = Some(1),
        |more| more.settled = Settled::Released,
        |more| more.reason = Some(Reason::Ttl),
        |more| (more.own_lease_ms, more.ttl_ms, more.ttl_at) = (1 << 39, 1 << 38, 1 << 47),
        |more| more.own_max_deliveries = Some(0),
    ];
    let mut all = delivered();
    for change in history {
        let mut more = delivered();
        change(&mut more);
        change(&mut all);
        assert!(matches!(same(1_700_000_000_150, 0, &more), Record::Packed(_)), "{more:?}");
        assert!(matches!(same(1_700_000_999_150, -128, &all), Record::Packed(_)), "{all:?}");
    }
    assert!(matches!(same(0, 0, &More::default()), Record::Packed(_)));
}

#[test]
fn whatever_is_unusual_is_kept_in_full() {
    let unusual: [fn(&mut More); 9] = [
        |more| more.failures = 1 << 32,
        |more| more.token = u64::MAX,
        |more| more.until = u64::MAX,
        |more| more.lease_ms = 1 << 40,
        |more| more.dedup = Some(b"k"[..].into()),
        |more| more.dedup_window_ms = 1,
        |more| more.schedule = Some(b"s"[..].into()),
        |more| more.slot_at = 1,
        |more| (more.error, more.result) = (Box::from(*b"no"), Box::from(*b"yes")),
    ];
    for change in unusual {
        let mut more = delivered();
        change(&mut more);
        assert!(matches!(same(1_700_000_000_150, 0, &more), Record::Full(_)), "{more:?}");
    }
    assert!(matches!(same(u64::MAX, 0, &More::default()), Record::Full(_)));
}

/// Whatever becomes of a job, its record has all of it, and no form holds a job for ever.
#[test]
fn a_record_takes_the_form_of_the_job() {
    let facts = |more: More| Facts { id: ID, state: State::Delayed, place: ID.ms, priority: 0, more };
    let mut record = Record::pack(&mut facts(More::default()));
    let retried = More { failures: 1, error: Box::from(*b"no"), ..delivered() };
    let keyed = More { dedup: Some(b"k"[..].into()), ..retried.clone() };
    for more in [delivered(), retried.clone(), keyed, retried, More::default()] {
        record.take(ID, State::Delayed);
        record.put_back(&mut facts(more.clone()));
        assert_eq!(record.clone().take(ID, State::Delayed), facts(more));
    }
    assert!(matches!(record, Record::Waiting(_)));
}
