//! Which events leave nothing to do for others.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use surety_common::domain::toolchain::*;

fn placed(event: EventType, minute: i64, account: &str) -> Placed {
    let start: DateTime<Utc> = "2026-11-01T10:00:00Z".parse().unwrap();
    Placed {
        action: event.action(),
        subject: Subject {
            server: String::new(),
            repo: "o/r".to_owned(),
            number: Some(7),
            is_pull_request: true,
        },
        assignee: Assignee::Account(account.to_owned()),
        reviewer: String::new(),
        commit: String::new(),
        happened_at: start + TimeDelta::minutes(minute),
    }
}

#[test]
fn the_time_of_the_forge_decides_which_event_is_out_of_date() {
    use EventType::{
        ChangesRequested, CiFailed, CommitsPushed, PullRequestMerged, ReviewRequested,
    };
    let cases = [
        ((PullRequestMerged, 9, "alice"), (ReviewRequested, 5, "bob"), true),
        ((PullRequestMerged, 9, "alice"), (ChangesRequested, 5, "alice"), true),
        ((PullRequestMerged, 9, "alice"), (CiFailed, 5, "alice"), false),
        ((PullRequestMerged, 3, "alice"), (ReviewRequested, 5, "bob"), false),
        // Builds end in another order than their commits.
        ((CiFailed, 9, "alice"), (CiFailed, 5, "alice"), false),
        ((CommitsPushed, 9, "bob"), (ReviewRequested, 5, "bob"), true),
        ((CommitsPushed, 9, "bob"), (ReviewRequested, 5, "carol"), false),
        ((CommitsPushed, 5, "bob"), (CommitsPushed, 9, "bob"), false),
        ((ChangesRequested, 9, "alice"), (ChangesRequested, 9, "alice"), false),
    ];
    for ((newer, at, by), (older, before, to), expected) in cases {
        let (new, old) = (placed(newer, at, by), placed(older, before, to));
        assert_eq!(supersedes(&new, &old), expected, "{newer} after {older}");
        assert_eq!(is_superseded(&old, [&new]), expected);
    }
    let mut other = placed(PullRequestMerged, 9, "alice");
    other.subject.number = Some(8);
    assert!(!supersedes(&other, &placed(ReviewRequested, 5, "bob")));
}

#[test]
fn a_review_supersedes_the_earlier_results_of_the_same_reviewer_only() {
    let by = |event, minute, reviewer: &str| Placed {
        reviewer: reviewer.to_owned(),
        ..placed(event, minute, "alice")
    };
    let changes = by(EventType::ChangesRequested, 5, "carol");
    let approved = |minute, reviewer| by(EventType::ReviewApproved, minute, reviewer);
    assert!(!supersedes(&approved(9, "erin"), &changes));
    assert!(supersedes(&approved(9, "Carol"), &changes));
    assert!(is_superseded(&changes, [&approved(9, "erin"), &approved(9, "carol")]));
    assert!(!is_superseded(&changes, [&approved(4, "carol")]));
    let context = serde_json::Map::from_iter([("reviewer".to_owned(), json!("carol"))]);
    assert_eq!(reviewer_of(ActionType::ReviewResult, &context), "carol");
    assert_eq!(reviewer_of(ActionType::ReviewUpdated, &context), "");
}

#[test]
fn a_withdrawal_concerns_what_was_asked_of_the_same_accounts_before() {
    let start = placed(EventType::ReviewRequested, 0, "bob");
    let at = |minute| start.happened_at + TimeDelta::minutes(minute);
    let withdrawal = |reason, from| Withdrawal {
        reason,
        source: Forge::Gitea,
        subject: start.subject.clone(),
        from,
        happened_at: at(5),
    };
    let only = |login: &str| WithdrawnFrom::Accounts(vec![login.to_owned()]);
    let all_but =
        |logins: &[&str]| WithdrawnFrom::AllBut(logins.iter().map(ToString::to_string).collect());
    use EventType::*;
    for (reason, from, event, minute, covers) in [
        (Ignored::ReviewRequestRemoved, only("Bob"), ReviewRequested, 5, true),
        (Ignored::ReviewRequestRemoved, only("bob"), CommitsPushed, 4, true),
        (Ignored::ReviewRequestRemoved, only("bob"), ReviewRequested, 6, false),
        (Ignored::ReviewRequestRemoved, only("carol"), ReviewRequested, 4, false),
        (Ignored::ReviewRequestRemoved, only("bob"), ReviewComment, 4, false),
        (Ignored::Unassigned, all_but(&["carol"]), IssueAssigned, 4, true),
        (Ignored::Unassigned, all_but(&["bob"]), IssueAssigned, 4, false),
        (Ignored::ClosedWithoutMerge, all_but(&[]), ChangesRequested, 4, true),
        (Ignored::ClosedWithoutMerge, all_but(&[]), CiFailed, 4, true),
        (Ignored::ClosedWithoutMerge, all_but(&[]), Mention, 4, false),
    ] {
        let asked = placed(event, minute, "bob");
        let withdrawal = withdrawal(reason, from);
        assert_eq!(withdrawal.covers(&asked), covers, "{reason} of {event} at {minute}");
        // What is asked in the same second arrives later, and counts.
        assert_eq!(withdrawal.covers_late(&asked), covers && minute < 5, "{reason} of {event}");
    }
}

#[test]
fn a_named_reviewer_takes_the_place_of_the_role_for_the_same_commit_only() {
    let of = |event, minute, commit: &str| Placed {
        commit: commit.to_owned(),
        ..placed(event, minute, "carol")
    };
    let role = |event, minute, commit: &str| Placed {
        assignee: Assignee::Role(Role::Reviewer),
        ..of(event, minute, commit)
    };
    use EventType::{CommitsPushed, ReviewRequested};
    let named = of(ReviewRequested, 5, "a");
    assert!(supersedes(&named, &role(ReviewRequested, 5, "a")));
    assert!(supersedes(&named, &role(CommitsPushed, 4, "a")));
    assert!(!supersedes(&named, &role(ReviewRequested, 6, "a")), "the role is asked later");
    assert!(!supersedes(&named, &role(ReviewRequested, 4, "b")), "another commit");
    assert!(!supersedes(&of(ReviewRequested, 5, ""), &role(ReviewRequested, 4, "")));
    assert!(!supersedes(&role(ReviewRequested, 9, "a"), &named), "a role replaces no name");
}
