//! Every value of the domain survives a conversion to the wire and back.

use super::v1;
use crate::domain::check::{AcceptCheck, CheckKind, Match, Owner};
use crate::domain::decision::{Abort, Action, ExecuteDecision};
use crate::domain::fault::Reason;
use crate::domain::json::Value;
use crate::domain::limits::Limits;
use crate::domain::plan::{Evidence, Plan, PlanStep, ToolCall};
use crate::domain::receipt::{Command, Conditions, EvidenceReceipt, EvidenceSource, Fact};
use crate::domain::repository::{ChangedFile, RepositoryOutcome};
use crate::domain::stop::StopReason;
use crate::domain::tests_seen::Counts;
use crate::domain::todo::{Todo, TodoStatus};
use crate::domain::verdict::{Approval, Caution, CheckResult, Strength, Verdict};
use chrono::DateTime;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;

/// Encodes and decodes, to test the wire form itself.
fn travel<D, W>(value: D) -> D
where
    W: From<D> + Message + Default,
    D: TryFrom<W>,
    D::Error: std::fmt::Debug,
{
    let bytes = W::from(value).encode_to_vec();
    D::try_from(W::decode(bytes.as_slice()).unwrap()).unwrap()
}

fn word() -> impl Strategy<Value = String> {
    "[a-z_./]{0,8}"
}

fn check() -> impl Strategy<Value = AcceptCheck> {
    let matches = select(vec![Match::Prefix, Match::Exact, Match::Contains]);
    let owners = select(vec![Owner::Plan, Owner::User, Owner::Operator]);
    let params = btree_map(word(), ".*", 0..3);
    (word(), word(), word(), matches, any::<bool>(), params, owners).prop_map(
        |(id, kind, target, r#match, required, params, owner)| AcceptCheck {
            id,
            kind: CheckKind::from_text(&kind),
            target,
            r#match,
            required,
            params,
            owner,
            overlay: crate::domain::check::Overlay::default(),
        },
    )
}

fn todo() -> impl Strategy<Value = Todo> {
    let statuses = select(TodoStatus::ALL.to_vec());
    let at = option::of((0..4_000_000_000i64, 0..1_000_000_000u32));
    (word(), ".*", any::<bool>(), statuses, vec(word(), 0..3), at).prop_map(
        |(id, content, required, status, ids, at)| Todo {
            id,
            content,
            required,
            status,
            dependencies: ids.clone(),
            replaces: ids,
            created_at: at.and_then(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos)),
        },
    )
}

fn call() -> impl Strategy<Value = ToolCall> {
    (word(), vec(("[a-z]{1,5}", "[1-9][0-9]{0,30}"), 0..1)).prop_map(|(name, members)| {
        let members = members.into_iter().map(|(key, number)| (key, Value::Number(number)));
        ToolCall { name, arguments: Value::Object(members.collect()) }
    })
}

fn step() -> impl Strategy<Value = PlanStep> {
    let evidence = select(vec![Evidence::Required, Evidence::None]);
    (word(), ".*", vec(word(), 0..3), vec(check(), 0..2), evidence, vec(call(), 0..3)).prop_map(
        |(id, description, words, verify, evidence, script)| PlanStep {
            id,
            done_when: description.clone(),
            description,
            dependencies: words.clone(),
            tools_expected: words.clone(),
            outputs_expected: words.clone(),
            verify,
            evidence,
            script,
            write_scope: words.clone(),
            confirm_tools: words,
        },
    )
}

fn fact() -> impl Strategy<Value = Fact> {
    let digest = option::of("[0-9a-f]{4}");
    prop_oneof![
        (".*", digest.clone(), digest).prop_map(|(path, before_digest, after_digest)| {
            Fact::FileWritten { path, before_digest, after_digest }
        }),
        (".*", any::<bool>()).prop_map(|(path, exists)| Fact::FileObserved { path, exists }),
        (vec(".*", 0..3), any::<i32>(), ".*").prop_map(|(args, exit_code, cwd)| {
            let digest = cwd.clone();
            let conditions = Conditions {
                cwd,
                environment: args.clone(),
                workspace_before: digest.clone(),
                workspace_after: digest,
            };
            let conditions = Some(conditions);
            Fact::Command { command: Command::Argv(args), exit_code, conditions }
        }),
        (".*", any::<i32>()).prop_map(|(line, exit_code)| {
            Fact::Command { command: Command::Line(line), exit_code, conditions: None }
        }),
        (".*", ".*", any::<bool>()).prop_map(|(path, contains, found)| Fact::Content {
            path,
            contains,
            found
        }),
        (".*", ".*", any::<bool>()).prop_map(|(tool, scope, passed)| Fact::Verification {
            tool,
            scope,
            passed
        }),
        (".*", ".*").prop_map(|(key, value)| Fact::Output { key, value }),
        (".*", any::<[u64; 4]>()).prop_map(|(runner, [ran, failed, skipped, missing])| {
            Fact::Tests { runner, counts: Counts { ran, failed, skipped, missing } }
        }),
    ]
}

fn receipt() -> impl Strategy<Value = EvidenceReceipt> {
    let sources = select(EvidenceSource::ALL.to_vec());
    let at = (0..4_000_000_000i64).prop_map(|seconds| DateTime::from_timestamp(seconds, 7));
    (any::<u32>(), word(), any::<u64>(), sources, any::<bool>(), vec(fact(), 0..4), at).prop_map(
        |(number, text, seq, source, success, facts, at)| EvidenceReceipt {
            step_index: number,
            step_id: text.clone(),
            plan_revision: number,
            seq,
            call_id: text.clone(),
            probe_of: None,
            source,
            name: text.clone(),
            arguments_digest: text.clone(),
            success,
            summary: text.clone(),
            facts,
            output_digest: text.clone(),
            sandbox: String::new(),
            started_at: at,
            finished_at: None,
            prev_digest: text.clone(),
            digest: text,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_survives_the_wire(
        title in ".*",
        steps in vec(step(), 0..4),
        verify in vec(check(), 0..3),
        todos in vec(todo(), 0..3),
    ) {
        let plan = Plan { goal: title.clone(), title, steps, verify, todos };
        prop_assert_eq!(travel::<_, v1::Plan>(plan.clone()), plan);
    }

    #[test]
    fn a_decision_survives_the_wire(
        action in select(Action::ALL.to_vec()),
        text in word(),
        tool_call in option::of(call()),
        aborts in any::<bool>(),
    ) {
        let abort = aborts.then(|| Abort {
            code: text.clone(),
            user_message: text.clone(),
            internal_reason: text.clone(),
        });
        let decision = ExecuteDecision {
            speak: text.clone(),
            action,
            reason: text.clone(),
            goal_check: text,
            tool_call,
            abort,
            answer_schema: None,
        };
        prop_assert_eq!(travel::<_, v1::ExecuteDecision>(decision.clone()), decision);
    }

    #[test]
    fn a_receipt_survives_the_wire(receipt in receipt()) {
        prop_assert_eq!(travel::<_, v1::EvidenceReceipt>(receipt.clone()), receipt);
    }
}

#[test]
fn every_verdict_survives_the_wire_and_its_reason_has_the_contracts_name() {
    for reason in StopReason::ALL {
        let verdict = Verdict {
            accepted: reason == StopReason::Accepted,
            stop_reason: reason,
            results: vec![CheckResult {
                name: "c".into(),
                passed: false,
                reason: "no_file_evidence".into(),
                optional: true,
            }],
            strength: Strength::Independent,
            round: 2,
            cautions: vec![Caution {
                code: "thin_check".into(),
                check: "c".into(),
                detail: "`true` cannot fail".into(),
            }],
            approvals: vec![Approval { by: "alice".into(), digest: "d".into() }],
            workspace_digest: "d1".into(),
            sandbox: "full".into(),
            repository: Some(RepositoryOutcome {
                reference: "refs/surety/runs/r".into(),
                commit: "c".into(),
                base: "b".into(),
                files: 1,
                insertions: 2,
                deletions: 3,
                changed: vec![ChangedFile {
                    path: "p".into(),
                    insertions: 2,
                    deletions: 3,
                    binary: false,
                }],
            }),
        };
        assert_eq!(travel::<_, v1::Verdict>(verdict.clone()), verdict);
        let name = v1::StopReason::from(reason).as_str_name();
        let word = name.strip_prefix("STOP_REASON_").unwrap().to_lowercase();
        assert_eq!(word, reason.as_str());
    }
}

/// The words in backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_error_that_the_api_docs_name_exists() {
    let files = prost_types::FileDescriptorSet::decode(super::FILE_DESCRIPTOR_SET).unwrap().file;
    let ours = || files.iter().filter(|file| file.package() == "surety.v1");
    let fields: Vec<&str> = ours()
        .flat_map(|file| &file.message_type)
        .flat_map(|message| &message.field)
        .map(|field| field.name())
        .collect();
    let mut named = 0;
    for location in
        ours().filter_map(|file| file.source_code_info.as_ref()).flat_map(|info| &info.location)
    {
        let Some((_, errors)) = location.leading_comments().split_once("Errors:") else {
            continue;
        };
        for word in quoted(errors).filter(|word| !fields.contains(word)) {
            assert!(Reason::from_text(word).is_some(), "{word} is no code: {errors}");
            named += 1;
        }
    }
    assert!(named > 20, "the descriptors have lost their comments");
}

#[test]
fn the_keys_of_the_policy_are_the_fields_of_its_message() {
    let files = prost_types::FileDescriptorSet::decode(super::FILE_DESCRIPTOR_SET).unwrap().file;
    let message = files
        .iter()
        .filter(|file| file.package() == "surety.v1")
        .flat_map(|file| &file.message_type)
        .find(|message| message.name() == "Policy");
    let mut fields: Vec<&str> = message.unwrap().field.iter().map(|field| field.name()).collect();
    fields.sort_unstable();
    assert_eq!(crate::domain::run::Policy::KEYS.to_vec(), fields);
}

#[test]
fn limits_survive_the_wire() {
    let limits = Limits { max_replans: 0, token_budget: Some(9), ..Limits::default() };
    assert_eq!(travel::<_, v1::Limits>(limits.clone()), limits);
}
