//! The gauge of open tasks, by kind and state. The kinds are those of the task types, so their number is bounded.

use crate::planner::Planner;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::fault::Fault;
use surety_common::store::{self, OpenTasks, TaskKind};
use surety_common::telemetry;
use tokio::time::Instant;

/// How often open tasks are counted. A gauge that is not set for a minute is removed.
const INTERVAL: Duration = Duration::from_secs(20);
/// How long a kind without an open task is shown as 0: several scrapes at any usual interval.
const KEPT: Duration = Duration::from_mins(5);

/// The kinds that the gauge shows.
#[derive(Debug, Default)]
pub(super) struct OpenGauge {
    counted_at: Option<Instant>,
    /// When each kind last had an open task.
    shown: BTreeMap<TaskKind, Instant>,
}

impl OpenGauge {
    /// Sets the gauge, unless it was set a moment ago.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(super) async fn measure(&mut self, planner: &Planner) -> Result<(), Fault> {
        let now = Instant::now();
        if self.counted_at.is_some_and(|at| now < at + INTERVAL) {
            return Ok(());
        }
        let open = store::count_open_tasks(&planner.pool).await?;
        self.counted_at = Some(now);
        for (kind, tasks) in self.take(open, now) {
            let TaskKind { task_type, event_type, action_type, state } = kind;
            let labels = [
                ("task_type", task_type),
                ("event_type", event_type),
                ("action_type", action_type),
                ("state", state),
            ];
            telemetry::set_open_tasks(labels, tasks);
        }
        Ok(())
    }

    /// What is shown of these open tasks.
    fn take(&mut self, open: Vec<OpenTasks>, now: Instant) -> BTreeMap<TaskKind, i64> {
        self.shown.retain(|_, seen_at| now < *seen_at + KEPT);
        let mut counts: BTreeMap<TaskKind, i64> =
            self.shown.keys().map(|kind| (kind.clone(), 0)).collect();
        for OpenTasks { kind, tasks } in open {
            self.shown.insert(kind.clone(), now);
            counts.insert(kind, tasks);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_without_an_open_task_is_shown_as_0_for_a_while() {
        let mut gauge = OpenGauge::default();
        let begin = Instant::now();
        let mut shown = |open: &[(&str, i64)], seconds| -> Vec<(String, i64)> {
            let open = open.iter().map(|(state, tasks)| OpenTasks {
                kind: TaskKind {
                    task_type: "toolchain".to_owned(),
                    event_type: "mention".to_owned(),
                    action_type: "mention".to_owned(),
                    state: (*state).to_owned(),
                },
                tasks: *tasks,
            });
            let counts = gauge.take(open.collect(), begin + Duration::from_secs(seconds));
            counts.into_iter().map(|(kind, tasks)| (kind.state, tasks)).collect()
        };
        let pair = |state: &str, tasks| (state.to_owned(), tasks);
        let (executing, verifying) = ("EXECUTING", "VERIFYING");
        assert_eq!(
            shown(&[(verifying, 2), (executing, 1)], 0),
            [pair(executing, 1), pair(verifying, 2)]
        );
        assert_eq!(shown(&[(verifying, 3)], 20), [pair(executing, 0), pair(verifying, 3)]);
        assert_eq!(shown(&[(verifying, 3)], 300), [pair(verifying, 3)]);
    }
}
