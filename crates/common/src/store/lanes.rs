//! Which runs are asked for next: purely, from what claims and looks have shown.
//!
//! A lane is what waits in one namespace under one priority.
//!
//! ```text
//!        +--- look: which lanes hold something (rarely)
//!        v
//!   Lanes --ask--> Ask (columns of a claim, one row a lane) --statement--> runs --learn--> Lanes
//! ```

use crate::domain::execution::Execution;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Lanes that one look lists at most, and that are known at most. Where there are more, each look
/// begins behind the last one.
pub(super) const MAX_LANES: usize = 256;
/// How far behind the last claimed run of a lane a claim begins: a run that became ready before it
/// may have been committed after it.
const MARGIN: TimeDelta = TimeDelta::seconds(5);
/// How often lanes are claimed from at their fronts, for what came later than the margin allows.
const SWEEP_EVERY: TimeDelta = TimeDelta::seconds(5);
/// The shortest time between two looks, and the longest while there is more than there are slots.
const LOOK_PAUSE: TimeDelta = TimeDelta::milliseconds(50);
const LOOK_EVERY: TimeDelta = TimeDelta::seconds(1);
/// How long a lane in which nothing waits any more is asked for.
const KEPT: TimeDelta = TimeDelta::minutes(1);
/// One slot in so many goes to what waits longest in its namespace, whatever its priority.
const OLDEST_EVERY: usize = 8;

/// A namespace and a priority.
pub(super) type Key = (String, i16);

/// What claims and looks have shown about where runs wait. One for each process.
#[derive(Debug, Default)]
pub struct Lanes {
    known: BTreeMap<Key, Lane>,
    /// Slots given since what waits longest was given one, by namespace.
    turns: HashMap<String, usize>,
    swept_at: Option<DateTime<Utc>>,
    looked_at: Option<DateTime<Utc>>,
    /// Where the next look begins; none is the front.
    behind: Option<Key>,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Nothing is thought to wait in it before this.
    since: DateTime<Utc>,
    /// Whether the last claim took all that waited.
    dry: bool,
    /// When something was last seen in it.
    seen_at: DateTime<Utc>,
}

/// How long ago it was looked in which lanes something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Just now: what was claimed is all there was.
    Fresh,
    /// A moment ago: not again so soon, but soon.
    Recent,
    /// Long enough ago.
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

impl Lanes {
    /// Claims from the front of every lane next: something waits that claims passed by.
    pub fn sweep(&mut self) {
        self.swept_at = None;
    }

    /// How a look stands after a claim at `now`. One that left slots free asks for one soon, as
    /// there may be lanes that nobody knows of here; while claims fill every slot it is not urgent.
    pub(super) fn standing(&self, now: DateTime<Utc>, slots_left: bool) -> Look {
        let pause = if slots_left { LOOK_PAUSE } else { LOOK_EVERY };
        match self.looked_at {
            Some(at) if at == now => Look::Fresh,
            Some(at) if at < now && now - at < pause => Look::Recent,
            Some(_) | None => Look::Due,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Where a look is to begin.
    pub(super) fn behind(&self) -> Key {
        self.behind.clone().unwrap_or((String::new(), i16::MIN))
    }

    /// Takes in what a look listed, in its order. Answers whether there is any reason to claim
    /// again at once: a lane that was not known, or lanes that were not listed.
    pub(super) fn list(&mut self, now: DateTime<Utc>, listed: Vec<Key>) -> bool {
        self.looked_at = Some(now);
        let cut_off = listed.len() >= MAX_LANES;
        self.behind = listed.last().filter(|_| cut_off).cloned();
        let mut found = cut_off;
        for key in listed {
            let lane = self.known.entry(key).or_insert_with(|| {
                found = true;
                Lane { since: DateTime::UNIX_EPOCH, dry: false, seen_at: now }
            });
            lane.seen_at = now;
        }
        self.known.retain(|_, lane| now - lane.seen_at < KEPT);
        while self.known.len() > MAX_LANES {
            let oldest = self.known.iter().min_by_key(|(_, lane)| lane.seen_at);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.known.remove(&oldest);
        }
        let known = &self.known;
        self.turns.retain(|namespace, _| known.keys().any(|key| key.0 == *namespace));
        found
    }

    /// What to ask for with `slots` free ones, while `held` slots are taken by each namespace.
    pub(super) fn ask(
        &mut self,
        now: DateTime<Utc>,
        slots: usize,
        held: &HashMap<String, usize>,
    ) -> Ask {
        if self.swept_at.is_none_or(|at| now < at || now - at >= SWEEP_EVERY) {
            self.swept_at = Some(now);
            self.known.values_mut().for_each(|lane| lane.since = DateTime::UNIX_EPOCH);
        }
        let share = self.fair_share(slots, held);
        let mut ask = Ask::default();
        for ((namespace, priority), lane) in &self.known {
            let held = held.get(namespace).copied().unwrap_or_default();
            ask.namespace.push(namespace.clone());
            ask.priority.push(*priority);
            ask.since.push(lane.since);
            ask.most.push(number(share.saturating_sub(held).clamp(1, slots.max(1))));
            ask.held.push(number(held));
            ask.turn.push(number(self.turns.get(namespace).copied().unwrap_or_default()));
        }
        ask
    }

    /// The slots that each namespace in which runs wait would hold, were all the same: no more is
    /// locked than may be chosen.
    fn fair_share(&self, slots: usize, held: &HashMap<String, usize>) -> usize {
        let lanes = self.known.iter().filter(|(_, lane)| !lane.dry);
        let waiting: BTreeSet<&str> = lanes.map(|((name, _), _)| name.as_str()).collect();
        let taken: usize = waiting.iter().filter_map(|namespace| held.get(*namespace)).sum();
        match waiting.len() {
            // Nothing is known to wait: whatever does may have it all.
            0 => usize::MAX,
            namespaces => (slots + taken).div_ceil(namespaces),
        }
    }

    /// Takes in what a claim of `slots` runs at most brought. Answers whether there is reason to
    /// claim again at once.
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
            let lane = brought.entry((row.namespace.clone(), row.priority)).or_default();
            *lane = (lane.0 + 1, lane.1.max(ready_at));
        }
        self.turns.values_mut().for_each(|turn| *turn %= OLDEST_EVERY);
        let mut more = total >= slots;
        let asked = ask.namespace.iter().zip(&ask.priority).zip(&ask.most);
        for ((namespace, priority), most) in asked {
            let key = (namespace.clone(), *priority);
            let (count, last) = brought.remove(&key).unwrap_or_default();
            let Some(lane) = self.known.get_mut(&key) else { continue };
            // A claim that filled all slots says nothing about what it left.
            lane.dry = number(count) < *most && total < slots;
            more |= number(count) >= *most;
            if count > 0 {
                lane.seen_at = now;
            }
            let seen_until = if lane.dry { now } else { last };
            lane.since = lane.since.max(seen_until - MARGIN);
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

    /// Lanes in which something waits.
    fn lanes(listed: &[(&str, i16)]) -> Lanes {
        let mut lanes = Lanes::default();
        assert!(lanes.list(now(), keys(listed)));
        lanes
    }

    fn held(of: &[(&str, usize)]) -> HashMap<String, usize> {
        of.iter().map(|(namespace, slots)| ((*namespace).to_owned(), *slots)).collect()
    }

    fn claim(lanes: &mut Lanes, at: DateTime<Utc>, slots: usize, brought: &[Execution]) -> bool {
        let ask = lanes.ask(at, slots, &HashMap::new());
        lanes.learn(at, slots, &ask, brought.iter())
    }

    fn since(lanes: &mut Lanes, at: DateTime<Utc>) -> DateTime<Utc> {
        lanes.ask(at, 1, &HashMap::new()).since[0]
    }

    #[test]
    fn a_lone_namespace_may_have_every_slot_and_several_share_them() {
        let most = |of: &[(&str, i16)], slots, taken: &[(&str, usize)]| {
            lanes(of).ask(now(), slots, &held(taken)).most
        };
        assert_eq!(most(&[("a", 0)], 8, &[]), [8]);
        assert_eq!(most(&[("a", 0)], 8, &[("a", 50)]), [8]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 8, &[]), [4, 4]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 8, &[("a", 6)]), [1, 7]);
        assert_eq!(most(&[("a", 0), ("b", 0)], 1, &[("a", 63)]), [1, 1], "the statement decides");
    }

    #[test]
    fn a_claim_begins_behind_what_is_gone_but_for_a_margin_and_from_the_front_at_times() {
        let mut lanes = lanes(&[("a", 0)]);
        let ready = later(-60_000);
        assert!(claim(&mut lanes, now(), 1, &[row("a", 0, ready)]));
        assert_eq!(since(&mut lanes, later(1000)), ready - MARGIN);
        assert!(claim(&mut lanes, later(1000), 1, &[row("a", 0, later(9000))]), "its clock is off");
        assert_eq!(since(&mut lanes, later(1000)), later(1000) - MARGIN);
        let late = now() + SWEEP_EVERY;
        assert_eq!(since(&mut lanes, late), DateTime::UNIX_EPOCH);
        assert!(!claim(&mut lanes, late, 1, &[]), "nothing was left");
        assert_eq!(since(&mut lanes, late), late - MARGIN);
        lanes.sweep();
        assert_eq!(since(&mut lanes, late), DateTime::UNIX_EPOCH);
    }

    #[test]
    fn a_claim_that_left_nothing_but_free_slots_is_the_last() {
        let mut lanes = lanes(&[("a", 0), ("b", 0)]);
        let two = [row("a", 0, now()), row("a", 0, now())];
        assert!(claim(&mut lanes, now(), 4, &two), "that lane was asked for no more than two");
        assert!(
            !claim(&mut lanes, now(), 4, &two),
            "b is known to be dry, so a was asked for four"
        );
    }

    #[test]
    fn a_look_is_due_soon_while_slots_are_free_and_each_second_while_none_is() {
        use Look::{Due, Fresh, Recent};
        let lanes = lanes(&[("a", 0)]);
        let cases = [
            (0, Fresh, Fresh),
            (1, Recent, Recent),
            (50, Due, Recent),
            (1000, Due, Due),
            (-1, Due, Due),
        ];
        for (ms, free, full) in cases {
            let found = [true, false].map(|left| lanes.standing(later(ms), left));
            assert_eq!(found, [free, full], "after {ms} ms");
        }
        assert_eq!(Lanes::default().standing(now(), false), Due);
    }

    #[test]
    fn what_is_known_is_bounded_and_what_is_dry_for_long_is_forgotten() {
        let names: Vec<String> = (0..=MAX_LANES).map(|n| format!("n{n:04}")).collect();
        let all: Vec<Key> = names.iter().map(|name| (name.clone(), 0)).collect();
        let mut lanes = Lanes::default();
        assert!(lanes.list(now(), all[..MAX_LANES].to_vec()));
        assert_eq!(lanes.behind(), all[MAX_LANES - 1], "it goes on there");
        assert!(lanes.list(later(1), all[MAX_LANES..].to_vec()));
        assert_eq!((lanes.known.len(), lanes.behind().0.as_str()), (MAX_LANES, ""));
        assert!(lanes.known.contains_key(&all[MAX_LANES]), "the one seen last stays");
        claim(&mut lanes, now() + KEPT, 4, &[row("n0007", 0, now())]);
        assert!(!lanes.list(now() + KEPT + LOOK_PAUSE, Vec::new()));
        assert_eq!(lanes.known.keys().map(|key| key.0.as_str()).collect::<Vec<_>>(), ["n0007"]);
        assert_eq!(lanes.turns.len(), 1);
    }
}
