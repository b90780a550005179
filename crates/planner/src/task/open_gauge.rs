//! The gauge of open tasks, by kind. The kinds are those of the task types, so their number is bounded.

use crate::planner::Planner;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::fault::Fault;
use surety_common::store::{self, OpenTasks};
use surety_common::telemetry;
use tokio::time::Instant;

/// How often open tasks are counted. A gauge that is not set for a minute is removed.
const INTERVAL: Duration = Duration::from_secs(20);
/// How long a kind without an open task is shown as 0: several scrapes at any usual interval.
const KEPT: Duration = Duration::from_mins(5);

/// A task type and an action.
type Kind = (String, String);

/// The kinds that the gauge shows.
#[derive(Debug, Default)]
pub(super) struct OpenGauge {
    counted_at: Option<Instant>,
    /// When each kind last had an open task.
    shown: BTreeMap<Kind, Instant>,
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
        for ((task_type, action_type), tasks) in self.take(open, now) {
            telemetry::set_open_tasks(&task_type, &action_type, tasks);
        }
        Ok(())
    }

    /// What is shown of these open tasks.
    fn take(&mut self, open: Vec<OpenTasks>, now: Instant) -> BTreeMap<Kind, i64> {
        self.shown.retain(|_, seen_at| now < *seen_at + KEPT);
        let mut counts: BTreeMap<Kind, i64> =
            self.shown.keys().map(|kind| (kind.clone(), 0)).collect();
        for OpenTasks { task_type, action_type, tasks } in open {
            let kind = (task_type, action_type);
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
            let open = open.iter().map(|(action, tasks)| OpenTasks {
                task_type: "toolchain".to_owned(),
                action_type: (*action).to_owned(),
                tasks: *tasks,
            });
            let counts = gauge.take(open.collect(), begin + Duration::from_secs(seconds));
            counts.into_iter().map(|((_, action), tasks)| (action, tasks)).collect()
        };
        let pair = |action: &str, tasks| (action.to_owned(), tasks);
        assert_eq!(
            shown(&[("mention", 2), ("ci_failure", 1)], 0),
            [pair("ci_failure", 1), pair("mention", 2)]
        );
        assert_eq!(shown(&[("mention", 3)], 20), [pair("ci_failure", 0), pair("mention", 3)]);
        assert_eq!(shown(&[("mention", 3)], 300), [pair("mention", 3)]);
    }
}
