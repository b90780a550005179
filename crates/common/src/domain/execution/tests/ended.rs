//! The attempts of steps that a change ends, for the metrics.

use super::model::{draft, graph, waiting, written};
use crate::domain::execution::SuppliedReply;
use crate::domain::execution::draft::EndedAttempt;
use crate::domain::step::StepState;
use chrono::TimeDelta;
use std::time::Duration;
use uuid::Uuid;

#[test]
fn an_attempt_ends_once_with_the_time_since_its_first_lease() {
    let row = waiting();
    let wait_id = row.step(0).unwrap().wait.as_deref().unwrap().id;
    let mut change = draft(&row, 3);
    let reply = SuppliedReply {
        wait_id,
        lease_epoch: 1,
        text: "{}".to_owned(),
        usage: None,
        trace_parent: String::new(),
        by: "agent".to_owned(),
        model: None,
    };
    change.supply_reply(&graph(), reply, TimeDelta::seconds(1)).unwrap();
    change.lease(Uuid::from_u128(4));
    change.lease_steps(&graph(), 1).unwrap();
    let write = change.into_write();
    // A wait is no end.
    assert_eq!(write.ended_attempts, []);
    let mut change = draft(&write.execution, 5);
    change.finish_step(&graph(), 0, "done").unwrap();
    // For one second no participant had leased it.
    let (state, time) = (StepState::Done, Duration::from_secs(4));
    assert_eq!(change.into_write().ended_attempts, [EndedAttempt { state, time }]);
}

#[test]
fn a_step_that_never_began_has_no_attempt_that_ends() {
    let row = waiting();
    let begun = {
        let mut change = draft(&row, 2);
        change.cancel(&graph(), "no longer needed".to_owned()).unwrap();
        change.into_write()
    };
    let (state, time) = (StepState::Cancelled, Duration::from_secs(2));
    assert_eq!(begun.ended_attempts, [EndedAttempt { state, time }]);
    let new = crate::domain::execution::Execution::new(
        row.run_id,
        String::new(),
        row.updated_at,
        row.updated_at,
    );
    let mut change = draft(&new, 0);
    change.start_plan(&graph(), 1).unwrap();
    let mut change = draft(&written(change), 2);
    change.cancel(&graph(), "no longer needed".to_owned()).unwrap();
    assert_eq!(change.into_write().ended_attempts, []);
}
