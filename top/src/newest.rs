//! The newest dead jobs of a queue. RQ.PEEK begins with the oldest, and its cursors stay good
//! when jobs go: so this follows the list to its end, some pages each time, and then keeps the
//! place where the last page began.

use std::collections::VecDeque;

use crate::model::Dead;

/// How many are kept.
const MOST: usize = 50;
/// How many are read in one call, and in how many calls each time.
const PAGE: u64 = 250;
const PAGES: usize = 20;

const BEGINNING: &[u8] = b"0";

/// How many are dead, and how many ever were.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Counts {
    pub now: u64,
    pub ever: u64,
}

/// What was read so far.
#[derive(Debug, Default)]
pub struct Newest {
    queue: Vec<u8>,
    /// Where the next page begins.
    cursor: Vec<u8>,
    /// Those before the cursor, the oldest first.
    before: VecDeque<Dead>,
    /// Those of the page at the cursor, likewise.
    page: Vec<Dead>,
    /// What was counted when it was read.
    counts: Counts,
    behind: bool,
}

impl Newest {
    /// Reads on, by `peek` of a cursor and a count, which returns the next cursor and jobs. Asks
    /// for nothing if all was read and nothing has changed since.
    pub fn read<E>(
        &mut self,
        queue: &[u8],
        counts: Counts,
        mut peek: impl FnMut(&[u8], u64) -> Result<(Vec<u8>, Vec<Dead>), E>,
    ) -> Result<(), E> {
        let another = self.queue != queue || self.cursor.is_empty() || counts.ever < self.counts.ever;
        if !another && !self.behind && counts == self.counts {
            return Ok(());
        }
        let gone = |counts: Counts| counts.ever.saturating_sub(counts.now);
        if another {
            *self = Newest { queue: queue.to_vec(), cursor: BEGINNING.to_vec(), ..Newest::default() };
        } else if gone(counts) != gone(self.counts) {
            // Some came back or were removed; which ones is not known.
            self.before.clear();
        }
        // Unless all of it succeeds, the next time reads again.
        self.behind = true;
        self.counts = counts;
        for _ in 0..PAGES {
            let (next, jobs) = peek(&self.cursor, PAGE)?;
            self.behind = next != BEGINNING;
            if self.behind {
                self.before.extend(jobs);
                self.before.drain(..self.before.len().saturating_sub(MOST));
                self.cursor = next;
            } else if jobs.is_empty() && self.before.is_empty() && self.cursor != BEGINNING {
                // All after the cursor are gone, those before it may be the newest.
                self.cursor = BEGINNING.to_vec();
            } else {
                self.page = jobs;
                break;
            }
        }
        Ok(())
    }

    /// The newest first.
    pub fn jobs(&self) -> impl Iterator<Item = &Dead> {
        let page = if self.behind { &[][..] } else { &self.page };
        page.iter().rev().chain(self.before.iter().rev()).take(MOST)
    }

    /// Whether there are newer ones that were not read yet.
    pub fn is_behind(&self) -> bool {
        self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u64) -> Dead {
        Dead { id: n.to_string().into(), reason: "failed".into(), deliveries: 1, consumer: None, error: None, dead_at: n }
    }

    /// A list that numbers its jobs; a cursor is the number after which it goes on, as RQ's.
    fn peek(list: &[u64], cursor: &[u8], count: u64) -> (Vec<u8>, Vec<Dead>) {
        let after: u64 = std::str::from_utf8(cursor).unwrap().parse().unwrap();
        let mut left = list.iter().copied().filter(|n| *n > after);
        let page: Vec<u64> = left.by_ref().take(usize::try_from(count).unwrap()).collect();
        let next = if left.next().is_some() { page.last().copied().unwrap_or(0) } else { 0 };
        (next.to_string().into(), page.into_iter().map(job).collect())
    }

    /// The jobs that are shown, and how many calls it took. As many ever died as the last number says.
    fn read(newest: &mut Newest, queue: &str, list: &[u64]) -> (Vec<u64>, usize) {
        let mut calls = 0;
        let counts = Counts { now: list.len() as u64, ever: list.last().copied().unwrap_or(0).max(newest.counts.ever) };
        let result = newest.read(queue.as_bytes(), counts, |cursor, count| {
            calls += 1;
            Ok::<_, ()>(peek(list, cursor, count))
        });
        result.unwrap();
        (newest.jobs().map(|job| job.dead_at).collect(), calls)
    }

    #[test]
    fn a_short_list_is_read_at_once() {
        let mut newest = Newest::default();
        assert_eq!(read(&mut newest, "q", &[]), (vec![], 1));
        assert_eq!(read(&mut newest, "q", &[1, 2, 3]), (vec![3, 2, 1], 1));
        assert_eq!(read(&mut newest, "q", &[1, 2, 3]), (vec![3, 2, 1], 0), "nothing has changed");
        assert_eq!(read(&mut newest, "q", &[1, 3]), (vec![3, 1], 1), "one came back");
        assert_eq!(read(&mut newest, "other", &[7]), (vec![7], 1));
    }

    #[test]
    fn a_long_list_is_followed_to_its_end_and_then_read_from_there() {
        let mut newest = Newest::default();
        let mut list: Vec<u64> = (1..=7400).collect();
        assert_eq!(read(&mut newest, "q", &list).1, PAGES);
        assert!(newest.is_behind());
        assert_eq!(read(&mut newest, "q", &list).0[..2], [7400, 7399]);
        assert!(!newest.is_behind());
        list.push(7401);
        let (jobs, calls) = read(&mut newest, "q", &list);
        assert_eq!((jobs[0], jobs.len(), calls), (7401, MOST, 1));
    }

    #[test]
    fn just_after_a_page_those_before_it_are_still_shown() {
        let mut newest = Newest::default();
        let list: Vec<u64> = (1..=251).collect();
        let (jobs, _) = read(&mut newest, "q", &list);
        assert_eq!((jobs[0], jobs[1], jobs.len()), (251, 250, MOST));
    }

    #[test]
    fn what_came_back_is_shown_no_more() {
        let mut newest = Newest::default();
        read(&mut newest, "q", &(1..=2500).collect::<Vec<_>>());
        assert_eq!(read(&mut newest, "q", &[2100, 2200]).0, [2200, 2100]);
        assert_eq!(read(&mut newest, "q", &[5]).0, [5], "all after the cursor are gone");
        assert_eq!(read(&mut newest, "q", &[5, 2501]).0, [2501, 5]);
        assert_eq!(read(&mut newest, "q", &[]).0, [0; 0]);
    }

    #[test]
    fn after_a_failure_it_is_read_again() {
        let mut newest = Newest::default();
        let counts = Counts { now: 1, ever: 1 };
        assert_eq!(newest.read(b"q", counts, |_, _| Err("NOPERM")), Err("NOPERM"));
        assert_eq!(read(&mut newest, "q", &[1]), (vec![1], 1));
    }

    #[test]
    fn another_queue_of_the_same_name() {
        let mut newest = Newest::default();
        read(&mut newest, "q", &(1..=2500).collect::<Vec<_>>());
        newest.read(b"q", Counts { now: 1, ever: 1 }, |cursor, count| Ok::<_, ()>(peek(&[1], cursor, count))).unwrap();
        assert_eq!(newest.jobs().map(|job| job.dead_at).collect::<Vec<_>>(), [1]);
    }
}
