//! Which runs are claimed next: a pure function of what claims and scans returned.
//!
//! A queue holds the waiting runs of one namespace and one priority.
//!
//! ```text
//!        +--- scan: which queues hold runs (rarely)
//!        v
//!   Queues --ask--> Ask (one row per queue) --claim statement--> runs --learn--> Queues
//! ```

use crate::domain::execution::Execution;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most queues that one scan lists and that are known at a time. With more queues, each scan
/// begins after the last one.
pub(super) const MAX_QUEUES: usize = 256;
/// How far before the last claimed run of a queue a claim begins. A run that became ready earlier
/// may have been committed later.
const MARGIN: TimeDelta = TimeDelta::seconds(5);
/// How often queues are scanned from their front, for runs committed later than the margin allows.
const SCAN_FRONT_EVERY: TimeDelta = TimeDelta::seconds(5);
/// The shortest time between two scans, and the longest while more runs wait than slots are free.
const SCAN_PAUSE: TimeDelta = TimeDelta::milliseconds(50);
const SCAN_EVERY: TimeDelta = TimeDelta::seconds(1);
/// How long an empty queue stays known.
const KEPT: TimeDelta = TimeDelta::minutes(1);
/// Every so many slots of a namespace, one goes to its oldest run whatever the priority.
const OLDEST_EVERY: usize = 8;

/// A namespace and a priority.
pub(super) type Key = (String, i16);

/// What claims and scans returned about waiting runs. One for each process.
#[derive(Debug, Default)]
pub struct Queues {
    known: BTreeMap<Key, Queue>,
    /// Slots given since the last one that went by age, by namespace.
    turns: HashMap<String, usize>,
    swept_at: Option<DateTime<Utc>>,
    looked_at: Option<DateTime<Utc>>,
    /// The queue after which the next scan begins; none for the first.
    behind: Option<Key>,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    /// No run is expected to wait in it before this time.
    since: DateTime<Utc>,
    /// Whether the last claim took all its waiting runs.
    dry: bool,
    /// When a run was last found in it.
    seen_at: DateTime<Utc>,
}

/// How long ago the last scan for queues was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Just now: no more runs wait than were claimed.
    Fresh,
    /// Recently: the next one is due soon.
    Recent,
    /// Long enough ago: a scan is due.
    Due,
}

/// The parameters of one claim, as columns.
#[derive(Debug, Default)]
pub(super) struct Ask {
    pub(super) namespace: Vec<String>,
    pub(super) priority: Vec<i16>,
    pub(super) since: Vec<DateTime<Utc>>,
    pub(super) most: Vec<i32>,
    pub(super) held: Vec<i32>,
    pub(super) turn: Vec<i32>,
}

impl Queues {
    /// Lets the next claim begin at the front of every queue, because earlier claims missed a
    /// waiting run.
    pub fn scan_from_front(&mut self) {
        self.swept_at = None;
    }

    /// Whether a scan is due after a claim at `now`. A claim that left slots free makes one due
    /// soon, because unknown queues may exist. While claims fill every slot it is not urgent.
    pub(super) fn standing(&self, now: DateTime<Utc>, slots_left: bool) -> Scan {
        let pause = if slots_left { SCAN_PAUSE } else { SCAN_EVERY };
        match self.looked_at {
            Some(at) if at == now => Scan::Fresh,
            Some(at) if at < now && now - at < pause => Scan::Recent,
            Some(_) | None => Scan::Due,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The queue after which the next scan begins.
    pub(super) fn behind(&self) -> Key {
        self.behind.clone().unwrap_or((String::new(), i16::MIN))
    }

    /// Stores the queues that a scan listed, in its order. Returns whether to claim again at once:
    /// a queue was new, or some queues were not listed.
    pub(super) fn list(&mut self, now: DateTime<Utc>, listed: Vec<Key>) -> bool {
        self.looked_at = Some(now);
        let cut_off = listed.len() >= MAX_QUEUES;
        self.behind = listed.last().filter(|_| cut_off).cloned();
        let mut found = cut_off;
        for key in listed {
            let queue = self.known.entry(key).or_insert_with(|| {
                found = true;
                Queue { since: DateTime::UNIX_EPOCH, dry: false, seen_at: now }
            });
            queue.seen_at = now;
        }
        self.known.retain(|_, queue| now - queue.seen_at < KEPT);
        while self.known.len() > MAX_QUEUES {
            let oldest = self.known.iter().min_by_key(|(_, queue)| queue.seen_at);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.known.remove(&oldest);
        }
        let known = &self.known;
        self.turns.retain(|namespace, _| known.keys().any(|key| key.0 == *namespace));
        found
    }

    /// The claim for `slots` free slots, while each namespace occupies the slots in `held`.
    pub(super) fn ask(
        &mut self,
        now: DateTime<Utc>,
        slots: usize,
        held: &HashMap<String, usize>,
    ) -> Ask {
        if self.swept_at.is_none_or(|at| now < at || now - at >= SCAN_FRONT_EVERY) {
            self.swept_at = Some(now);
            self.known.values_mut().for_each(|queue| queue.since = DateTime::UNIX_EPOCH);
        }
        let share = self.fair_share(slots, held);
        let mut ask = Ask::default();
        for ((namespace, priority), queue) in &self.known {
            let held = held.get(namespace).copied().unwrap_or_default();
            ask.namespace.push(namespace.clone());
            ask.priority.push(*priority);
            ask.since.push(queue.since);
            ask.most.push(number(share.saturating_sub(held).clamp(1, slots.max(1))));
            ask.held.push(number(held));
            ask.turn.push(number(self.turns.get(namespace).copied().unwrap_or_default()));
        }
        ask
    }

    /// The slots that each waiting namespace would hold if all were equal. A claim locks no more
    /// runs than it may choose.
    fn fair_share(&self, slots: usize, held: &HashMap<String, usize>) -> usize {
        let queues = self.known.iter().filter(|(_, queue)| !queue.dry);
        let waiting: BTreeSet<&str> = queues.map(|((name, _), _)| name.as_str()).collect();
        let taken: usize = waiting.iter().filter_map(|namespace| held.get(*namespace)).sum();
        match waiting.len() {
            // No queue is known, so any namespace may take all slots.
            0 => usize::MAX,
            namespaces => (slots + taken).div_ceil(namespaces),
        }
    }

    /// Stores the result of a claim of at most `slots` runs. Returns whether to claim again at
    /// once.
    pub(super) fn learn<'a>(
        &mut self,
        now: DateTime<Utc>,
        slots: usize,
        ask: &Ask,
        claimed: impl Iterator<Item = &'a Execution>,
    ) -> bool {
        let mut brought: HashMap<Key, (usize, DateTime<Utc>)> = HashMap::new();
        let mut total = 0;
        for row in claimed {
            total += 1;
            *self.turns.entry(row.namespace.clone()).or_default() += 1;
            let ready_at = row.ready_at.unwrap_or(now).min(now);
            let queue = brought.entry((row.namespace.clone(), row.priority)).or_default();
            *queue = (queue.0 + 1, queue.1.max(ready_at));
        }
        self.turns.values_mut().for_each(|turn| *turn %= OLDEST_EVERY);
        let mut more = total >= slots;
        let asked = ask.namespace.iter().zip(&ask.priority).zip(&ask.most);
        for ((namespace, priority), most) in asked {
            let key = (namespace.clone(), *priority);
            let (count, last) = brought.remove(&key).unwrap_or_default();
            let Some(queue) = self.known.get_mut(&key) else { continue };
            // A claim that filled all slots does not show what it left.
            queue.dry = number(count) < *most && total < slots;
            more |= number(count) >= *most;
            if count > 0 {
                queue.seen_at = now;
            }
            let seen_until = if queue.dry { now } else { last };
            queue.since = queue.since.max(seen_until - MARGIN);
        }
        more
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap()
    }

    fn later(ms: i64) -> DateTime<Utc> {
        now() + TimeDelta::milliseconds(ms)
    }

    fn row(namespace: &str, priority: i16, ready_at: DateTime<Utc>) -> Execution {
        let mut row = Execution::new(Uuid::nil(), namespace.to_owned(), now(), now());
        (row.priority, row.ready_at) = (priority, Some(ready_at));
        row
    }

    fn keys(of: &[(&str, i16)]) -> Vec<Key> {
        of.iter().map(|(namespace, priority)| ((*namespace).to_owned(), *priority)).collect()
    }

    /// Queues that hold waiting runs.
    fn queues(listed: &[(&str, i16)]) -> Queues {
        let mut queues = Queues::default();
        assert!(queues.list(now(), keys(listed)));
        queues
    }

    fn held(of: &[(&str, usize)]) -> HashMap<String, usize> {
        of.iter().map(|(namespace, slots)| ((*namespace).to_owned(), *slots)).collect()
    }

    fn claim(queues: &mut Queues, at: DateTime<Utc>, slots: usize, brought: &[Execution]) -> bool {
        let ask = queues.ask(at, slots, &HashMap::new());
        queues.learn(at, slots, &ask, brought.iter())
    }

    fn since(queues: &mut Queues, at: DateTime<Utc>) -> DateTime<Utc> {
        queues.ask(at, 1, &HashMap::new()).since[0]
    }

    #[test]
    fn a_lone_namespace_may_have_every_slot_and_several_share_them() {
        let most = |of: &[(&str, i16)], slots, taken: &[(&str, usize)]| {
            queues(of).ask(now(), slots, &held(taken)).most
        };
        assert_eq!(most(&[("a", 0)], 8, &[]), [8]);
        assert_eq!(most(&[("a", 0)], 8, &[("a", 50)]), [8]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 8, &[]), [4, 4]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 8, &[("a", 6)]), [1, 7]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 1, &[("a", 63)]), [1, 1], "the statement decides");
    }

    #[test]
    fn a_claim_begins_behind_what_is_gone_but_for_a_margin_and_from_the_front_at_times() {
        let mut queues = queues(&[("a", 0)]);
        let ready = later(-60_000);
        assert!(claim(&mut queues, now(), 1, &[row("a", 0, ready)]));
        assert_eq!(since(&mut queues, later(1000)), ready - MARGIN);
        assert!(
            claim(&mut queues, later(1000), 1, &[row("a", 0, later(9000))]),
            "its clock is off"
        );
        assert_eq!(since(&mut queues, later(1000)), later(1000) - MARGIN);
        let late = now() + SCAN_FRONT_EVERY;
        assert_eq!(since(&mut queues, late), DateTime::UNIX_EPOCH);
        assert!(!claim(&mut queues, late, 1, &[]), "nothing was left");
        assert_eq!(since(&mut queues, late), late - MARGIN);
        queues.scan_from_front();
        assert_eq!(since(&mut queues, late), DateTime::UNIX_EPOCH);
    }

    #[test]
    fn a_claim_that_left_nothing_but_free_slots_is_the_last() {
        let mut queues = queues(&[("a", 0), ("b", 0)]);
        let two = [row("a", 0, now()), row("a", 0, now())];
        assert!(claim(&mut queues, now(), 4, &two), "that queue was scanned for no more than two");
        assert!(
            !claim(&mut queues, now(), 4, &two),
            "b is known to be empty, so a was scanned for four"
        );
    }

    #[test]
    fn a_claim_is_due_soon_while_slots_are_free_and_each_second_while_none_is() {
        use Scan::{Due, Fresh, Recent};
        let queues = queues(&[("a", 0)]);
        let cases = [
            (0, Fresh, Fresh),
            (1, Recent, Recent),
            (50, Due, Recent),
            (1000, Due, Due),
            (-1, Due, Due),
        ];
        for (ms, free, full) in cases {
            let found = [true, false].map(|left| queues.standing(later(ms), left));
            assert_eq!(found, [free, full], "after {ms} ms");
        }
        assert_eq!(Queues::default().standing(now(), false), Due);
    }

    #[test]
    fn what_is_known_is_bounded_and_what_is_dry_for_long_is_forgotten() {
        let names: Vec<String> = (0..=MAX_QUEUES).map(|n| format!("n{n:04}")).collect();
        let all: Vec<Key> = names.iter().map(|name| (name.clone(), 0)).collect();
        let mut queues = Queues::default();
        assert!(queues.list(now(), all[..MAX_QUEUES].to_vec()));
        assert_eq!(queues.behind(), all[MAX_QUEUES - 1], "the next scan continues there");
        assert!(queues.list(later(1), all[MAX_QUEUES..].to_vec()));
        assert_eq!((queues.known.len(), queues.behind().0.as_str()), (MAX_QUEUES, ""));
        assert!(queues.known.contains_key(&all[MAX_QUEUES]), "the one seen last stays");
        claim(&mut queues, now() + KEPT, 4, &[row("n0007", 0, now())]);
        assert!(!queues.list(now() + KEPT + SCAN_PAUSE, Vec::new()));
        assert_eq!(queues.known.keys().map(|key| key.0.as_str()).collect::<Vec<_>>(), ["n0007"]);
        assert_eq!(queues.turns.len(), 1);
    }
}
