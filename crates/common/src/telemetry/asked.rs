//! The metrics of what the services ask: models behind endpoints, and MCP servers.

use super::names;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use std::time::Duration;

/// Describes each metric, as `/metrics` shows it.
pub(super) fn describe() {
    describe_histogram!(
        names::MODEL_CALL_DURATION_SECONDS,
        Unit::Seconds,
        "One call of a model, all its tries included, by profile, model and outcome."
    );
    describe_counter!(
        names::MODEL_FAILURES_TOTAL,
        "Requests to models that were sent and failed, by code."
    );
    describe_counter!(names::MODEL_TOKENS_TOTAL, "Tokens of the replies of models, by kind.");
    describe_counter!(names::MODEL_COST_MICROS_TOTAL, "Cost of models by the price table.");
    describe_gauge!(names::MODEL_BREAKER_OPEN, "Whether an endpoint is not asked for a moment.");
    describe_counter!(names::MODEL_WAITS_TOTAL, "Waits of runs for an endpoint, by code.");
    describe_counter!(
        names::MESSAGES_NORMALIZED_TOTAL,
        "Conversations whose messages were merged, moved or left out before they were shown."
    );
    describe_histogram!(
        names::MCP_CALL_DURATION_SECONDS,
        Unit::Seconds,
        "One call of a tool of an MCP server, by outcome."
    );
    describe_counter!(names::MCP_STARTS_TOTAL, "Starts of MCP servers, by outcome.");
}

/// The names of a model in metrics.
#[derive(Debug, Clone, Copy)]
pub struct ModelLabels<'a> {
    /// The profile.
    pub profile: &'a str,
    /// The model, as the profile names it.
    pub model: &'a str,
}

/// What a whole reply used.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelUsage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Those of them that the endpoint had cached.
    pub cached_input: u64,
    /// Tokens of the reply.
    pub output: u64,
    /// The cost in millionths.
    pub cost_micros: u64,
}

/// Records one call of a model; `outcome` is `ok`, or the error's code.
pub fn record_model_call(labels: ModelLabels<'_>, outcome: &'static str, duration: Duration) {
    let ModelLabels { profile, model } = labels;
    let (profile, model) = (profile.to_owned(), model.to_owned());
    histogram!(
        names::MODEL_CALL_DURATION_SECONDS,
        "profile" => profile, "model" => model, "outcome" => outcome
    )
    .record(duration);
}

/// Counts the tokens and the cost of a reply.
pub fn count_model_usage(labels: ModelLabels<'_>, usage: ModelUsage) {
    let ModelLabels { profile, model } = labels;
    let ModelUsage { input, cached_input, output, cost_micros } = usage;
    for (kind, tokens) in [("input", input), ("cached_input", cached_input), ("output", output)] {
        let (profile, model) = (profile.to_owned(), model.to_owned());
        counter!(names::MODEL_TOKENS_TOTAL, "profile" => profile, "model" => model, "kind" => kind)
            .increment(tokens);
    }
    let (profile, model) = (profile.to_owned(), model.to_owned());
    counter!(names::MODEL_COST_MICROS_TOTAL, "profile" => profile, "model" => model)
        .increment(cost_micros);
}

/// Counts one request to a model that was sent and failed, whether it is sent again or not.
pub fn count_model_failure(labels: ModelLabels<'_>, code: &'static str) {
    let ModelLabels { profile, model } = labels;
    let (profile, model) = (profile.to_owned(), model.to_owned());
    counter!(names::MODEL_FAILURES_TOTAL, "profile" => profile, "model" => model, "code" => code)
        .increment(1);
}

/// Sets whether the circuit breaker of an endpoint keeps requests back.
pub fn set_model_breaker(endpoint: &str, is_open: bool) {
    gauge!(names::MODEL_BREAKER_OPEN, "endpoint" => endpoint.to_owned()).set(f64::from(is_open));
}

/// Counts one run that begins to wait for an endpoint, by the error's code.
pub fn count_model_wait(profile: &str, code: &'static str) {
    counter!(names::MODEL_WAITS_TOTAL, "profile" => profile.to_owned(), "code" => code)
        .increment(1);
}

/// Counts one conversation that was brought into the form in which it is shown.
pub fn count_normalized() {
    counter!(names::MESSAGES_NORMALIZED_TOTAL).increment(1);
}

/// Records one call of a tool of an MCP server; `outcome` is `ok`, `failed` for a failure that the tool reports, or the
/// error's code.
pub fn record_mcp_call(server: &str, outcome: &'static str, duration: Duration) {
    let server = server.to_owned();
    histogram!(names::MCP_CALL_DURATION_SECONDS, "server" => server, "outcome" => outcome)
        .record(duration);
}

/// Counts one start of an MCP server; `outcome` is `started`, `restarted` after a failure, or `failed`.
pub fn count_mcp_start(server: &str, outcome: &'static str) {
    counter!(names::MCP_STARTS_TOTAL, "server" => server.to_owned(), "outcome" => outcome)
        .increment(1);
}
