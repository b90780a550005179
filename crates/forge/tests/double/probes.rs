//! What the forge shows of a task.

use super::{Fixture, REPO, credential};
use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use surety_common::config::{ForgeCredential, ForgeSettings, ForgesFile};
use surety_common::domain::toolchain::{
    EventType, Forge as ForgeKind, NotAsked, ProbeMode, ProbeReason, TaskPayload,
};
use surety_e2e::forge::{DeploymentState, Failure, State};
use surety_forge::{ForgeErrorCode, Forges, ProbeAnswer};

/// The configuration of a bench, with `alice-agent` as the agent of alice.
pub(super) struct Configured {
    pub(super) fixture: Fixture,
    forges: Forges,
}

impl Configured {
    pub(super) async fn start(kind: ForgeKind, probe: ProbeMode) -> Result<Self> {
        let fixture = Fixture::start(kind).await?;
        let file = ForgesFile {
            forges: vec![ForgeSettings {
                name: "main".to_owned(),
                kind,
                url: fixture.double.url(),
                account: None,
                credential_file: fixture.double.account("surety")?,
                repositories: vec!["team/*".to_owned()],
                probe,
                clone_url: None,
            }],
            agents: vec![ForgeCredential {
                agent: "alice-agent".to_owned(),
                forge: "main".to_owned(),
                account: "alice".to_owned(),
                credential_file: fixture.double.account("alice")?,
            }],
        };
        let forges = Forges::open_with(&file, &fixture.clients)?;
        Ok(Self { fixture, forges })
    }

    fn payload(&self, event: EventType, context: &Value) -> TaskPayload {
        let context: Map<String, Value> = context.as_object().cloned().unwrap_or_default();
        TaskPayload {
            event_type: event.to_string(),
            action_type: event.action().to_string(),
            steps: Vec::new(),
            from: "robin".to_owned(),
            context,
            source: self.fixture.kind.to_string(),
        }
    }

    pub(super) async fn ask(
        &self,
        event: EventType,
        context: Value,
        since: DateTime<Utc>,
    ) -> ProbeAnswer {
        let payload = self.payload(event, &context);
        self.forges.probe(&payload, &["alice".to_owned()], since).await.answer
    }

    async fn own_part(
        &self,
        event: EventType,
        context: &Value,
        since: DateTime<Utc>,
    ) -> Option<bool> {
        let payload = self.payload(event, context);
        self.forges.own_part(&payload, &["alice".to_owned()], since).await
    }
}

fn failed(answer: &ProbeAnswer) -> Option<ProbeReason> {
    match answer {
        ProbeAnswer::Failed { reason } => Some(*reason),
        ProbeAnswer::Passed | ProbeAnswer::NotAsked(_) | ProbeAnswer::Unreachable(_) => None,
    }
}

const PASSED: ProbeAnswer = ProbeAnswer::Passed;

#[tokio::test]
async fn each_action_is_shown_by_what_its_assignee_did() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let it = Configured::start(kind, ProbeMode::Required).await?;
        let Configured { fixture, .. } = &it;
        let number = fixture.pull;
        let since = State::now();
        let of_pull = || json!({"repo": REPO, "pr_number": number, "reviewer": "robin"});

        let answer = it.ask(EventType::ReviewApproved, of_pull(), since).await;
        assert_eq!(failed(&answer), Some(ProbeReason::NotMerged), "{answer:?}");

        fixture
            .double
            .change(|state| state.review(REPO, "robin", (number, "REQUEST_CHANGES", "No.")));
        let asked_at = State::now();
        let answer = it.ask(EventType::ChangesRequested, of_pull(), asked_at).await;
        assert_eq!(failed(&answer), Some(ProbeReason::NoPush), "{answer:?}");
        let pushed = fixture.git.commit(
            "fix/7-totals",
            &[("src/total.py", "def total(): return 4\n")],
            "Fix",
        )?;
        assert_eq!(it.ask(EventType::ChangesRequested, of_pull(), asked_at).await, PASSED);
        fixture.double.change(|state| state.status(REPO, "surety", (&pushed, "test", "failure")));
        let failed_build = json!({"repo": REPO, "pr_number": null, "branch": "fix/7-totals", "commit_sha": fixture.commit});
        for (event, context) in
            [(EventType::ChangesRequested, of_pull()), (EventType::CiFailed, failed_build.clone())]
        {
            let answer = it.ask(event, context, asked_at).await;
            assert_eq!(failed(&answer), Some(ProbeReason::ChecksFailing), "{answer:?}");
        }
        fixture.double.change(|state| state.status(REPO, "surety", (&pushed, "test", "success")));
        assert_eq!(it.ask(EventType::CiFailed, failed_build, asked_at).await, PASSED);

        // Alice is the reviewer of a pull request of robin.
        let commit = fixture.git.commit("robin/x", &[("x", "\n")], "X")?;
        let other = fixture
            .double
            .change(|state| state.open_pull(REPO, State::pull_of("robin", "robin/x", &commit)));
        let of_other = json!({"repo": REPO, "pr_number": other.context("a pull request")?});
        for event in [EventType::ReviewRequested, EventType::CommitsPushed] {
            let answer = it.ask(event, of_other.clone(), since).await;
            assert_eq!(failed(&answer), Some(ProbeReason::NoReview), "{answer:?}");
        }
        let number_of_other = other.context("a pull request")?;
        fixture
            .double
            .change(|state| state.review(REPO, "alice", (number_of_other, "APPROVE", "")));
        for event in [EventType::ReviewRequested, EventType::CommitsPushed] {
            assert_eq!(it.ask(event, of_other.clone(), since).await, PASSED);
        }

        let later = Utc::now() + TimeDelta::seconds(2);
        let answer = it.ask(EventType::ReviewComment, of_other.clone(), later).await;
        assert_eq!(failed(&answer), Some(ProbeReason::NoResponse), "{answer:?}");
        let mention = json!({"source_url": format!("{}/{REPO}/pulls/{number}#issuecomment-1", fixture.double.url())});
        let answer = it.ask(EventType::Mention, mention.clone(), since).await;
        assert_eq!(failed(&answer), Some(ProbeReason::NoReply), "{answer:?}");
        fixture.double.change(|state| state.comment(REPO, "alice", (number, "It is done.")));
        assert_eq!(it.ask(EventType::Mention, mention, since).await, PASSED);
        assert_eq!(it.ask(EventType::ReviewComment, of_pull(), since).await, PASSED);

        let issue = json!({"repo": REPO, "issue_number": 7});
        assert_eq!(it.ask(EventType::IssueAssigned, issue, since).await, PASSED);
        let issue = json!({"repo": REPO, "issue_number": 8});
        let answer = it.ask(EventType::IssueAssigned, issue, since).await;
        assert_eq!(failed(&answer), Some(ProbeReason::NoPullRequest), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_clock_stops_while_only_a_build_or_a_reviewer_is_missing() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let it = Configured::start(kind, ProbeMode::Required).await?;
        let Configured { fixture, .. } = &it;
        let number = fixture.pull;
        let of_pull = json!({"repo": REPO, "pr_number": number, "reviewer": "robin"});
        let of_issue = json!({"repo": REPO, "issue_number": 7});
        let status = |commit: &str, state: &str| {
            fixture.double.change(|it| it.status(REPO, "surety", (commit, "test", state)));
        };
        let asked_at = State::now();
        let long_ago = asked_at - TimeDelta::hours(1);
        // The merge waits for the checks. Whether it waits for a reviewer, only the assignee knows.
        for (state, holds) in [("pending", Some(true)), ("failure", Some(false)), ("success", None)]
        {
            status(&fixture.commit, state);
            let answer = it.own_part(EventType::ReviewApproved, &of_pull, asked_at).await;
            assert_eq!(answer, holds, "{kind} {state}");
        }
        assert_eq!(it.own_part(EventType::IssueAssigned, &of_issue, long_ago).await, Some(true));
        fixture
            .double
            .change(|state| state.review(REPO, "robin", (number, "REQUEST_CHANGES", "No.")));
        let asked_at = State::now();
        let changes = EventType::ChangesRequested;
        assert_eq!(
            it.own_part(changes, &of_pull, asked_at).await,
            Some(false),
            "nothing is pushed"
        );
        let pushed = fixture.git.commit("fix/7-totals", &[("src/total.py", "4\n")], "Fix")?;
        let build = json!({"repo": REPO, "pr_number": number, "commit_sha": fixture.commit});
        for (state, of_review, of_build) in
            [("pending", true, true), ("failure", false, false), ("success", true, false)]
        {
            status(&pushed, state);
            let answer = it.own_part(changes, &of_pull, asked_at).await;
            assert_eq!(answer, Some(of_review), "{kind} {state}");
            let answer = it.own_part(EventType::CiFailed, &build, asked_at).await;
            assert_eq!(answer, Some(of_build), "{kind} {state}");
        }
        // Of a review and a reply nothing but the report is missing.
        for event in [EventType::ReviewRequested, EventType::ReviewComment] {
            assert_eq!(it.own_part(event, &of_pull, asked_at).await, Some(false), "{event}");
        }
        fixture.double.change(|state| {
            let pull = state.repo(REPO).and_then(|repo| repo.pulls.get_mut(&number));
            let pull = pull.expect("the pull request");
            pull.is_open = false;
            pull.merged = Some((State::now(), "robin".to_owned(), pushed.clone()));
        });
        for (event, context) in [
            (EventType::ReviewApproved, &of_pull),
            (changes, &of_pull),
            (EventType::IssueAssigned, &of_issue),
        ] {
            assert_eq!(it.own_part(event, context, long_ago).await, Some(false), "{kind} {event}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_deployment_is_asked_of_github_and_not_of_gitea() -> Result<()> {
    let it = Configured::start(ForgeKind::Github, ProbeMode::Required).await?;
    let context = json!({"repo": REPO, "environment": "prod", "commit_sha": "abcdef0"});
    let since = State::now();
    let answer = it.ask(EventType::DeploymentFailed, context.clone(), since).await;
    assert_eq!(failed(&answer), Some(ProbeReason::NoDeployment), "{answer:?}");
    it.fixture.double.change(|state| {
        let deployment = DeploymentState {
            id: 1,
            commit: it.fixture.commit.clone(),
            environment: "prod".to_owned(),
            states: vec![("success".to_owned(), State::now())],
            at: State::now(),
        };
        state.repo(REPO).expect("the repository").deployments.push(deployment);
    });
    assert_eq!(it.ask(EventType::DeploymentFailed, context.clone(), since).await, PASSED);
    let gitea = Configured::start(ForgeKind::Gitea, ProbeMode::Required).await?;
    let answer = gitea.ask(EventType::DeploymentFailed, context, since).await;
    assert_eq!(answer, ProbeAnswer::NotAsked(NotAsked::NotServed));
    Ok(())
}

#[tokio::test]
async fn a_forge_that_is_down_is_no_fault_of_the_task() -> Result<()> {
    let it = Configured::start(ForgeKind::Gitea, ProbeMode::Required).await?;
    it.fixture.double.fail("*", Failure::Status(503), (0, 9));
    let context = json!({"repo": REPO, "pr_number": it.fixture.pull});
    let answer = it.ask(EventType::ReviewApproved, context, State::now()).await;
    let ProbeAnswer::Unreachable(error) = answer else { panic!("{answer:?}") };
    assert_eq!(error.code, ForgeErrorCode::Unreachable);
    Ok(())
}

#[tokio::test]
async fn the_configuration_decides_whether_and_by_whom_a_forge_is_asked() -> Result<()> {
    let it = Configured::start(ForgeKind::Gitea, ProbeMode::Recorded).await?;
    let context = json!({"repo": REPO, "pr_number": it.fixture.pull});
    let payload = it.payload(EventType::ReviewApproved, &context);
    let probed = it.forges.probe(&payload, &["alice".to_owned()], State::now()).await;
    assert_eq!(probed.mode, ProbeMode::Recorded);
    assert!(it.fixture.double.calls().iter().all(|call| call.account == "surety"));
    let elsewhere = json!({"repo": "other/repo", "pr_number": 1});
    let other = it.ask(EventType::ReviewApproved, elsewhere, State::now()).await;
    assert_eq!(other, ProbeAnswer::NotAsked(NotAsked::NotConfigured));
    let off = Configured::start(ForgeKind::Gitea, ProbeMode::Off).await?;
    let answer = off.ask(EventType::ReviewApproved, context, State::now()).await;
    assert_eq!(answer, ProbeAnswer::NotAsked(NotAsked::NotConfigured));
    assert!(off.fixture.double.calls().is_empty());

    let of_alice = it.forges.of_agent(ForgeKind::Gitea, REPO, "alice-agent").context("a forge")?;
    assert_eq!(of_alice.current_user().await?, "alice");
    assert!(it.forges.of_agent(ForgeKind::Gitea, REPO, "Alice").is_some());
    assert!(it.forges.of_agent(ForgeKind::Gitea, REPO, "robin").is_none());
    assert!(it.forges.of_agent(ForgeKind::Github, REPO, "alice-agent").is_none());
    let file = it.fixture.double.account("robin")?;
    let credential = ("", file.as_path());
    let other =
        it.forges.with_credential(ForgeKind::Gitea, REPO, credential)?.context("a forge")?;
    assert_eq!(other.current_user().await?, "robin");
    assert!(it.forges.with_credential(ForgeKind::Gitea, "other/repo", credential)?.is_none());
    assert_eq!(it.forges.probe_mode(ForgeKind::Gitea, REPO), ProbeMode::Recorded);
    assert_eq!(it.forges.probe_mode(ForgeKind::Gitea, "other/repo"), ProbeMode::Off);
    Ok(())
}

#[test]
fn of_several_forges_the_one_with_the_longest_glob_is_taken() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let credential_file = credential(folder.path(), "token")?;
    let settings = |name: &str, glob: &str| ForgeSettings {
        name: name.to_owned(),
        kind: ForgeKind::Gitea,
        url: "https://git.example".to_owned(),
        account: None,
        credential_file: credential_file.clone(),
        repositories: vec![glob.to_owned()],
        probe: ProbeMode::Required,
        clone_url: None,
    };
    let forges =
        vec![settings("all", "*/*"), settings("team", "team/*"), settings("one", "team/totals")];
    let forges = Forges::open(&ForgesFile { forges, agents: Vec::new() })?;
    let name = |repo: &str| forges.service(ForgeKind::Gitea, repo).map(|(it, _)| it.name.clone());
    assert_eq!(name("team/totals").as_deref(), Some("one"));
    assert_eq!(name("team/x").as_deref(), Some("team"));
    assert_eq!(name("o/r").as_deref(), Some("all"));
    assert_eq!(name("o"), None);
    let wrong = ForgesFile {
        forges: vec![ForgeSettings {
            url: "http://git.example".to_owned(),
            ..settings("x", "*/*")
        }],
        agents: Vec::new(),
    };
    let refused = Forges::open(&wrong).err().context("a refusal")?;
    assert_eq!(refused.code, ForgeErrorCode::ConfigInvalid);
    Ok(())
}

#[test]
fn a_clone_names_the_credential_of_its_agent_which_is_read_when_it_is_used() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let credential_file = credential(folder.path(), "token")?;
    let forge = |name: &str, clone_url: Option<&str>| ForgeSettings {
        name: name.to_owned(),
        kind: ForgeKind::Gitea,
        url: "https://git.example".to_owned(),
        account: None,
        credential_file: credential_file.clone(),
        repositories: vec![format!("{name}/*")],
        probe: ProbeMode::Required,
        clone_url: clone_url.map(str::to_owned),
    };
    let agent = |forge: &str| ForgeCredential {
        agent: "agent".to_owned(),
        forge: forge.to_owned(),
        account: "alice".to_owned(),
        credential_file: credential_file.clone(),
    };
    let forges = vec![
        forge("team", Some("https://git.example")),
        forge("folder", Some("file:///srv/git")),
        forge("none", None),
    ];
    let agents = vec![agent("team"), agent("folder"), agent("none")];
    let forges = Forges::open(&ForgesFile { forges, agents })?;
    let source = |repo: &str, agent: &str| forges.clone_source(ForgeKind::Gitea, repo, agent);
    let team = source("team/app", "agent").context("a source")?;
    assert_eq!(team.url, "https://git.example/team/app.git");
    let name = team.secret.context("a credential")?;
    assert!(team.takes_credential);
    let other = source("team/app", "other").context("a source")?;
    assert_eq!((other.secret, other.takes_credential), (None, true));
    let local = source("folder/app", "agent").context("a source")?;
    assert_eq!((local.secret, local.takes_credential), (None, false));
    assert_eq!(source("none/app", "agent"), None);
    assert_eq!(source("elsewhere/app", "agent"), None);

    std::fs::write(&credential_file, "the-newer-token")?;
    let read = forges.clone_credential(&name).context("a name of the file")??;
    assert_eq!(read.expose(), "the-newer-token");
    assert!(forges.clone_credential("listed").is_none());
    let unknown =
        forges.clone_credential("forges-file/team/other").context("a name of the file")?;
    assert_eq!(unknown.err().context("a refusal")?.code, ForgeErrorCode::CredentialUnreadable);
    Ok(())
}
