//! What is read, page by page, within bounds.

use super::{Fixture, KINDS, REPO, an_hour_ago, code};
use anyhow::Result;
use chrono::{TimeDelta, Utc};
use surety_common::domain::toolchain::{ChecksState, Forge as ForgeKind};
use surety_e2e::forge::{DeploymentState, JobState, State, StatusState};
use surety_forge::{ForgeErrorCode, NewIssue, PullState, ReviewState};

#[tokio::test]
async fn a_pull_request_is_read_with_its_files_its_diff_and_its_reviews() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.client("robin")?;
        assert_eq!(forge.current_user().await?, "robin");
        let pull = forge.pull(&fixture.repo, fixture.pull).await?;
        assert_eq!((pull.state, pull.author.as_str()), (PullState::Open, "alice"));
        assert_eq!(
            (pull.head_branch.as_str(), pull.base_branch.as_str()),
            ("fix/7-totals", "main")
        );
        assert_eq!(pull.head_commit, fixture.commit);
        let files = forge.changed_files(&fixture.repo, fixture.pull).await?;
        let shown: Vec<_> = files.iter().map(|it| (it.path.as_str(), it.status.as_str())).collect();
        assert_eq!(shown, [("src/total.py", "modified")]);
        let diff = forge.diff(&fixture.repo, fixture.pull).await?;
        assert!(diff.text.contains("+def total(): return 2") && !diff.is_cut, "{}", diff.text);
        for event in ["APPROVE", "REQUEST_CHANGES", "COMMENT"] {
            fixture
                .double
                .change(|state| state.review(REPO, "robin", (fixture.pull, event, "Read it.")));
        }
        let reviews = forge.reviews(&fixture.repo, fixture.pull).await?;
        let states: Vec<_> = reviews.iter().map(|it| it.state).collect();
        let expected =
            [ReviewState::Approved, ReviewState::ChangesRequested, ReviewState::Commented];
        assert_eq!(states, expected);
        assert!(reviews.iter().all(|it| it.author == "robin" && it.commit == fixture.commit));
        assert_eq!(code(forge.pull(&fixture.repo, 99).await), ForgeErrorCode::NotFound);
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_read_over_all_pages_up_to_their_bound_and_the_link_leads_nowhere_else()
-> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let files: Vec<(String, String)> = (0..320)
            .map(|number| (format!("many/{number:03}.txt"), format!("{number}\n")))
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        fixture.git.commit("fix/7-totals", &files, "Add many")?;
        let forge = fixture.client("robin")?;
        let found = forge.changed_files(&fixture.repo, fixture.pull).await?;
        assert_eq!(found.len(), 300);
        let mut paths: Vec<_> = found.iter().map(|it| it.path.clone()).collect();
        paths.dedup();
        assert_eq!(paths.len(), 300);
        for number in 0..230 {
            let text = format!("{number}");
            fixture.double.change(|state| state.comment(REPO, "alice", (fixture.pull, &text)));
        }
        let comments = forge.comments(&fixture.repo, fixture.pull, Some(an_hour_ago())).await?;
        assert_eq!(comments.len(), 230);
        let later = Utc::now() + TimeDelta::hours(1);
        assert!(forge.comments(&fixture.repo, fixture.pull, Some(later)).await?.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn an_unchanged_answer_is_not_sent_again_and_is_kept_by_account() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Github).await?;
    let (robin, alice) = (fixture.client("robin")?, fixture.client("alice")?);
    let first = robin.pull(&fixture.repo, fixture.pull).await?;
    assert_eq!(robin.pull(&fixture.repo, fixture.pull).await?, first);
    assert_eq!(alice.pull(&fixture.repo, fixture.pull).await?, first);
    let results: Vec<_> = fixture.reported().iter().map(|(_, result, _)| *result).collect();
    assert_eq!(results, ["ok", "not_modified", "ok"]);
    fixture.double.change(|state| {
        let pull = state.repo(REPO).and_then(|repo| repo.pulls.get_mut(&fixture.pull));
        pull.expect("the pull request").title = "Another title".to_owned();
    });
    assert_eq!(robin.pull(&fixture.repo, fixture.pull).await?.title, "Another title");
    assert!(fixture.reported().iter().all(|(_, _, left)| left.is_some()));
    Ok(())
}

#[tokio::test]
async fn checks_are_statuses_and_check_runs_together() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.client("robin")?;
        let state_of = async || {
            Ok::<_, anyhow::Error>(forge.checks(&fixture.repo, &fixture.commit).await?.state)
        };
        assert_eq!(state_of().await?, ChecksState::None);
        let set = |context: &str, word: &str, is_check_run: bool| {
            fixture.double.change(|state| {
                let status = StatusState {
                    commit: fixture.commit.clone(),
                    context: context.to_owned(),
                    state: word.to_owned(),
                    description: String::new(),
                    at: State::now(),
                    is_check_run,
                };
                state.repo(REPO).expect("the repository").statuses.push(status);
            });
        };
        set("lint", "success", false);
        assert_eq!(state_of().await?, ChecksState::Passing);
        set("test", "pending", true);
        assert_eq!(state_of().await?, ChecksState::Pending);
        set("test", "failure", true);
        assert_eq!(state_of().await?, ChecksState::Failing);
        set("test", "success", true);
        assert_eq!(state_of().await?, ChecksState::Passing);
        let names: Vec<_> = forge.checks(&fixture.repo, &fixture.commit).await?.runs;
        assert_eq!(names.len(), 2, "{names:?}");
    }
    Ok(())
}

/// How many more members there are than a page of any forge has.
const MANY: usize = 120;

#[tokio::test]
async fn a_check_that_failed_is_seen_on_the_last_page() -> Result<()> {
    for kind in KINDS {
        for is_check_run in [false, true] {
            let fixture = Fixture::start(kind).await?;
            let forge = fixture.client("robin")?;
            fixture.double.change(|state| {
                let statuses = &mut state.repo(REPO).expect("the repository").statuses;
                // The newest are shown first.
                statuses.extend((0..MANY).map(|number| StatusState {
                    commit: fixture.commit.clone(),
                    context: format!("check-{number}"),
                    state: if number == 0 { "failure" } else { "success" }.to_owned(),
                    description: String::new(),
                    at: State::now(),
                    is_check_run,
                }));
            });
            let checks = forge.checks(&fixture.repo, &fixture.commit).await?;
            assert_eq!((checks.state, checks.runs.len()), (ChecksState::Failing, MANY), "{kind}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_newest_reviews_are_read_where_the_pages_have_no_links() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        for number in 1..=MANY {
            let event = if number == MANY { "APPROVE" } else { "COMMENT" };
            fixture
                .double
                .change(|state| state.review(REPO, "robin", (fixture.pull, event, "Read.")));
        }
        let reviews = fixture.client("alice")?.reviews(&fixture.repo, fixture.pull).await?;
        assert_eq!(reviews.len(), MANY, "{kind}");
        assert_eq!(reviews.last().map(|it| it.state), Some(ReviewState::Approved), "{kind}");
    }
    Ok(())
}

#[tokio::test]
async fn a_label_of_a_later_page_is_found() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Gitea).await?;
    fixture.double.change(|state| {
        let labels = &mut state.repo(REPO).expect("the repository").labels;
        labels.extend((1..=120).map(|number| (number, format!("label-{number}"))));
    });
    let new = NewIssue {
        title: "A task failed".to_owned(),
        body: String::new(),
        assignees: Vec::new(),
        labels: vec!["label-120".to_owned()],
    };
    let issue = fixture.client("surety")?.create_issue(&fixture.repo, &new).await?;
    assert_eq!(issue.labels, ["label-120"]);
    Ok(())
}

#[tokio::test]
async fn a_failed_job_of_a_later_page_is_found() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        fixture.double.change(|state| {
            let jobs = &mut state.repo(REPO).expect("the repository").jobs;
            jobs.extend((1..=120).map(|id| JobState {
                id,
                commit: fixture.commit.clone(),
                conclusion: if id == 120 { "failure" } else { "success" }.to_owned(),
                log: format!("job {id}"),
            }));
        });
        let log = fixture.client("robin")?.ci_log(&fixture.repo, &fixture.commit).await?;
        assert_eq!(log.text, "job 120", "{kind}");
    }
    Ok(())
}

#[tokio::test]
async fn commits_branches_and_the_end_of_a_log_are_read() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let fixture = Fixture::start(kind).await?;
        let forge = fixture.client("robin")?;
        let head = forge.branch_head(&fixture.repo, "fix/7-totals").await?;
        assert_eq!(
            (head.commit.as_str(), head.message.as_str()),
            (fixture.commit.as_str(), "Count")
        );
        assert_eq!(forge.commit(&fixture.repo, &fixture.commit).await?.commit, fixture.commit);
        assert_eq!(
            code(forge.ci_log(&fixture.repo, &fixture.commit).await),
            ForgeErrorCode::NotFound
        );
        fixture.double.change(|state| {
            let log = format!("{}\nFAILED tests/test_total.py", "line\n".repeat(300_000));
            let job = JobState {
                id: 5,
                commit: fixture.commit.clone(),
                conclusion: "failure".to_owned(),
                log,
            };
            state.repo(REPO).expect("the repository").jobs.push(job);
        });
        let log = forge.ci_log(&fixture.repo, &fixture.commit).await?;
        assert!(log.is_cut && log.text.ends_with("FAILED tests/test_total.py"));
        assert_eq!(log.text.len(), 512 << 10);
    }
    let fixture = Fixture::start(ForgeKind::Forgejo).await?;
    let refused = fixture.client("robin")?.ci_log(&fixture.repo, &fixture.commit).await;
    assert_eq!(code(refused), ForgeErrorCode::NotServed);
    Ok(())
}

#[tokio::test]
async fn deployments_are_read_from_github_only() -> Result<()> {
    let fixture = Fixture::start(ForgeKind::Github).await?;
    let at = State::now();
    fixture.double.change(|state| {
        let deployments = &mut state.repo(REPO).expect("the repository").deployments;
        for (id, environment, words) in [
            (1, "prod", vec!["pending", "failure"]),
            (2, "test", vec!["success"]),
            (3, "prod", vec![]),
        ] {
            deployments.push(DeploymentState {
                id,
                commit: fixture.commit.clone(),
                environment: environment.to_owned(),
                states: words.iter().map(|word| ((*word).to_owned(), at)).collect(),
                at,
            });
        }
    });
    let forge = fixture.client("robin")?;
    let found = forge.deployments(&fixture.repo, "prod").await?;
    let states: Vec<_> = found.iter().map(|it| (it.id, it.state.as_str())).collect();
    assert_eq!(states, [(3, ""), (1, "failure")]);
    let gitea = Fixture::start(ForgeKind::Gitea).await?;
    let refused = gitea.client("robin")?.deployments(&gitea.repo, "prod").await;
    assert_eq!(code(refused), ForgeErrorCode::NotServed);
    Ok(())
}
