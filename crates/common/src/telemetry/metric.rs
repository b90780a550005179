//! The metrics other than those of transitions.

use std::time::Duration;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::handles::{Handles, is_installed};
use super::names;

/// Describes each metric, as `/metrics` shows it.
pub(super) fn describe() {
    describe_counter!(names::TRANSITIONS_TOTAL, "Transitions of runs and steps.");
    describe_counter!(names::VERDICTS_TOTAL, "Verdicts of the acceptgate, by outcome.");
    describe_counter!(
        names::ANCHORED_TOTAL,
        "Verdicts that were anchored, and failures to anchor."
    );
    describe_histogram!(
        names::STEP_DURATION_SECONDS,
        Unit::Seconds,
        "The time of an attempt of a step, from its first lease to its end, by outcome."
    );
    describe_histogram!(
        names::TURN_DURATION_SECONDS,
        Unit::Seconds,
        "One turn's time in the executor, from the reply to what it led to."
    );
    describe_gauge!(names::QUEUE_DEPTH, "Runs that are ready and not claimed.");
    describe_gauge!(names::WORKERS, "Connected tool workers.");
    describe_gauge!(names::WORKER_CALLS, "Calls that connected tool workers have.");
    describe_counter!(names::WORKER_RESULTS_TOTAL, "Results of tool workers, by outcome.");
    describe_tasks();
    describe_counter!(
        names::DEAD_LETTERS_TOTAL,
        "Messages that failed: unread, unanswered or cancelled."
    );
    describe_counter!(names::DELIVERIES_TOTAL, "Deliveries of forges, by forge and result.");
    describe_histogram!(
        names::DELIVERY_ANSWER_SECONDS,
        Unit::Seconds,
        "The time from a delivery's header to its answer."
    );
    describe_counter!(
        names::DELIVERIES_PROCESSED_TOTAL,
        "Processed deliveries, by what became of them."
    );
    describe_gauge!(names::DELIVERY_BACKLOG, "Deliveries that wait to be processed.");
    describe_counter!(names::FORGE_CALLS_TOTAL, "Calls of forges, by operation and result.");
    describe_gauge!(
        names::FORGE_RATE_LIMIT_LEFT,
        "The calls that an account may still make, as the forge said last."
    );
    describe_counter!(names::RELOADS_TOTAL, "Reloads of changed certificate files, by result.");
    describe_gauge!(
        names::CERTIFICATE_EXPIRY,
        Unit::Seconds,
        "The end of the certificate's validity, in seconds since 1970."
    );
}

fn describe_tasks() {
    describe_counter!(names::TASK_EVENTS_TOTAL, "Events of forges and their tasks, by result.");
    describe_counter!(names::TASKS_ENDED_TOTAL, "Tasks that ended, by outcome.");
    describe_histogram!(
        names::TASK_REPORT_SECONDS,
        Unit::Seconds,
        "The time from the start of a task to its report."
    );
    describe_counter!(names::TASK_REMINDERS_TOTAL, "Tasks that were handed again.");
    describe_counter!(names::TASK_ESCALATIONS_TOTAL, "Comments and issues about failed tasks.");
    describe_counter!(
        names::TASK_ALERTS_TOTAL,
        "Failures of tasks after which nothing more is done."
    );
    describe_gauge!(names::TASKS_OPEN, "Tasks that have not ended.");
}

/// Counts verdicts that were anchored (`stored`), or one failure (`failed`).
pub fn count_anchor(result: &'static str, count: usize) {
    counter!(names::ANCHORED_TOTAL, "result" => result).increment(count as u64);
}

/// Counts one event, by what became of it.
pub fn count_task_event(event_type: &str, result: &'static str) {
    let event_type = event_type.to_owned();
    counter!(names::TASK_EVENTS_TOTAL, "event_type" => event_type, "result" => result).increment(1);
}

/// Counts one task that ended; `class` is empty where it did not fail.
pub fn count_task_end(
    event_type: &str,
    action_type: &str,
    outcome: &'static str,
    class: &'static str,
) {
    counter!(
        names::TASKS_ENDED_TOTAL,
        "event_type" => event_type.to_owned(),
        "action_type" => action_type.to_owned(),
        "outcome" => outcome,
        "class" => class
    )
    .increment(1);
}

/// Records the time from the start of a task to its report.
pub fn record_time_to_report(action_type: &str, time: Duration) {
    let action_type = action_type.to_owned();
    histogram!(names::TASK_REPORT_SECONDS, "action_type" => action_type).record(time);
}

/// Counts one reminder.
pub fn count_reminder(action_type: &str) {
    let action_type = action_type.to_owned();
    counter!(names::TASK_REMINDERS_TOTAL, "action_type" => action_type).increment(1);
}

/// Counts one step of an escalation.
pub fn count_escalation(action: &'static str, result: &'static str) {
    counter!(names::TASK_ESCALATIONS_TOTAL, "action" => action, "result" => result).increment(1);
}

/// Counts one failure after which nothing more is done.
pub fn count_task_alert(reason: &'static str) {
    counter!(names::TASK_ALERTS_TOTAL, "reason" => reason).increment(1);
}

/// Sets how many tasks of a kind are open: the values of its labels by their names.
pub fn set_open_tasks(kind: [(&'static str, String); 4], tasks: i64) {
    gauge!(names::TASKS_OPEN, &kind).set(f64::from(u32::try_from(tasks).unwrap_or(u32::MAX)));
}

static STEPS: Handles<Histogram, 1> = Handles::new();
static TURNS: Handles<Histogram, 1> = Handles::new();
static TRANSITIONS: Handles<Counter, 3> = Handles::new();

/// Records the time of an attempt of a step, from its first lease to its end, with its final state.
pub fn record_step_duration(outcome: &'static str, duration: Duration) {
    let register = || histogram!(names::STEP_DURATION_SECONDS, "outcome" => outcome);
    STEPS.with(is_installed(), [outcome], register, |steps| steps.record(duration));
}

/// Records the duration of one turn that was taken; `driver` is script, model or remote.
pub fn record_turn_duration(driver: &'static str, duration: Duration) {
    let register = || histogram!(names::TURN_DURATION_SECONDS, "driver" => driver);
    TURNS.with(is_installed(), [driver], register, |turns| turns.record(duration));
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

/// Counts one call of a forge, and sets how many calls its account may still make, where the forge says so.
pub fn record_forge_call(
    forge: &str,
    operation: &'static str,
    result: &'static str,
    left: Option<u64>,
) {
    counter!(names::FORGE_CALLS_TOTAL, "forge" => forge.to_owned(), "operation" => operation, "result" => result)
        .increment(1);
    if let Some(left) = left {
        let left = f64::from(u32::try_from(left).unwrap_or(u32::MAX));
        gauge!(names::FORGE_RATE_LIMIT_LEFT, "forge" => forge.to_owned()).set(left);
    }
}

/// Counts one message between agents that failed.
pub fn count_dead_letter(failure: &'static str) {
    counter!(names::DEAD_LETTERS_TOTAL, "failure" => failure).increment(1);
}

/// Counts one delivery of a forge, by what it was answered.
pub fn count_delivery(forge: &'static str, result: &'static str) {
    counter!(names::DELIVERIES_TOTAL, "forge" => forge, "result" => result).increment(1);
}

/// Records the time until a delivery was answered.
pub fn record_delivery_answer(duration: Duration) {
    histogram!(names::DELIVERY_ANSWER_SECONDS).record(duration);
}

/// Counts one processed delivery. `reason` is empty where it became tasks.
pub fn count_processed(forge: &'static str, state: &'static str, reason: &str) {
    let reason = reason.to_owned();
    counter!(names::DELIVERIES_PROCESSED_TOTAL, "forge" => forge, "state" => state, "reason" => reason)
        .increment(1);
}

/// Sets how many deliveries wait to be processed.
pub fn set_delivery_backlog(waiting: i64) {
    gauge!(names::DELIVERY_BACKLOG).set(f64::from(u32::try_from(waiting).unwrap_or(u32::MAX)));
}

/// Counts one transition.
pub(super) fn count_transition(subject: &'static str, from: &str, to: &str) {
    let register = || {
        let (from, to) = (from.to_owned(), to.to_owned());
        counter!(names::TRANSITIONS_TOTAL, "subject" => subject, "from" => from, "to" => to)
    };
    let labels = [subject, from, to];
    TRANSITIONS.with(is_installed(), labels, register, |transitions| transitions.increment(1));
}

/// Counts one verdict.
pub(super) fn count_verdict(outcome: &str) {
    counter!(names::VERDICTS_TOTAL, "outcome" => outcome.to_owned()).increment(1);
}
