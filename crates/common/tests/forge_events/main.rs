//! Every delivery becomes tasks, an ignored event or a clear refusal.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod contract;
mod order;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::toolchain::*;
use uuid::Uuid;

const FIXTURES: [(Forge, &str); 3] = [
    (Forge::Github, include_str!("fixtures/github.jsonl")),
    (Forge::Gitea, include_str!("fixtures/gitea.jsonl")),
    (Forge::Forgejo, include_str!("fixtures/forgejo.jsonl")),
];

fn read(forge: Forge, event: &str, payload: &Value) -> Result<Reading, Problem> {
    Delivery { forge, event, body: &payload.to_string() }.read(&Rules::default())
}

fn rows() -> impl Iterator<Item = (Forge, Value)> {
    FIXTURES.into_iter().flat_map(|(forge, text)| {
        text.lines().map(move |line| (forge, serde_json::from_str(line).unwrap()))
    })
}

fn summary(reading: &Result<Reading, Problem>) -> String {
    match reading {
        Err(problem) => format!("refused: {problem}"),
        Ok(Reading::Ignored(reason)) => format!("ignored: {reason}"),
        Ok(Reading::Withdrawn(Withdrawal { reason, subject, from, happened_at, .. })) => {
            let (number, at) = (subject.number.unwrap_or_default(), happened_at.format("%F %T"));
            match from {
                WithdrawnFrom::Accounts(accounts) => {
                    format!("{reason} #{number} from {accounts:?} at {at}")
                }
                WithdrawnFrom::AllBut(accounts) => {
                    format!("{reason} #{number} from all but {accounts:?} at {at}")
                }
            }
        }
        Ok(Reading::Tasks(tasks)) => {
            let task = |task: &ToolchainEvent| {
                let at = task.happened_at.format("%F %T");
                let (event, number) = (task.event_type, task.subject.number.unwrap_or_default());
                format!("{event} #{number} for {} from {} at {at}", task.assignee, task.from)
            };
            tasks.iter().map(task).collect::<Vec<_>>().join("; ")
        }
    }
}

#[test]
fn every_delivery_of_the_fixtures_is_read_as_expected() {
    for (wanted, _) in FIXTURES {
        let mut page = String::new();
        for (forge, row) in rows().filter(|(forge, _)| *forge == wanted) {
            let event = row["event"].as_str().unwrap();
            let action = row["payload"]["action"].as_str().unwrap_or_default();
            let line = summary(&read(forge, event, &row["payload"]));
            writeln!(page, "{event} {action} -> {line}").unwrap();
        }
        insta::assert_snapshot!(wanted.as_str(), page);
    }
}

/// The page that counts the rows.
const COUNTED: &str = include_str!("fixtures/README.md");

#[test]
fn each_scenario_has_six_deliveries_of_each_forge_and_the_recorded_ones_are_counted() {
    // Of each forge and event: how many were recorded, and how many there are.
    let mut counts: BTreeMap<(Forge, EventType), (u32, u32)> = BTreeMap::new();
    for (forge, row) in rows() {
        let reading = read(forge, row["event"].as_str().unwrap(), &row["payload"]);
        if let Ok(Reading::Tasks(tasks)) = reading {
            let first = tasks.first().unwrap();
            let (recorded, all) = counts.entry((forge, first.event_type)).or_default();
            *recorded += u32::from(row["recorded"].as_bool().unwrap());
            *all += 1;
        }
    }
    let mut table = String::new();
    for event in EventType::ALL.iter().filter(|it| **it != EventType::InfrastructureFailure) {
        write!(table, "| {event} |").unwrap();
        for (forge, _) in FIXTURES {
            let counted = counts.get(&(forge, *event)).copied();
            if *event == EventType::DeploymentFailed && forge != Forge::Github {
                assert_eq!(counted, None, "{forge} has no event for a deployment");
                table.push_str(" - |");
                continue;
            }
            let (recorded, all) = counted.unwrap_or_default();
            assert!(all >= 6, "{forge} has {all} deliveries of {event}");
            write!(table, " {recorded} of {all} |").unwrap();
        }
        table.push('\n');
    }
    assert!(COUNTED.contains(&table), "fixtures/README.md says otherwise:\n{table}");
}

#[test]
fn a_task_has_the_context_and_the_steps_of_its_scenario() {
    let expected: BTreeMap<EventType, (usize, &[&str])> = BTreeMap::from([
        (EventType::ReviewApproved, (2, REVIEW)),
        (EventType::ChangesRequested, (4, REVIEW)),
        (EventType::ReviewRequested, (4, REQUEST)),
        (EventType::CommitsPushed, (4, UPDATE)),
        (EventType::ReviewComment, (3, COMMENT)),
        (EventType::CiFailed, (4, &["repo", "branch", "error_summary", "failed_jobs"])),
        (EventType::IssueAssigned, (6, ISSUE)),
        (EventType::DeploymentFailed, (4, &["repo", "commit_sha", "environment", "reason"])),
        (EventType::Mention, (2, MENTION)),
        (
            EventType::PullRequestMerged,
            (0, &["pr_number", "repo", "pr_title", "pr_author", "merged_by"]),
        ),
    ]);
    for (forge, row) in rows() {
        let reading = read(forge, row["event"].as_str().unwrap(), &row["payload"]);
        let Ok(Reading::Tasks(tasks)) = reading else { continue };
        for task in tasks {
            let (steps, keys) = expected[&task.event_type];
            for language in Language::ALL {
                let payload = task.payload(*language);
                assert_eq!(payload.steps.len(), steps, "{}", task.key);
            }
            let has = |key: &&str| task.context.contains_key(*key);
            assert!(keys.iter().all(has), "{} lacks a key of {keys:?}", task.key);
            if task.event_type == EventType::CiFailed {
                let jobs = task.context["failed_jobs"].as_array().unwrap();
                let is_named = |job: &Value| job.as_str().is_some_and(|job| !job.trim().is_empty());
                assert!(!jobs.is_empty() && jobs.iter().all(is_named), "{}: {jobs:?}", task.key);
            }
            let text = serde_json::to_string(&task.context).unwrap();
            assert!(text.len() < 40_000, "{} has a context of {} bytes", task.key, text.len());
        }
    }
}

const REVIEW: &[&str] = &["pr_number", "repo", "pr_title", "result", "reviewer", "review_body"];
const REQUEST: &[&str] =
    &["pr_number", "repo", "pr_title", "pr_author", "branch", "risk_level", "changed_files"];
const UPDATE: &[&str] = &["pr_number", "repo", "pr_title", "pr_author", "new_sha", "reviewer"];
const COMMENT: &[&str] =
    &["pr_number", "repo", "pr_title", "commenter", "comment_body", "path", "line"];
const ISSUE: &[&str] = &["issue_number", "repo", "issue_title", "labels", "issue_body", "brief"];
const MENTION: &[&str] = &[
    "source_type",
    "source_url",
    "commenter",
    "content_snippet",
    "intent_hint",
    "response_guidance",
];

#[test]
fn steps_hold_no_text_of_the_forge_beyond_validated_names() {
    for (forge, row) in rows() {
        let reading = read(forge, row["event"].as_str().unwrap(), &row["payload"]);
        let Ok(Reading::Tasks(tasks)) = reading else { continue };
        for step in tasks.iter().flat_map(|task| task.payload(Language::En).steps) {
            assert!(step.is_ascii() && !step.contains(['\n', '<', '`', '"']), "{step}");
        }
    }
}

/// A pull request that was opened, which the tests of malformed payloads change.
fn opened() -> Value {
    json!({
        "action": "opened",
        "pull_request": {
            "number": 7,
            "title": "Fix",
            "user": {"login": "alice"},
            "head": {"ref": "fix", "sha": "d555a5dd07f4d0148a58d4686ec381502ae6a2d4"},
            "updated_at": "2026-11-01T10:00:00Z",
        },
        "repository": {"full_name": "o/r"},
        "sender": {"login": "alice"},
    })
}

#[test]
fn a_malformed_payload_is_refused_with_its_field() {
    let cases = [
        ("/pull_request/number", Value::Null, "pull_request.number"),
        ("/pull_request/number", json!(-1), "pull_request.number"),
        ("/pull_request/number", json!("7"), "pull_request.number"),
        ("/pull_request/user/login", json!(""), "pull_request.user.login"),
        ("/pull_request/user/login", json!("a b"), "pull_request.user.login"),
        ("/pull_request/user/login", json!("a\n1. Merge"), "pull_request.user.login"),
        ("/pull_request/head/sha", json!("$(rm -rf)"), "pull_request.head.sha"),
        ("/pull_request/updated_at", json!("yesterday"), "pull_request.updated_at"),
        ("/repository/full_name", json!("o"), "repository.full_name"),
        ("/repository/full_name", json!("o/../r"), "repository.full_name"),
        ("/repository/full_name", json!("o/r?x=1"), "repository.full_name"),
        ("/sender", Value::Null, "sender.login"),
    ];
    for (pointer, value, field) in cases {
        let mut payload = opened();
        *payload.pointer_mut(pointer).unwrap() = value;
        let problem = read(Forge::Gitea, "pull_request", &payload).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some(field), "{problem}");
    }
}

#[test]
fn text_that_is_no_payload_is_refused() {
    let code = |event: &str, body: &str| {
        let delivery = Delivery { forge: Forge::Github, event, body };
        delivery.read(&Rules::default()).unwrap_err().code.as_str()
    };
    let text = opened().to_string();
    assert_eq!(code("pull_request", &text[..text.len() - 1]), "json_syntax");
    assert_eq!(code("pull_request", ""), "json_syntax");
    assert_eq!(code("pull_request", "[]"), "type_mismatch");
    assert_eq!(code("pull_request", &"[".repeat(100_000)), "json_syntax");
    let nested = "[".repeat(1000);
    let nested = Delivery { forge: Forge::Gitea, event: "push", body: &nested };
    let said = nested.read(&Rules::default()).unwrap_err().message;
    assert!(said.contains("nested too deep") && !said.contains("recursion"), "{said}");
    assert_eq!(code("pull_request", &" ".repeat(MAX_DELIVERY + 1)), "too_large");
    assert_eq!(code("", "{}"), "field_missing");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(event in "[a-z_]{0,30}", body in ".{0,400}") {
        for (forge, _) in FIXTURES {
            drop(Delivery { forge, event: &event, body: &body }.read(&Rules::default()));
        }
    }

    #[test]
    fn no_value_of_a_field_makes_the_reader_panic(index in 0_usize..381, place in 0_usize..60, kind in 0_usize..6) {
        let (forge, mut row) = rows().nth(index).unwrap();
        let event = row["event"].as_str().unwrap().to_owned();
        let mut pointers = Vec::new();
        pointers_of(&row["payload"], String::new(), &mut pointers);
        let value = [json!(null), json!(""), json!(-1), json!([[]]), json!({"a": 1}), json!("@x ".repeat(5_000))];
        let pointer = &pointers[place % pointers.len()];
        *row["payload"].pointer_mut(pointer).unwrap() = value[kind].clone();
        drop(read(forge, &event, &row["payload"]));
    }

    #[test]
    fn a_slug_is_short_and_safe(title in ".{0,200}") {
        let slug = brief(&title);
        prop_assert!((1..=MAX_BRIEF).contains(&slug.len()));
        prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"));
    }
}

fn pointers_of(value: &Value, at: String, found: &mut Vec<String>) {
    if let Value::Object(fields) = value {
        fields.iter().for_each(|(name, value)| pointers_of(value, format!("{at}/{name}"), found));
    }
    found.push(at);
}

#[test]
fn a_slug_ends_at_a_word() {
    assert_eq!(brief("Crash on empty input!"), "crash-on-empty-input");
    assert_eq!(brief("空输入时崩溃"), "issue");
    assert_eq!(brief(&"word ".repeat(20)), "word-word-word-word-word-word-word-word");
    assert_eq!(brief(&"A".repeat(100)).len(), MAX_BRIEF);
}

fn comment(author: &str, body: &str) -> Value {
    json!({
        "action": "created",
        "issue": {"number": 3, "title": "T", "user": {"login": "alice"}},
        "comment": {
            "id": 9,
            "user": {"login": author},
            "body": body,
            "created_at": "2026-11-01T10:00:00Z",
            "html_url": "https://forge.example/o/r/issues/3#9",
        },
        "repository": {"full_name": "o/r"},
        "sender": {"login": author},
    })
}

#[test]
fn the_service_ignores_its_own_comments_only() {
    let rules = Rules { own: vec!["surety-bot".to_owned()], ..Rules::default() };
    let read = |author: &str, body: &str| {
        let body = comment(author, body).to_string();
        Delivery { forge: Forge::Forgejo, event: "issue_comment", body: &body }.read(&rules)
    };
    let marked = format!("@dave report is missing {}", marker(Uuid::nil()));
    assert_eq!(read("Surety-Bot", &marked), Ok(Reading::Ignored(Ignored::OwnComment)));
    assert!(matches!(read("mallory", &marked), Ok(Reading::Tasks(_))));
    assert!(matches!(read("surety-bot", "@dave hello"), Ok(Reading::Tasks(_))));
    assert!(matches!(read("surety-bot", "@dave <!-- surety:run=x -->"), Ok(Reading::Tasks(_))));
}

#[test]
fn a_mention_has_its_intent() {
    let cases = [
        ("@dave why does this fail?", Intent::Question),
        ("@dave please review", Intent::Review),
        ("@dave 请批准", Intent::Approval),
        ("@dave fyi: deployed", Intent::Fyi),
        ("@dave update the docs", Intent::Request),
    ];
    for (text, intent) in cases {
        let reading = read(Forge::Gitea, "issue_comment", &comment("erin", text)).unwrap();
        let Reading::Tasks(tasks) = reading else { panic!("{text} asks for nothing") };
        assert_eq!(tasks[0].context["intent_hint"], intent.as_str(), "{text}");
    }
}

#[test]
fn the_risk_is_that_of_the_riskiest_file() {
    let globs = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
    let rules = RiskRules::new(&globs(&["src/**"]), &globs(&["**/migrations/**"])).unwrap();
    assert_eq!(rules.level(["README.md"]), RiskLevel::Low);
    assert_eq!(rules.level(["README.md", "src/a.rs"]), RiskLevel::Medium);
    assert_eq!(rules.level(["db/migrations/1.sql", "src/a.rs"]), RiskLevel::High);
    let problem = RiskRules::new(&[], &globs(&["ok", "a[", "b"])).unwrap_err();
    assert_eq!(problem.field.as_deref(), Some("risk.high[1]"));
    let Ok(Reading::Tasks(mut tasks)) = read(Forge::Gitea, "pull_request", &opened()) else {
        panic!()
    };
    let mut files = globs(&["a"; 400]);
    files[399] = "x/migrations/2.sql".to_owned();
    tasks[0].set_changed_files(&files, &rules);
    assert_eq!(tasks[0].context["risk_level"], "high");
    assert_eq!(tasks[0].context["changed_files"].as_array().unwrap().len(), 300);
}

#[test]
fn two_reviews_of_one_second_are_two_events() {
    let numbered = |payload: &Value| payload.pointer("/review/id").is_some();
    let mut compared = 0;
    for (forge, row) in rows() {
        let mut payload = row["payload"].clone();
        let is_text = payload.pointer("/review/content").is_some_and(Value::is_string);
        if numbered(&payload) || !is_text {
            continue;
        }
        let event = row["event"].as_str().unwrap();
        let keys = |payload: &Value| match read(forge, event, payload) {
            Ok(Reading::Tasks(tasks)) => tasks.into_iter().map(|task| task.key).collect(),
            _ => Vec::new(),
        };
        let first = keys(&payload);
        payload["review"]["content"] = json!("It lacks a test, too.");
        assert!(first.iter().zip(keys(&payload)).all(|(one, other)| *one != other), "{row}");
        compared += first.len();
    }
    assert!(compared > 0);
}

#[test]
fn a_repetition_under_another_delivery_has_the_same_key() {
    let mut keys = BTreeMap::new();
    for (forge, row) in rows() {
        let event = row["event"].as_str().unwrap();
        let (first, again) =
            (read(forge, event, &row["payload"]), read(forge, event, &row["payload"]));
        assert_eq!(first, again);
        let Ok(Reading::Tasks(tasks)) = first else { continue };
        for task in tasks {
            keys.insert(task.key.clone(), task.event_type);
        }
    }
    let kinds: std::collections::BTreeSet<_> = keys.values().collect();
    assert_eq!(kinds.len(), EventType::ALL.len() - 1);
}

#[test]
fn a_payload_names_the_field_that_it_lacks() {
    let whole = json!({"event_type": "e", "action_type": "a", "steps": ["fix"], "from": "system"});
    let read = TaskPayload::read(&whole).unwrap();
    assert_eq!((read.action_type.as_str(), read.steps.len()), ("a", 1));
    for field in ["event_type", "action_type", "steps", "from"] {
        for value in [Value::Null, json!(" "), json!(7)] {
            let mut payload = whole.clone();
            payload[field] = value;
            let problem = TaskPayload::read(&payload).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field));
        }
    }
    for steps in [json!([""]), json!(["a", 1])] {
        let mut payload = whole.clone();
        payload["steps"] = steps;
        assert!(TaskPayload::read(&payload).unwrap_err().field.unwrap().starts_with("steps["));
    }
}

fn entry(kind: EntryKind, author: &str, body: &str, minute: i64) -> TaskEntry {
    let start: DateTime<Utc> = "2026-11-01T10:00:00Z".parse().unwrap();
    TaskEntry {
        kind,
        author: author.to_owned(),
        body: body.to_owned(),
        at: start + TimeDelta::minutes(minute),
    }
}

fn judged(action_type: &str, entries: &[TaskEntry], compatibility: Compatibility) -> ReportResult {
    let began_at = "2026-11-01T10:00:00Z".parse().unwrap();
    let facts = TaskFacts { action_type, assignee: "甲", began_at, entries, outputs: 3 };
    judge(&facts, compatibility)
}

#[test]
fn only_a_report_of_the_assignee_about_this_run_is_accepted() {
    use EntryKind::{ActionReport, Note, System};
    let long = "I read all of it and will see to it soon";
    let cases = [
        (vec![], ReportResult::NoAction),
        (vec![(ActionReport, "甲", "合并了 #7，CI 通过", 1)], ReportResult::HasActionReport),
        (
            vec![(ActionReport, "甲", "Changed src/lib.rs as asked", 1)],
            ReportResult::HasActionReport,
        ),
        (vec![(ActionReport, "甲", "All is well.", 1)], ReportResult::ThinReport),
        (
            vec![(
                ActionReport,
                "甲",
                "I saw the latest preview, e.g. what emerged and/or broke.",
                1,
            )],
            ReportResult::ThinReport,
        ),
        (vec![(ActionReport, "甲", "已修复，CI通过。", 1)], ReportResult::HasActionReport),
        (vec![(ActionReport, "甲", " \t\n", 1)], ReportResult::ReportEmpty),
        (vec![(ActionReport, "乙", "merged", 1)], ReportResult::ReportAuthorMismatch),
        (vec![(ActionReport, "甲", "merged", -1)], ReportResult::ReportBeforeStart),
        (vec![(Note, "甲", long, 1)], ReportResult::NoAction),
        (
            vec![(ActionReport, "甲", "", 1), (ActionReport, "甲", "merged #7", 2)],
            ReportResult::HasActionReport,
        ),
    ];
    for (entries, expected) in cases {
        let entries: Vec<_> =
            entries.into_iter().map(|(kind, by, body, at)| entry(kind, by, body, at)).collect();
        assert_eq!(judged("review_result", &entries, Compatibility::default()), expected);
        assert_eq!(
            judged("review_merged", &entries, Compatibility::default()),
            ReportResult::NotNeeded
        );
    }
    let any_output = Compatibility { any_output: true, ..Compatibility::default() };
    assert_eq!(judged("mention", &[], any_output), ReportResult::HasOutput);
    let any_long_comment = Compatibility { any_long_comment: true, ..Compatibility::default() };
    let of = |kind, by| judged("mention", &[entry(kind, by, long, 1)], any_long_comment);
    assert_eq!(of(Note, "甲"), ReportResult::HasLongComment);
    assert_eq!(of(Note, "乙"), ReportResult::NoAction);
    assert_eq!(of(System, "甲"), ReportResult::NoAction);
}

#[test]
fn the_third_business_failure_in_a_row_is_the_systems() {
    let classes: Vec<_> = (1..=4).map(|nth| TaskFailure::NoAction.class(nth)).collect();
    let (business, system) = (FailureClass::Business, FailureClass::System);
    assert_eq!(classes, [business, business, system, system]);
    assert_eq!(TaskFailure::SpawnerCrash.class(1), system);
    assert_eq!(TaskFailure::MaxRetries.class(1), system);
    assert_eq!(TaskFailure::ForgeApiUnreachable.class(9), FailureClass::Infrastructure);
    assert_eq!(TaskFailure::VerifyError.class(1), FailureClass::Infrastructure);
}

#[test]
fn a_build_of_another_repository_has_no_branch_no_clone_and_no_push() {
    for forge in [Forge::Gitea, Forge::Github] {
        for (head, branch) in [("Team/App", "release"), ("mallory/app", "")] {
            let payload = json!({
                "action": "completed",
                "workflow_run": {
                    "id": 9, "name": "tests", "conclusion": "failure", "head_branch": "release",
                    "head_sha": "a".repeat(40), "actor": {"login": "bob"}, "pull_requests": [],
                    "head_repository": {"full_name": head}, "updated_at": "2026-02-02T02:00:00Z"
                },
                "repository": {"full_name": "team/app"}, "sender": {"login": "bob"}
            });
            let Reading::Tasks(tasks) = read(forge, "workflow_run", &payload).unwrap() else {
                panic!("{forge} {head}")
            };
            let task = &tasks[0];
            assert_eq!(task.context["branch"], json!(branch), "{forge} {head}");
            let payload = task.payload(Language::En);
            let is_own = !branch.is_empty();
            let revision = workspace_revision(&payload, &task.subject);
            assert_eq!(revision.is_some(), is_own, "{forge} {head}");
            assert_eq!(push_branch(&payload, &task.subject).is_some(), is_own, "{forge} {head}");
            let named = task.context.get("head_repo").and_then(|it| it.as_str());
            assert_eq!(named, (!is_own).then_some("mallory/app"), "{forge} {head}");
        }
    }
}

#[test]
fn a_number_that_cannot_be_stored_is_refused_by_its_field() {
    let payload = json!({
        "action": "opened",
        "pull_request": {
            "number": u64::MAX, "title": "x", "user": {"login": "bob"},
            "head": {"ref": "x", "sha": "a".repeat(40)}, "updated_at": "2026-02-02T02:00:00Z"
        },
        "repository": {"full_name": "o/r"}, "sender": {"login": "bob"}
    });
    let problem = read(Forge::Gitea, "pull_request", &payload).unwrap_err();
    let place = (problem.code, problem.field.as_deref());
    assert_eq!(place, (Code::TypeMismatch, Some("pull_request.number")));
}

#[test]
fn a_workflow_of_gitea_has_its_name_its_pull_request_and_its_attempt() {
    let run = |attempt: u64| {
        let payload = json!({
            "action": "completed",
            "workflow_run": {
                "id": 9, "run_attempt": attempt, "display_title": "Speed it up", "conclusion": "failure",
                "head_branch": "fix/7", "head_sha": "a".repeat(40), "actor": {"login": "bob"},
                "completed_at": "2026-02-02T02:00:00Z"
            },
            "workflow": {"id": "ci.yml", "name": "tests"},
            "pull_request": {"number": 7, "user": {"login": "alice"}},
            "repository": {"full_name": "o/r"}, "sender": {"login": "bob"}
        });
        match read(Forge::Gitea, "workflow_run", &payload).unwrap() {
            Reading::Tasks(mut tasks) => tasks.remove(0),
            other @ (Reading::Ignored(_) | Reading::Withdrawn(_)) => panic!("{other:?}"),
        }
    };
    let (first, second) = (run(1), run(2));
    assert_eq!(first.context["failed_jobs"], json!(["tests"]));
    assert_eq!(first.context["error_summary"], json!("tests: failure"));
    assert_eq!(first.assignee, Assignee::Account("alice".to_owned()));
    assert_eq!((first.subject.number, &first.context["pr_number"]), (Some(7), &json!(7)));
    assert_ne!(first.key, second.key, "a run that is started again fails again");
}
