//! Writes that happen once, although answers are lost.

use super::{Fixture, KINDS, REPO, code};
use anyhow::Result;
use chrono::Utc;
use surety_common::domain::toolchain::{Forge as ForgeKind, marker, marks_own};
use surety_e2e::forge::Failure;
use surety_forge::once::{
    Marked, comment_once, issue_once, merge_once, open_pull_once, reply_once, review_once,
};
use surety_forge::{
    ForgeErrorCode, MergeMethod, NewIssue, NewPull, NewReview, PullState, ReviewEvent,
};
use uuid::Uuid;

fn marked() -> Marked {
    Marked::of(Uuid::from_u128(7), Utc::now())
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_found_and_not_written_again() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.client("surety")?;
        // A copy of the mark by another account does not count.
        let copy = format!("Nothing to see. {}", marker(Uuid::from_u128(7)));
        fixture.double.change(|state| state.comment(REPO, "alice", (fixture.pull, &copy)));
        fixture.double.fail("add_comment", Failure::CutAfterWrite, (0, 1));
        let mark = marked();
        let write = (&mark, "@alice please report.");
        let first = comment_once(&*forge, &fixture.repo, fixture.pull, write).await?;
        assert!(first.is_new && first.value.author == "surety");
        for _ in 0..2 {
            let again = comment_once(&*forge, &fixture.repo, fixture.pull, write).await?;
            assert!(!again.is_new);
            assert_eq!(again.value.id, first.value.id);
        }
        let comments = forge.comments(&fixture.repo, fixture.pull, None).await?;
        let own: Vec<_> = comments.iter().filter(|it| it.author == "surety").collect();
        assert_eq!(own.len(), 1);
        assert!(marks_own(&["surety".to_owned()], "surety", &own[0].body));
    }
    Ok(())
}

#[tokio::test]
async fn a_comment_that_was_cut_before_or_after_and_cannot_be_looked_for_is_found_by_the_next_call()
-> Result<()> {
    for failure in [Failure::CutAfterWrite, Failure::Cut, Failure::Status(500)] {
        let fixture = Fixture::start(ForgeKind::Github).await?;
        let forge = fixture.client("surety")?;
        fixture.double.fail("add_comment", failure.clone(), (0, 1));
        // The second look fails as well: the process sees an error, as one that was killed sees nothing.
        fixture.double.fail("comments", Failure::Status(502), (1, 3));
        let mark = marked();
        let write = (&mark, "Please report.");
        let lost = comment_once(&*forge, &fixture.repo, fixture.pull, write).await;
        assert_eq!(code(lost), ForgeErrorCode::Unreachable);
        fixture.double.heal();
        let next = fixture.fresh("surety")?;
        let again = comment_once(&*next, &fixture.repo, fixture.pull, write).await?;
        assert_eq!(again.is_new, failure != Failure::CutAfterWrite, "{failure:?}");
        let comments = next.comments(&fixture.repo, fixture.pull, None).await?;
        assert_eq!(comments.len(), 1, "{failure:?}");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_while_the_forge_cannot_be_looked_through() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Gitea).await?;
    let forge = fixture.client("surety")?;
    fixture.double.fail("comments", Failure::Status(503), (0, 3));
    let mark = marked();
    let write = (&mark, "Please report.");
    let failed = comment_once(&*forge, &fixture.repo, fixture.pull, write).await;
    assert_eq!(code(failed), ForgeErrorCode::Unreachable);
    assert_eq!(fixture.arrived("add_comment"), 0);
    Ok(())
}

#[tokio::test]
async fn a_mark_is_found_behind_many_other_comments() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.client("surety")?;
        for number in 0..250 {
            let text = format!("{number}");
            fixture.double.change(|state| state.comment(REPO, "alice", (fixture.pull, &text)));
        }
        let mark = marked();
        let write = (&mark, "Please report.");
        assert!(comment_once(&*forge, &fixture.repo, fixture.pull, write).await?.is_new);
        assert!(!comment_once(&*forge, &fixture.repo, fixture.pull, write).await?.is_new);
    }
    Ok(())
}

#[tokio::test]
async fn an_issue_a_review_a_pull_request_and_a_reply_happen_once() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        for route in ["create_issue", "submit_review", "open_pull", "reply", "add_comment"] {
            fixture.double.fail(route, Failure::CutAfterWrite, (0, 1));
        }
        let issue = NewIssue {
            title: "A task failed".to_owned(),
            body: "See the run.".to_owned(),
            assignees: vec!["robin".to_owned()],
            labels: Vec::new(),
        };
        let surety = fixture.client("surety")?;
        let first = issue_once(&*surety, &fixture.repo, (&marked(), &issue)).await?;
        let again = issue_once(&*surety, &fixture.repo, (&marked(), &issue)).await?;
        assert!(first.is_new && !again.is_new && first.value.number == again.value.number);

        let review =
            NewReview { event: ReviewEvent::RequestChanges, body: "No.".to_owned(), commit: None };
        let robin = fixture.client("robin")?;
        let first = review_once(&*robin, &fixture.repo, fixture.pull, (&marked(), &review)).await?;
        let again = review_once(&*robin, &fixture.repo, fixture.pull, (&marked(), &review)).await?;
        assert!(first.is_new && !again.is_new && first.value.id == again.value.id);

        fixture.git.commit("fix/8-empty", &[("empty.py", "\n")], "Handle the empty list")?;
        let pull = NewPull {
            title: "Handle the empty list".to_owned(),
            body: "Closes #8".to_owned(),
            head: "fix/8-empty".to_owned(),
            base: "main".to_owned(),
        };
        let alice = fixture.client("alice")?;
        let first = open_pull_once(&*alice, &fixture.repo, (&marked(), &pull)).await?;
        let again = open_pull_once(&*alice, &fixture.repo, (&marked(), &pull)).await?;
        assert!(first.is_new && !again.is_new && first.value.number == again.value.number);

        fixture.double.change(|state| {
            let id = state.next_id();
            let comment = surety_e2e::forge::CommentState {
                id,
                number: fixture.pull,
                author: "robin".to_owned(),
                body: "Why?".to_owned(),
                at: surety_e2e::forge::State::now(),
                line: Some(("src/total.py".to_owned(), 1)),
                review: None,
                reply_to: None,
            };
            state.repo(REPO).expect("the repository").comments.push(comment);
        });
        let repo = fixture.double.change(|state| {
            state
                .repo(REPO)
                .expect("the repository")
                .comments
                .iter()
                .find(|it| it.line.is_some())
                .map(|it| it.id)
        });
        let place = (fixture.pull, repo.expect("the comment"));
        let first = reply_once(&*alice, &fixture.repo, place, (&marked(), "Because.")).await?;
        let again = reply_once(&*alice, &fixture.repo, place, (&marked(), "Because.")).await?;
        assert!(first.is_new && !again.is_new && first.value.id == again.value.id);
    }
    Ok(())
}

#[tokio::test]
async fn a_merge_happens_once_and_a_refused_one_is_a_conflict() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let alice = fixture.client("alice")?;
        fixture.double.fail("merge", Failure::CutAfterWrite, (0, 1));
        let method = MergeMethod::Merge;
        let first = merge_once(&*alice, &fixture.repo, fixture.pull, method).await?;
        assert!(first.is_new && first.value.state == PullState::Merged);
        assert!(!merge_once(&*alice, &fixture.repo, fixture.pull, method).await?.is_new);
        assert_eq!(fixture.arrived("merge"), 1);
        let other = Fixture::start(kind).await?;
        other.git.commit("main", &[("src/total.py", "def total(): return 3\n")], "Another way")?;
        let alice = other.client("alice")?;
        let refused = merge_once(&*alice, &other.repo, other.pull, method).await;
        assert_eq!(code(refused), ForgeErrorCode::Conflict);
    }
    Ok(())
}
