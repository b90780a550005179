//! Journal entries are read as they were written.

use super::*;
use crate::domain::decision::{Abort, Action, Usage, UsageSource};
use crate::domain::json::{self, Value};
use crate::domain::plan::ToolCall;
use crate::domain::problem::WarningCode;
use crate::domain::receipt::{Command, Conditions, EvidenceSource, Fact};
use crate::domain::repository::{ChangedFile, RepositoryOutcome};
use crate::domain::tests_seen::Counts;
use crate::domain::verdict::{Approval, Caution, CheckResult, Strength};
use chrono::TimeDelta;
use proptest::option::of;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn changes_read_back_as_they_were_written(
        changes in prop::collection::vec(
            (-5_000_000_i64..5_000_000, of("[0-9a-f]{16}"), prop::collection::vec(entry(), 1..6)),
            0..4,
        ),
    ) {
        let at = |after: i64| row_at() + TimeDelta::microseconds(after);
        let recorded: Vec<Recorded<'_>> = changes
            .iter()
            .map(|(after, span_id, entries)| {
                Recorded { at: at(*after), span_id: span_id.as_deref(), entries }
            })
            .collect();
        let text = write_changes(&recorded, &writer(), row_at());
        let count: usize = changes.iter().map(|(_, _, entries)| entries.len()).sum();
        let documented = changes.iter().flat_map(|(after, span_id, entries)| {
            entries.iter().map(move |entry| (at(*after), span_id.clone(), entry.clone()))
        });
        let expected: Vec<Event> = (1..)
            .zip(documented)
            .map(|(sequence, (at, span_id, entry))| Event { sequence, at, span_id, entry })
            .collect();
        let row = row(&text, i64::try_from(count).unwrap());
        let receipts = expected.iter().filter(|event| matches!(event.entry, Entry::Receipt(_)));
        let work = expected
            .iter()
            .filter(|event| matches!(event.entry, Entry::Receipt(_) | Entry::Turn(_)));
        prop_assert_eq!(read_changes(row, Wanted::Work), Ok(work.cloned().collect()));
        prop_assert_eq!(read_changes(row, Wanted::Receipts), Ok(receipts.cloned().collect()));
        prop_assert_eq!(read_changes(row, Wanted::Everything), Ok(expected));
    }

    #[test]
    fn text_that_is_no_journal_is_refused_and_never_panics(text in ".*") {
        drop(read_changes(row(&text, 1), Wanted::Everything));
        drop(read_entries(&text));
    }
}

fn row_at() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn row(text: &str, sequence: i64) -> StoredRow<'_> {
    StoredRow { sequence, at: row_at(), actor: "executor/1", text }
}

/// The stored text of one change's entries.
fn write_entries(entries: &[Entry]) -> String {
    let change = Recorded { at: row_at(), span_id: None, entries };
    let text = write_changes(&[change], &writer(), row_at());
    text.strip_prefix(r#"[[0,"","#).unwrap().strip_suffix("]]").unwrap().to_owned()
}

fn read_entries(text: &str) -> Result<Vec<Entry>, StoredError> {
    let text = format!(r#"[[0,"",{text}]]"#);
    let events = read_changes(row(&text, 1), Wanted::Everything)?;
    Ok(events.into_iter().map(|event| event.entry).collect())
}

#[test]
fn a_change_without_its_time_or_its_span_is_refused() {
    for text in ["", "{}", "[1]", "[[]]", "[[0]]", r#"[[0,1]]"#, r#"[["0",""]]"#, r#"[[1e99,""]]"#]
    {
        assert!(read_changes(row(text, 1), Wanted::Everything).is_err(), "{text}");
    }
}

#[test]
fn a_kind_or_a_word_that_is_not_known_is_refused() {
    for text in [
        "1",
        "{}",
        r#"{"dream":{}}"#,
        r#"{"answer":{},"plan":{}}"#,
        r#"{"answer":{"by":"a"}}"#,
        r#"{"plan":{"revision":"one"}}"#,
        r#"{"plan":{"revision":-1}}"#,
        r#"{"transition":{"stop_reason":"tired"}}"#,
        r#"{"turn":{"decision":{"action":"sleep"}}}"#,
        r#"{"turn":{"validations":[{"code":"odd"}]}}"#,
        r#"{"verdict":{}}"#,
        r#"{"plan":7}"#,
        r#"{"plan":{"reason":7}}"#,
        r#"{"output":{"text":7}}"#,
        r#"{"turn":{"decision":7}}"#,
        r#"{"turn":{"validations":7}}"#,
        r#"{"turn":{"validations":[7]}}"#,
        r#"{"verdict":{"stop_reason":"accepted","accepted":"yes"}}"#,
    ] {
        assert!(read_entries(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_a_driver_wrote_keep_their_spelling() {
    let arguments = r#"{"n":[1e5,-0,1.50,0.1E+2,123456789012345678901234567890]}"#;
    let text = format!(
        r#"{{"turn":{{"step":"s","attempt":1,"number":1,"decision":{{"action":"continue","tool_call":{{"name":"t","arguments":{arguments}}}}},"validations":[]}}}}"#
    );
    let entries = read_entries(&text).unwrap();
    assert_eq!(write_entries(&entries), text);
}

#[test]
fn arguments_as_deep_as_a_decision_may_have_them_read_back() {
    let deep = "[".repeat(json::MAX_DEPTH - 1) + &"]".repeat(json::MAX_DEPTH - 1);
    let arguments = json::parse(&format!(r#"{{"deep":{deep}}}"#)).unwrap().value;
    let turn = Turn {
        step_id: "s".to_owned(),
        attempt: 1,
        number: 1,
        decision: Some(ExecuteDecision {
            speak: String::new(),
            action: Action::Continue,
            reason: String::new(),
            goal_check: String::new(),
            tool_call: Some(ToolCall { name: "t".to_owned(), arguments }),
            abort: None,
            answer_schema: None,
        }),
        validations: Vec::new(),
        warnings: Vec::new(),
        correction: String::new(),
        usage: Usage::default(),
        usage_source: UsageSource::Reported,
        reply: None,
        end: None,
    };
    let entries = vec![Entry::Turn(Box::new(turn))];
    let text = write_entries(&entries);
    assert_eq!(read_entries(&text), Ok(entries));
}

fn writer() -> Actor {
    Actor("executor/1".into())
}

/// Mostly the actor of the row, sometimes another. A name is never empty.
fn actor() -> impl Strategy<Value = Actor> {
    prop_oneof![3 => Just(writer()), 1 => ".+".prop_map(|name| Actor(name.into()))]
}

/// Any text: empty, blank, not ASCII, with quotes, controls and NUL.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(String::new()),
        1 => Just("\u{0}\u{1f}\"\\/\u{7f}\u{2028}\r\n\t".to_owned()),
        1 => Just("Größe 東京 🚀 e\u{301}".to_owned()),
        3 => any::<String>(),
    ]
}

fn model() -> BoxedStrategy<Box<ModelReply>> {
    (text(), text(), text(), text(), any::<bool>())
        .prop_map(|(endpoint, model, prompt, prompt_digest, cut)| {
            Box::new(ModelReply { endpoint, model, prompt, prompt_digest, cut })
        })
        .boxed()
}

fn entry() -> impl Strategy<Value = Entry> {
    // Boxed, because strategies that stand in each other take much of the stack.
    prop_oneof![
        transition().prop_map(Entry::Transition).boxed(),
        (any::<u32>(), text(), text(), text(), of(model()))
            .prop_map(|(revision, digest, parent_digest, reason, model)| {
                Entry::Plan(PlanStored { revision, digest, parent_digest, reason, model })
            })
            .boxed(),
        turn().prop_map(|turn| Entry::Turn(Box::new(turn))).boxed(),
        (text(), any::<u128>(), text(), text()).prop_map(|(step_id, id, tool, arguments_json)| {
            Entry::Intent(Intent { step_id, call_id: Uuid::from_u128(id), tool, arguments_json })
        }),
        receipt().prop_map(|receipt| Entry::Receipt(Box::new(receipt))).boxed(),
        (text(), text(), any::<u64>(), of(text())).prop_map(|(call_id, digest, bytes, text)| {
            Entry::Output(Output { call_id, digest, bytes, text })
        }),
        verdict().prop_map(|record| Entry::Verdict(Box::new(record))).boxed(),
        (any::<u128>(), text(), text()).prop_map(|(id, by, text)| {
            Entry::Answer(Answer { wait_id: Uuid::from_u128(id), by: Actor(by.into()), text })
        }),
        fork().prop_map(|fork| Entry::Forked(Box::new(fork))).boxed(),
    ]
}

fn fork() -> impl Strategy<Value = ForkedFrom> {
    let plan = (any::<u32>(), text());
    let chain = (any::<u32>(), text());
    let steps = prop::collection::vec(text(), 0..3);
    (any::<u128>(), text(), plan, chain, steps, any::<bool>()).prop_map(
        |(run_id, step_id, plan, chain, steps, wrote)| ForkedFrom {
            run_id: Uuid::from_u128(run_id),
            step_id,
            plan_revision: plan.0,
            plan_digest: plan.1,
            receipts: chain.0,
            last_receipt_digest: chain.1,
            steps,
            wrote,
        },
    )
}

fn transition() -> impl Strategy<Value = Transition> {
    // The id of a step is never empty: an empty one means the run.
    let subject = of(text().prop_filter("an id", |id| !id.is_empty()))
        .prop_map(|step| step.map_or(Subject::Run, Subject::Step));
    let stop_reason = of(prop::sample::select(StopReason::ALL.to_vec()));
    (subject, text(), text(), text(), text(), actor(), stop_reason).prop_map(
        |(subject, from, to, event, cause, actor, stop_reason)| Transition {
            subject,
            from: from.into(),
            to: to.into(),
            event: event.into(),
            cause: cause.into(),
            actor,
            stop_reason,
        },
    )
}

fn turn() -> impl Strategy<Value = Turn> {
    let validation = (text(), any::<bool>(), of(prop::sample::select(Code::ALL)), text()).prop_map(
        |(name, passed, code, reason)| Validation { name: name.into(), passed, code, reason },
    );
    let passed = ["flow", "evidence", "safety"].map(|name| Validation {
        name: name.into(),
        passed: true,
        code: None,
        reason: String::new(),
    });
    let validations = prop_oneof![Just(passed.to_vec()), prop::collection::vec(validation, 0..4)];
    let source = prop::sample::select(UsageSource::ALL.to_vec());
    let usage = (any::<u64>(), any::<u64>(), source)
        .prop_map(|(tokens, cost_micros, source)| (Usage { tokens, cost_micros }, source));
    let end = of(prop::sample::select(TurnEnd::ALL.to_vec()));
    let mark = (any::<i64>(), text(), of(model()))
        .prop_map(|(lease_epoch, digest, model)| ReplyMark { lease_epoch, digest, model })
        .boxed();
    // Boxed, because strategies that stand in each other take much of the stack.
    let warning = (prop::sample::select(WarningCode::ALL), of(".{1,20}"), of(".{1,20}"))
        .prop_map(|(code, field, detail)| Warning { code, field, detail });
    let warnings = prop::collection::vec(warning, 0..3);
    let rest = (validations, warnings, text(), usage, of(mark), end).boxed();
    (text(), any::<u32>(), any::<u32>(), of(decision()), rest).prop_map(
        |(
            step_id,
            attempt,
            number,
            decision,
            (validations, warnings, correction, (usage, usage_source), reply, end),
        )| Turn {
            step_id,
            attempt,
            number,
            decision,
            validations,
            warnings,
            correction,
            usage,
            usage_source,
            reply,
            end,
        },
    )
}

fn decision() -> impl Strategy<Value = ExecuteDecision> {
    let action = prop::sample::select(Action::ALL.to_vec());
    let call = (text(), value()).prop_map(|(name, arguments)| ToolCall { name, arguments });
    let abort = (text(), text(), text()).prop_map(|(code, user_message, internal_reason)| Abort {
        code,
        user_message,
        internal_reason,
    });
    (action, text(), text(), text(), of(call), of(abort)).prop_map(
        |(action, speak, reason, goal_check, tool_call, abort)| ExecuteDecision {
            speak,
            action,
            reason,
            goal_check,
            tool_call,
            abort,
            answer_schema: None,
        },
    )
}

/// Any JSON value, with numbers as people and models write them.
fn value() -> impl Strategy<Value = Value> {
    let spelled = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        spelled.prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = prop::collection::btree_map(text(), inner.clone(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()));
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::Array), members]
    })
}

fn verdict() -> impl Strategy<Value = VerdictRecord> {
    let result = (text(), any::<bool>(), text(), any::<bool>()).prop_map(
        |(name, passed, reason, optional)| CheckResult { name, passed, reason, optional },
    );
    let stop_reason = prop::sample::select(StopReason::ALL.to_vec());
    let verdict = (any::<bool>(), stop_reason, prop::collection::vec(result, 0..4)).prop_map(
        |(accepted, stop_reason, results)| Verdict {
            accepted,
            stop_reason,
            results,
            strength: if accepted { Strength::Independent } else { Strength::SelfChecked },
            round: 3,
            cautions: vec![Caution { code: "c".into(), check: "d".into(), detail: "e".into() }],
            approvals: vec![Approval { by: "f".into(), digest: "g".into() }],
            workspace_digest: "f".into(),
            sandbox: "partial(landlock)".into(),
            repository: accepted.then(|| RepositoryOutcome {
                reference: "r".into(),
                commit: "c".into(),
                base: "b".into(),
                files: 1,
                insertions: 2,
                deletions: 3,
                changed: vec![ChangedFile { path: "p".into(), binary: true, ..Default::default() }],
            }),
        },
    );
    (any::<u32>(), verdict, any::<u32>(), text(), text()).prop_map(
        |(plan_revision, verdict, receipts, last_receipt_digest, plan_digest)| VerdictRecord {
            plan_revision,
            verdict,
            receipts,
            last_receipt_digest,
            plan_digest,
            history: (receipts % 2 == 0)
                .then(|| TaskHistory { entries: receipts, last_digest: "h".into() }),
        },
    )
}

fn receipt() -> impl Strategy<Value = EvidenceReceipt> {
    let at = || of((0_i64..4_000_000_000, 0_u32..1_000_000).prop_map(|(s, us)| moment(s, us)));
    let source = prop::sample::select(EvidenceSource::ALL.to_vec());
    let place = (any::<u32>(), text(), any::<u32>(), any::<u64>());
    let what = (text(), source, text(), text(), any::<bool>(), text());
    let rest = (prop::collection::vec(fact(), 0..4), text(), at(), at(), text(), text());
    (place, what, rest).prop_map(|(place, what, rest)| {
        let (step_index, step_id, plan_revision, seq) = place;
        let (call_id, source, name, arguments_digest, success, summary) = what;
        let (facts, output_digest, started_at, finished_at, prev_digest, digest) = rest;
        EvidenceReceipt {
            step_index,
            step_id,
            plan_revision,
            seq,
            call_id,
            probe_of: None,
            source,
            name,
            arguments_digest,
            success,
            summary,
            facts,
            output_digest,
            sandbox: String::new(),
            started_at,
            finished_at,
            prev_digest,
            digest,
        }
    })
}

/// Times are stored to the microsecond.
fn moment(seconds: i64, microseconds: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, microseconds * 1000).unwrap()
}

fn conditions() -> impl Strategy<Value = Conditions> {
    (text(), prop::collection::vec(text(), 0..3), text(), text()).prop_map(
        |(cwd, environment, workspace_before, workspace_after)| Conditions {
            cwd,
            environment,
            workspace_before,
            workspace_after,
        },
    )
}

fn fact() -> impl Strategy<Value = Fact> {
    let command = prop_oneof![
        prop::collection::vec(text(), 0..4).prop_map(Command::Argv),
        text().prop_map(Command::Line),
    ];
    prop_oneof![
        (text(), of(text()), of(text())).prop_map(|(path, before_digest, after_digest)| {
            Fact::FileWritten { path, before_digest, after_digest }
        }),
        (text(), any::<bool>()).prop_map(|(path, exists)| Fact::FileObserved { path, exists }),
        (command, any::<i32>(), of(conditions())).prop_map(|(command, exit_code, conditions)| {
            Fact::Command { command, exit_code, conditions }
        }),
        (text(), text(), any::<bool>()).prop_map(|(path, contains, found)| Fact::Content {
            path,
            contains,
            found
        }),
        (text(), text(), any::<bool>()).prop_map(|(tool, scope, passed)| Fact::Verification {
            tool,
            scope,
            passed
        }),
        (text(), text()).prop_map(|(key, value)| Fact::Output { key, value }),
        (text(), any::<[u64; 4]>()).prop_map(|(runner, [ran, failed, skipped, missing])| {
            Fact::Tests { runner, counts: Counts { ran, failed, skipped, missing } }
        }),
    ]
}
