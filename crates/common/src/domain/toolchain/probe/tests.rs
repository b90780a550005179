use super::*;
use crate::domain::toolchain::action::EventType;
use crate::domain::toolchain::task::TaskPayload;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

fn at(minute: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_760_000_000 + 60 * minute, 0).expect("a time")
}

fn payload(event: EventType, context: Value) -> TaskPayload {
    let context: Map<String, Value> = context.as_object().expect("an object").clone();
    TaskPayload {
        event_type: event.to_string(),
        action_type: event.action().to_string(),
        steps: Vec::new(),
        from: "robin".to_owned(),
        context,
        source: "gitea".to_owned(),
    }
}

fn ask(event: EventType, context: Value) -> Result<ProbeQuestion, NotAsked> {
    ProbeQuestion::of(&payload(event, context), &["alice".to_owned()], at(0))
}

fn review(author: &str, minute: i64, commit: &str, word: &str) -> ReviewFact {
    ReviewFact {
        author: author.to_owned(),
        at: at(minute),
        commit: commit.to_owned(),
        is_result: word != "comment",
        asks_for_changes: word == "changes",
    }
}

#[test]
fn an_approved_review_asks_for_the_merge() {
    let question = ask(EventType::ReviewApproved, json!({"repo": "o/r", "pr_number": 7}));
    let question = question.expect("a question");
    assert_eq!(question.wanted, Wanted::Merge { number: 7 });
    let open = ProbeFacts::default();
    assert_eq!(decide(&question, &open), Finding::Failed(ProbeReason::NotMerged));
    let merged = ProbeFacts { is_merged: true, ..open };
    assert!(decide(&question, &merged).passed());
}

#[test]
fn a_push_is_another_commit_than_that_of_the_event_whatever_its_date() {
    let context = json!({"repo": "o/r", "pr_number": 7, "reviewer": "robin"});
    let question = ask(EventType::ChangesRequested, context).expect("a question");
    let reviews = [
        review("robin", -30, "aaaaaaaa", "changes"),
        review("robin", 0, "bbbbbbbb", "changes"),
        review("robin", 20, "cccccccc", "changes"),
        review("alice", 1, "cccccccc", "changes"),
    ];
    let commit = reviewed_commit(&reviews, "Robin", at(0));
    assert_eq!(commit, Some("bbbbbbbb"));
    let head = |commit: &str| Some(commit.to_owned());
    let mut facts = ProbeFacts {
        event_commit: commit.map(str::to_owned),
        head: head("bbbbbbbb"),
        ..ProbeFacts::default()
    };
    assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
    facts.head = head("cccccccc");
    for (checks, holds) in [
        (None, true),
        (Some(ChecksState::None), true),
        (Some(ChecksState::Pending), true),
        (Some(ChecksState::Passing), true),
        (Some(ChecksState::Failing), false),
    ] {
        facts.checks = checks;
        assert_eq!(decide(&question, &facts).passed(), holds, "{checks:?}");
        assert_eq!(own_part_holds(&question, &facts), Some(holds), "{checks:?}");
    }
    facts = ProbeFacts { head: head("dddddddd"), ..ProbeFacts::default() };
    assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
}

#[test]
fn a_failed_build_is_asked_about_by_pull_request_or_branch() {
    let context =
        json!({"repo": "o/r", "pr_number": null, "branch": "main", "commit_sha": "abcdef0123"});
    let question = ask(EventType::CiFailed, context).expect("a question");
    let Wanted::Push { number: None, branch, commit, reviewer: None } = &question.wanted else {
        panic!("{question:?}")
    };
    assert_eq!((branch.as_str(), commit.as_deref()), ("main", Some("abcdef0123")));
    let facts = ProbeFacts {
        event_commit: commit.clone(),
        head: Some("abcdef0123456789".to_owned()),
        ..ProbeFacts::default()
    };
    assert_eq!(decide(&question, &facts), Finding::Failed(ProbeReason::NoPush));
    let none = ask(EventType::CiFailed, json!({"repo": "o/r"}));
    assert_eq!(none, Err(NotAsked::SubjectUnknown));
}

#[test]
fn only_a_later_result_of_the_assignee_is_a_review() {
    let context = json!({"repo": "o/r", "pr_number": 7, "new_sha": "b"});
    let question = ask(EventType::CommitsPushed, context).expect("a question");
    for (review, holds) in [
        (review("alice", 1, "b", "approve"), true),
        (review("Alice", 1, "b", "changes"), true),
        (review("alice", 1, "b", "comment"), false),
        (review("alice", -1, "b", "approve"), false),
        (review("robin", 1, "b", "approve"), false),
    ] {
        let facts = ProbeFacts { reviews: vec![review.clone()], ..ProbeFacts::default() };
        assert_eq!(decide(&question, &facts).passed(), holds, "{review:?}");
    }
}

#[test]
fn a_comment_is_answered_by_a_reply_or_a_push() {
    let question = ask(EventType::ReviewComment, json!({"repo": "o/r", "pr_number": 7}));
    let question = question.expect("a question");
    let none = ProbeFacts::default();
    assert_eq!(decide(&question, &none), Finding::Failed(ProbeReason::NoResponse));
    let old = ProbeFacts { replies: vec![at(-1)], ..ProbeFacts::default() };
    assert!(!decide(&question, &old).passed());
    let reply = ProbeFacts { replies: vec![at(1)], ..ProbeFacts::default() };
    assert!(decide(&question, &reply).passed());
    let in_review =
        ProbeFacts { reviews: vec![review("alice", 1, "b", "comment")], ..ProbeFacts::default() };
    assert!(decide(&question, &in_review).passed());
    assert_eq!(own_part_holds(&question, &in_review), Some(false));
    let newest = |head: &str, at_event: Option<&str>| ProbeFacts {
        head: Some(head.to_owned()),
        event_commit: at_event.map(str::to_owned),
        ..ProbeFacts::default()
    };
    assert!(decide(&question, &newest("bbbbbbbb", Some("aaaaaaaa"))).passed());
    assert!(!decide(&question, &newest("aaaaaaaa", Some("aaaaaaaa"))).passed());
    assert!(!decide(&question, &newest("aaaaaaaa", None)).passed(), "nothing is known of a push");
    let context = json!({"repo": "o/r", "pr_number": 7, "pr_head": "aaaaaaaa"});
    let commented = ask(EventType::ReviewComment, context).expect("a question");
    let commit = Some("aaaaaaaa".to_owned());
    assert_eq!(commented.wanted, Wanted::Response { number: 7, commit });
}

#[test]
fn an_issue_is_answered_by_a_living_pull_request_that_refers_to_it() {
    let question = ask(EventType::IssueAssigned, json!({"repo": "o/r", "issue_number": 7}));
    let question = question.expect("a question");
    for (text, branch, is_alive, holds) in [
        ("Closes #7", "x", true, true),
        ("Closes #70", "x", true, false),
        ("see https://forge.example/o/r/issues/7.", "x", true, true),
        ("", "fix/7-totals", true, true),
        ("", "fix/7", true, true),
        ("", "fix/71-totals", true, false),
        ("Closes #7", "x", false, false),
    ] {
        let pull = PullFact { text: text.to_owned(), branch: branch.to_owned(), is_alive };
        let facts = ProbeFacts { pulls: vec![pull], ..ProbeFacts::default() };
        assert_eq!(decide(&question, &facts).passed(), holds, "{text} {branch}");
        assert_eq!(own_part_holds(&question, &facts), Some(holds), "{text} {branch}");
        let failing = ProbeFacts { checks: Some(ChecksState::Failing), ..facts.clone() };
        assert_eq!(own_part_holds(&question, &failing), Some(false));
        let merged = ProbeFacts { is_merged: true, ..facts };
        assert_eq!(own_part_holds(&question, &merged), Some(false), "only the report is missing");
    }
}

#[test]
fn a_mention_is_found_by_its_address_and_answered_by_a_reply() {
    for (address, repo, number) in [
        ("https://github.com/o/r/pull/12#discussion_r9", "o/r", 12),
        ("https://forge.example/sub/o/r/issues/3#issuecomment-1", "o/r", 3),
        ("https://forge.example/o/issues/issues/3", "o/issues", 3),
    ] {
        let question = ask(EventType::Mention, json!({"source_url": address}));
        let question = question.expect("a question");
        assert_eq!((question.repo.as_str(), &question.wanted), (repo, &Wanted::Reply { number }));
        let none = ProbeFacts::default();
        assert_eq!(decide(&question, &none), Finding::Failed(ProbeReason::NoReply));
        let reply = ProbeFacts { replies: vec![at(0)], ..ProbeFacts::default() };
        assert!(decide(&question, &reply).passed());
        for (author, minute, holds) in
            [("alice", 1, true), ("alice", -1, false), ("robin", 1, false)]
        {
            let reviews = vec![review(author, minute, "b", "comment")];
            let facts = ProbeFacts { reviews, ..ProbeFacts::default() };
            assert_eq!(decide(&question, &facts).passed(), holds, "{author} {minute}");
        }
    }
    let none = ask(EventType::Mention, json!({"source_url": ""}));
    assert_eq!(none, Err(NotAsked::SubjectUnknown));
}

#[test]
fn notices_and_unknown_actions_are_not_asked_about() {
    for event in [EventType::PullRequestMerged, EventType::InfrastructureFailure] {
        assert_eq!(ask(event, json!({"repo": "o/r"})), Err(NotAsked::NothingToShow));
    }
    let mut other = payload(EventType::Mention, json!({}));
    other.action_type = "dance".to_owned();
    assert_eq!(
        ProbeQuestion::of(&other, &["alice".to_owned()], at(0)),
        Err(NotAsked::NothingToShow)
    );
    let review = payload(EventType::ReviewRequested, json!({"repo": "o/r", "pr_number": 7}));
    assert_eq!(ProbeQuestion::of(&review, &[], at(0)), Err(NotAsked::AccountUnknown));
    let deployed = ask(EventType::DeploymentFailed, json!({"repo": "o/r", "environment": "prod"}));
    let deployed = deployed.expect("a question");
    let facts = ProbeFacts { deployed: vec![at(-1)], ..ProbeFacts::default() };
    assert_eq!(decide(&deployed, &facts), Finding::Failed(ProbeReason::NoDeployment));
    let facts = ProbeFacts { deployed: vec![at(2)], ..ProbeFacts::default() };
    assert!(decide(&deployed, &facts).passed());
}

#[test]
fn the_clock_runs_where_only_the_report_is_missing() {
    let of_pull = json!({"repo": "o/r", "pr_number": 7, "reviewer": "robin"});
    let question = |event| ask(event, of_pull.clone()).expect("a question");
    let pushed = ProbeFacts {
        is_open: true,
        head: Some("cccccccc".to_owned()),
        event_commit: Some("bbbbbbbb".to_owned()),
        ..ProbeFacts::default()
    };
    let with = |checks| ProbeFacts { checks: Some(checks), ..pushed.clone() };
    let merged = ProbeFacts { is_merged: true, is_open: false, ..pushed.clone() };
    let reviewed = |author: &str, word: &str, minute| ProbeFacts {
        reviews: vec![review(author, minute, "cccccccc", word)],
        ..with(ChecksState::Passing)
    };
    use ChecksState::{Failing, None as Without, Passing, Pending};
    for (event, facts, holds) in [
        // The merge is not possible before the checks end; whether a reviewer is missing, the assignee says.
        (EventType::ReviewApproved, with(Pending), Some(true)),
        (EventType::ReviewApproved, with(Failing), Some(false)),
        (EventType::ReviewApproved, with(Passing), None),
        (EventType::ReviewApproved, with(Without), None),
        (EventType::ReviewApproved, merged.clone(), Some(false)),
        // The new review is missing, until it is there.
        (EventType::ChangesRequested, with(Passing), Some(true)),
        (EventType::ChangesRequested, reviewed("robin", "changes", 0), Some(true)),
        (EventType::ChangesRequested, reviewed("Robin", "approve", 9), Some(false)),
        (EventType::ChangesRequested, reviewed("robin", "comment", 9), Some(true)),
        (EventType::ChangesRequested, reviewed("erin", "approve", 9), Some(true)),
        (EventType::ChangesRequested, merged.clone(), Some(false)),
        // The build is missing, until it has ended.
        (EventType::CiFailed, with(Pending), Some(true)),
        (EventType::CiFailed, with(Without), Some(true)),
        (EventType::CiFailed, with(Passing), Some(false)),
        (EventType::CiFailed, with(Failing), Some(false)),
        (EventType::CiFailed, merged, Some(false)),
        (EventType::ReviewRequested, reviewed("alice", "approve", 9), Some(false)),
        (EventType::ReviewRequested, with(Pending), Some(false)),
    ] {
        assert_eq!(own_part_holds(&question(event), &facts), holds, "{event} {facts:?}");
    }
}
