//! The table of who may make which call: complete over the API, and what the documentation shows.

use super::assert_page;
use std::collections::BTreeSet;
use surety_common::domain::identity::{Means, RULES, Rule, document};
use surety_common::wire::FILE_DESCRIPTOR_SET;

/// Every call of the API, as `Service.Method`, and whether it answers with a stream.
fn calls_of_the_api() -> BTreeSet<(String, bool)> {
    let set: prost_types::FileDescriptorSet =
        prost::Message::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
    let files = set.file.iter().filter(|file| file.package() == "surety.v1");
    let services = files.flat_map(|file| &file.service);
    services
        .flat_map(|service| {
            let of = |method: &str| format!("{}.{method}", service.name());
            let call = |method: &prost_types::MethodDescriptorProto| {
                (of(method.name()), method.server_streaming())
            };
            service.method.iter().map(call).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_call_of_the_api_has_one_rule_and_every_rule_a_call() {
    let call = |rule: &Rule| (format!("{}.{}", rule.service, rule.method), rule.is_stream);
    let rules: Vec<_> = RULES.iter().map(call).collect();
    let unique: BTreeSet<_> = rules.iter().cloned().collect();
    assert_eq!(unique.len(), rules.len(), "a call has two rules");
    assert_eq!(unique, calls_of_the_api());
}

/// Calls that change state without a request id, because another field makes a repetition safe.
const REPEATABLE: [&str; 16] = [
    // The fence, and the number of the turn.
    "ExecutorService.LeaseStep",
    "ExecutorService.SubmitDecision",
    "ExecutorService.Heartbeat",
    "ExecutorService.ReleaseStep",
    "PlannerService.LeasePlan",
    "PlannerService.HeartbeatPlan",
    "PlannerService.ReleasePlan",
    // A stream.
    "ToolService.Connect",
    // The revision and the receipts: the same ones return the stored verdict.
    "InternalService.EvaluateRun",
    // The delivery and the content of the event: the same one makes no further task.
    "ToolchainService.SubmitEvent",
    "ToolchainService.ReplayDelivery",
    // The name: a repetition leaves what is there.
    "ToolchainService.PutAgent",
    "ToolchainService.DeleteAgent",
    "ToolchainService.PutHook",
    "ToolchainService.DeleteHook",
    // The message, which is read once.
    "ToolchainService.ReadMail",
];

#[test]
fn every_call_that_changes_state_takes_a_request_id() {
    let set: prost_types::FileDescriptorSet =
        prost::Message::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
    let fields_of = |name: &str| -> BTreeSet<String> {
        let messages = set.file.iter().flat_map(|file| &file.message_type);
        let mut found = messages.filter(|message| message.name() == name);
        let fields = found.next().map(|message| message.field.iter());
        fields.into_iter().flatten().map(|field| field.name().to_owned()).collect()
    };
    for rule in RULES
        .iter()
        .filter(|rule| matches!(rule.means, Means::Change | Means::Answer | Means::Approval))
    {
        let call = format!("{}.{}", rule.service, rule.method);
        let takes = fields_of(&format!("{}Request", rule.method)).contains("request_id");
        assert_ne!(takes, REPEATABLE.contains(&call.as_str()), "{call}");
    }
}

#[test]
fn the_documentation_is_what_the_table_says() {
    assert_page("authorization.md", &document());
}
