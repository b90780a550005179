//! The metrics other than those of transitions.

use std::borrow::Cow;
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::names;

/// Describes each metric, as `/metrics` shows it.
pub(super) fn describe() {
    describe_counter!(names::TRANSITIONS_TOTAL, "Transitions of runs and steps.");
    describe_counter!(names::VERDICTS_TOTAL, "Verdicts of the acceptgate, by outcome.");
    describe_histogram!(
        names::STEP_DURATION_SECONDS,
        Unit::Seconds,
        "A step's time from its lease to its end."
    );
    describe_histogram!(names::TURN_DURATION_SECONDS, Unit::Seconds, "One turn's time.");
    describe_gauge!(names::QUEUE_DEPTH, "Runs that are ready and not claimed.");
    describe_gauge!(names::WORKERS, "Connected tool workers.");
    describe_gauge!(names::WORKER_CALLS, "Calls that connected tool workers have.");
    describe_counter!(names::WORKER_RESULTS_TOTAL, "Results of tool workers, by outcome.");
    describe_counter!(names::RELOADS_TOTAL, "Reloads of changed certificate files, by result.");
    describe_gauge!(
        names::CERTIFICATE_EXPIRY,
        Unit::Seconds,
        "The end of the certificate's validity, in seconds since 1970."
    );
}

/// Records the duration of a step, from its lease to its end, with its final state.
pub fn record_step_duration(outcome: &'static str, duration: Duration) {
    histogram!(names::STEP_DURATION_SECONDS, "outcome" => outcome).record(duration);
}

/// Records the duration of one turn; `driver` is script, model or remote.
pub fn record_turn_duration(driver: &'static str, duration: Duration) {
    histogram!(names::TURN_DURATION_SECONDS, "driver" => driver).record(duration);
}

/// Sets how many runs of `namespace` are ready and not claimed.
pub fn set_queue_depth(namespace: &str, runs: u32) {
    gauge!(names::QUEUE_DEPTH, "namespace" => namespace.to_owned()).set(runs);
}

/// Sets how many tool workers are connected, and how many calls they have.
pub fn set_workers(workers: usize, calls: usize) {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    gauge!(names::WORKERS).set(number(workers));
    gauge!(names::WORKER_CALLS).set(number(calls));
}

/// Counts one result of a tool worker, by what came of it.
pub fn count_worker_result(outcome: &'static str) {
    counter!(names::WORKER_RESULTS_TOTAL, "outcome" => outcome).increment(1);
}

/// Counts one transition.
pub(super) fn count_transition(
    subject: &'static str,
    from: Cow<'static, str>,
    to: Cow<'static, str>,
) {
    counter!(names::TRANSITIONS_TOTAL, "subject" => subject, "from" => from, "to" => to)
        .increment(1);
}

/// Counts one verdict.
pub(super) fn count_verdict(outcome: &str) {
    counter!(names::VERDICTS_TOTAL, "outcome" => outcome.to_owned()).increment(1);
}
