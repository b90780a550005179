//! Selects the namespaces for the queue metric: those with the largest backlog, and each for a
//! while after its last run was claimed, to show it as empty. Clients choose the names, so their
//! number is limited. A namespace that moved may have runs in several databases, which are added
//! up.

use chrono::{DateTime, TimeDelta, Utc};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use surety_common::store::Backlog;

/// The most namespaces in the metric.
const MOST: usize = 1000;
/// How long an idle namespace is shown as empty: several scrapes at any usual interval.
const KEPT: TimeDelta = TimeDelta::minutes(5);

/// The namespaces in the metric. One for each process.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    /// The backlog of each database, by shard index, as it was last read.
    waiting: BTreeMap<usize, Vec<Backlog>>,
    /// Each namespace with the time when it last had runs.
    shown: BTreeMap<String, DateTime<Utc>>,
}

impl Depths {
    /// Stores the backlog at `now` of the database with this shard index. Returns the values to
    /// show: a namespace that was shown and has no runs any more has zero.
    pub(crate) fn take(
        &mut self,
        place: usize,
        waiting: Vec<Backlog>,
        now: DateTime<Utc>,
    ) -> BTreeMap<String, u32> {
        self.waiting.insert(place, waiting);
        self.shown.retain(|_, seen_at| now - *seen_at < KEPT);
        let mut waiting = self.sums();
        waiting.sort_by_key(|backlog| Reverse(backlog.ready_runs));
        for Backlog { namespace, .. } in &waiting {
            if self.shown.len() < MOST || self.shown.contains_key(namespace) {
                self.shown.insert(namespace.clone(), now);
            }
        }
        let mut depths: BTreeMap<String, u32> =
            self.shown.keys().map(|namespace| (namespace.clone(), 0)).collect();
        for Backlog { namespace, ready_runs } in waiting {
            if let Some(depth) = depths.get_mut(&namespace) {
                *depth = ready_runs;
            }
        }
        depths
    }

    fn sums(&self) -> Vec<Backlog> {
        let mut sums: BTreeMap<&str, u32> = BTreeMap::new();
        for Backlog { namespace, ready_runs } in self.waiting.values().flatten() {
            let sum = sums.entry(namespace).or_default();
            *sum = sum.saturating_add(*ready_runs);
        }
        let sums = sums.into_iter();
        sums.map(|(name, ready_runs)| Backlog { namespace: name.to_owned(), ready_runs }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
    }

    fn waiting(of: &[(&str, u32)]) -> Vec<Backlog> {
        of.iter()
            .map(|(namespace, ready_runs)| Backlog {
                namespace: (*namespace).to_owned(),
                ready_runs: *ready_runs,
            })
            .collect()
    }

    fn shown(depths: &mut Depths, of: &[(&str, u32)], seconds: i64) -> Vec<(String, u32)> {
        depths.take(0, waiting(of), at(seconds)).into_iter().collect()
    }

    #[test]
    fn an_idle_namespace_is_shown_as_empty_for_a_while_and_then_removed() {
        let mut depths = Depths::default();
        let pair = |namespace: &str, runs| (namespace.to_owned(), runs);
        assert_eq!(shown(&mut depths, &[("a", 3), ("b", 1)], 0), [pair("a", 3), pair("b", 1)]);
        assert_eq!(shown(&mut depths, &[("b", 2)], 2), [pair("a", 0), pair("b", 2)]);
        assert_eq!(shown(&mut depths, &[("b", 2)], 299), [pair("a", 0), pair("b", 2)]);
        assert_eq!(shown(&mut depths, &[("b", 2)], 300), [pair("b", 2)]);
    }

    #[test]
    fn the_largest_backlogs_are_shown_and_shown_namespaces_stay() {
        let mut depths = Depths::default();
        let names: Vec<String> = (0..MOST).map(|number| format!("n{number:04}")).collect();
        let mut many: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        many.insert(0, ("least", 0));
        let found = depths.take(0, waiting(&many), at(0));
        assert_eq!((found.len(), found.get("least")), (MOST, None));
        let found = depths.take(0, waiting(&[("new", 9), ("n0007", 2)]), at(2));
        assert_eq!((found.len(), found.get("new"), found.get("n0007")), (MOST, None, Some(&2)));
        let found = depths.take(0, waiting(&[("new", 9)]), at(302));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("new".to_owned(), 9)]);
    }

    #[test]
    fn backlogs_in_several_databases_are_added_up() {
        let mut depths = Depths::default();
        let pair = |namespace: &str, runs| (namespace.to_owned(), runs);
        let mut take = |place, of: &[(&str, u32)], seconds| {
            depths.take(place, waiting(of), at(seconds)).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(take(0, &[("a", 3), ("moved", 1)], 0), [pair("a", 3), pair("moved", 1)]);
        assert_eq!(take(1, &[("moved", 4)], 1), [pair("a", 3), pair("moved", 5)]);
        assert_eq!(take(0, &[("a", 2)], 2), [pair("a", 2), pair("moved", 4)]);
        assert_eq!(take(1, &[], 3), [pair("a", 2), pair("moved", 0)]);
    }
}
