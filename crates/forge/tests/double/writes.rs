//! What is written, as the published schemas have it.

use super::{Fixture, KINDS, REPO, an_hour_ago, code};
use anyhow::{Context, Result};
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_e2e::forge::{CommentState, State};
use surety_forge::{
    ForgeErrorCode, MergeMethod, NewIssue, NewPull, NewReview, PullState, ReviewEvent, ReviewState,
};

#[tokio::test]
async fn a_reviewer_reviews_and_the_author_cannot() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        let review = |event, body: &str| NewReview {
            event,
            body: body.to_owned(),
            commit: Some(fixture.commit.clone()),
        };
        let robin = fixture.client("robin")?;
        let asked = review(ReviewEvent::RequestChanges, "Round half up.");
        let submitted = robin.submit_review(&fixture.repo, fixture.pull, &asked).await?;
        assert_eq!(submitted.state, ReviewState::ChangesRequested);
        let approval = review(ReviewEvent::Approve, "");
        let submitted = robin.submit_review(&fixture.repo, fixture.pull, &approval).await?;
        assert_eq!((submitted.state, submitted.author.as_str()), (ReviewState::Approved, "robin"));
        let own =
            fixture.client("alice")?.submit_review(&fixture.repo, fixture.pull, &approval).await;
        assert_eq!(code(own), ForgeErrorCode::Unprocessable);
        fixture
            .double
            .change(|state| state.denied.insert(("surety".to_owned(), "submit_review".to_owned())));
        let denied =
            fixture.client("surety")?.submit_review(&fixture.repo, fixture.pull, &approval).await;
        assert_eq!(code(denied), ForgeErrorCode::Forbidden);
    }
    Ok(())
}

#[tokio::test]
async fn comments_and_replies_are_written() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let alice = fixture.client("alice")?;
        let written = alice.add_comment(&fixture.repo, fixture.pull, "Done.").await?;
        assert_eq!((written.author.as_str(), written.body.as_str()), ("alice", "Done."));
        fixture.double.change(|state| {
            let review = state.review(REPO, "robin", (fixture.pull, "COMMENT", "See the line."));
            state.repo(REPO).expect("the repository").comments.push(CommentState {
                id: 900,
                number: fixture.pull,
                author: "robin".to_owned(),
                body: "Why 2?".to_owned(),
                at: State::now(),
                line: Some(("src/total.py".to_owned(), 1)),
                review,
                reply_to: None,
            });
        });
        let on_lines = alice.review_comments(&fixture.repo, fixture.pull).await?;
        let [why] = on_lines.as_slice() else { panic!("{on_lines:?}") };
        assert_eq!((why.path.as_str(), why.line), ("src/total.py", Some(1)));
        let review = why.review.expect("its review");
        let of_review = alice.comments_of_review(&fixture.repo, fixture.pull, review).await?;
        assert_eq!(of_review, on_lines);
        let of_other = alice.comments_of_review(&fixture.repo, fixture.pull, review + 1).await?;
        assert_eq!(of_other, []);
        let reply = alice.reply(&fixture.repo, fixture.pull, (900, "It is the sum.")).await?;
        assert!(reply.body.ends_with("It is the sum."), "{}", reply.body);
        let missing = alice.add_comment(&fixture.repo, 99, "x").await;
        assert_eq!(code(missing), ForgeErrorCode::NotFound);
    }
    Ok(())
}

#[tokio::test]
async fn a_merge_reaches_the_real_repository_and_a_moved_head_is_a_conflict() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let alice = fixture.client("alice")?;
        let old = fixture.commit.as_str();
        let newer = fixture.git.commit("fix/7-totals", &[("README", "Totals\n")], "Describe")?;
        let moved = alice.merge(&fixture.repo, fixture.pull, (MergeMethod::Merge, old)).await;
        assert_eq!(code(moved), ForgeErrorCode::Conflict);
        alice.merge(&fixture.repo, fixture.pull, (MergeMethod::Merge, &newer)).await?;
        let pull = alice.pull(&fixture.repo, fixture.pull).await?;
        assert!(pull.state == PullState::Merged && pull.merged_at.is_some());
        let main = fixture.git.commits("refs/heads/main")?;
        assert!(main.iter().any(|commit| commit.commit == newer));
        let again = alice.merge(&fixture.repo, fixture.pull, (MergeMethod::Merge, &newer)).await;
        assert_eq!(code(again), ForgeErrorCode::Conflict);
    }
    Ok(())
}

#[tokio::test]
async fn pull_requests_and_issues_are_opened_with_labels_and_assignees() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        fixture.double.change(|state| {
            let labels = &mut state.repo(REPO).expect("the repository").labels;
            labels.extend([(4, "bug".to_owned()), (5, "surety".to_owned())]);
        });
        let alice = fixture.client("alice")?;
        fixture.git.commit("fix/8-empty", &[("empty.py", "\n")], "Handle the empty list")?;
        let new = NewPull {
            title: "Handle the empty list".to_owned(),
            body: "Closes #8".to_owned(),
            head: "fix/8-empty".to_owned(),
            base: "main".to_owned(),
        };
        let opened = alice.open_pull(&fixture.repo, &new).await?;
        assert_eq!((opened.state, opened.author.as_str()), (PullState::Open, "alice"));
        let again = code(alice.open_pull(&fixture.repo, &new).await);
        assert!(matches!(again, ForgeErrorCode::Conflict | ForgeErrorCode::Unprocessable));
        let found = alice.pulls_since(&fixture.repo, an_hour_ago()).await?;
        assert_eq!(found.first().map(|it| it.number), Some(opened.number));
        let new = NewIssue {
            title: "A task failed".to_owned(),
            body: "See the run.".to_owned(),
            assignees: vec!["robin".to_owned()],
            labels: vec!["surety".to_owned()],
        };
        let surety = fixture.client("surety")?;
        let issue = surety.create_issue(&fixture.repo, &new).await?;
        assert_eq!(
            (issue.assignees.as_slice(), issue.labels.as_slice()),
            (&["robin".to_owned()][..], &["surety".to_owned()][..])
        );
        let read = surety.issue(&fixture.repo, issue.number).await?;
        assert!(read.is_open && !read.is_pull_request && read.title == "A task failed");
        assert!(surety.issue(&fixture.repo, fixture.pull).await?.is_pull_request);
        let mine = surety.issues_of(&fixture.repo, "surety", an_hour_ago()).await?;
        let [mine] = mine.as_slice() else { panic!("{mine:?}") };
        assert_eq!(mine.number, issue.number);
        let unknown = NewIssue { assignees: vec!["ghost".to_owned()], ..new };
        let refused =
            surety.create_issue(&fixture.repo, &unknown).await.err().context("a refusal")?;
        assert_eq!(refused.code, ForgeErrorCode::Unprocessable);
        assert!(refused.message.contains("ghost"), "{refused}");
    }
    Ok(())
}
