//! Agents do what signed deliveries ask for: a model by the forge tools, a program by git, each with its own credential;
//! and the clone of the event's branch is the workspace of what changes code.

use crate::client_example::{generated, root};
use crate::git_workspace::served;
use crate::model::stage::{MODEL, next_plan, tool};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON, call, secret};
use surety_e2e::forge::{Bare, ForgeDouble, Hook, PullState, State};
use surety_e2e::harness::{PATIENCE, wait_until};
use surety_e2e::model_server::{Asked, ModelServer, Reply, Script, Settings};
use surety_e2e::toolchain::delivery::{OLD, SECRETS};
use surety_e2e::toolchain::{LOGIN, Stage};
use tempfile::{NamedTempFile, TempDir};
use tokio::process::Command;

pub(super) const REPO: &str = "team/app";
/// The agent that the model drives, and its account.
pub(super) const ROBOT: &str = "robot";
pub(super) const REVIEWER: &str = "carol";

/// Services with a forge that delivers to them, a model, and a server of the forge's repositories.
pub(super) struct Work {
    pub(super) stage: Stage,
    pub(super) double: ForgeDouble,
    pub(super) git: Bare,
    pub(super) model: ModelServer,
    repositories: served::Forge,
    _folder: TempDir,
}

/// An author that changes, pushes, reports and ends its step, and else [`review`].
fn act(asked: &Asked) -> Reply {
    let is_author =
        asked.messages.iter().any(|(_, text)| text.contains("asks for changes in your"));
    if !is_author {
        return review(asked);
    }
    let replies = asked.messages.iter().filter(|(role, _)| role == "assistant").count();
    match replies {
        0 => tool("forge_push", json!({"message": "Nothing yet"})),
        1 if asked.last().contains("no change") => {
            tool("write_file", json!({"path": "src/list.rs", "content": "fn list() { quick() }\n"}))
        }
        1 => Reply::status(500).saying("an unchanged workspace was pushed"),
        2 => tool("forge_push", json!({"message": "Make the list quick"})),
        3 => tool("write_file", json!({"path": "src/quick.rs", "content": "fn quick() {}\n"})),
        4 => tool("forge_push", json!({"message": "Add what it calls"})),
        5 if asked.last().contains("pushed") => {
            tool("submit_action_report", json!({"report": "Changed src/list.rs and pushed it."}))
        }
        5 => Reply::status(500).saying("the second push is not shown"),
        _ => next_plan(),
    }
}

/// A reviewer that reads, reviews, reports and ends its step. It is told by its earlier replies how far it is.
fn review(asked: &Asked) -> Reply {
    let replies = asked.messages.iter().filter(|(role, _)| role == "assistant").count();
    match replies {
        0 => tool("forge_get", json!({"what": "pull_request"})),
        1 => tool("forge_get", json!({"what": "diff"})),
        2 if asked.last().contains("slow()") => {
            tool("forge_review", json!({"event": "REQUEST_CHANGES", "body": "Do not be slow."}))
        }
        2 => Reply::status(500).saying("the diff is not shown"),
        3 => tool(
            "submit_action_report",
            json!({"report": "Read the diff of src/list.rs and submitted a review: changes requested."}),
        ),
        _ => next_plan(),
    }
}

impl Work {
    /// With a model that says this.
    pub(super) async fn start(script: Script) -> Result<Self> {
        let double = ForgeDouble::start().await?;
        let git = double.repository(REPO, &[("src/list.rs", "fn list() {}\n")])?;
        double.account("alice")?;
        let quoted = |login| -> Result<String> {
            Ok(format!("{:?}", double.account(login)?.display().to_string()))
        };
        let (service, bob, carol) = (quoted("surety")?, quoted(LOGIN)?, quoted(REVIEWER)?);
        let user = |login| double.token(login).map(|token| format!("x-access-token:{token}"));
        let users = [user(LOGIN).context("a token")?, user(REVIEWER).context("a token")?];
        let repositories = served::Forge::start(double.repositories(), &users).await?;
        let model = ModelServer::start(Settings::default(), script).await?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("forges.toml");
        let text = format!(
            "[forge.main]\nkind = \"gitea\"\nurl = \"{}\"\ncredential_file = {service}\nrepositories = [\"team/*\"]\n\
             clone_url = \"{}\"\n\
             [agents.{AGENT}.main]\naccount = \"{LOGIN}\"\ncredential_file = {bob}\n\
             [agents.{ROBOT}.main]\naccount = \"{REVIEWER}\"\ncredential_file = {carol}\n",
            double.url(),
            repositories.address
        );
        std::fs::write(&file, text)?;
        let (file, url) = (file.to_string_lossy().into_owned(), model.url());
        let own = [
            ("SURETY_FORGES_FILE", file.as_str()),
            ("SURETY_EXECUTOR_REPOSITORIES", repositories.address.as_str()),
            ("SURETY_MODEL_URL", url.as_str()),
            ("SURETY_MODEL_NAME", MODEL),
        ];
        let stage = Stage::start_with(&[&SECRETS[..], &own].concat()).await?;
        stage.put_hook(Forge::Gitea).await?;
        let url = format!("{}/webhooks/gitea/main", stage.deployment.planner.url());
        double.hook(Hook { kind: Forge::Gitea, url, secret: OLD.to_owned() });
        // Agents act by their own accounts: the forge refuses the service's.
        for route in ["submit_review", "open_pull", "merge"] {
            let denied = ("surety".to_owned(), route.to_owned());
            double.change(|state| state.denied.insert(denied));
        }
        let at = Self { stage, double, git, model, repositories, _folder: folder };
        at.register_the_robot().await?;
        Ok(at)
    }

    /// Registers the agent that the model drives.
    async fn register_the_robot(&self) -> Result<()> {
        let accounts = [("gitea", REVIEWER)];
        let stored = self.stage.put_driven(ROBOT, &accounts, (&[], "model")).await?;
        ensure!(stored.driver == "model", "{stored:#?}");
        Ok(())
    }

    /// Opens a pull request of an account, and returns its number.
    pub(super) fn opened(&self, author: &str, branch: &str, reviewers: &[&str]) -> Result<u64> {
        let files = [("src/list.rs", "fn list() { slow() }\n")];
        // Commits of one second with the same content are the same one.
        let commit = self.git.commit(branch, &files, &format!("List of {branch}"))?;
        let reviewers = reviewers.iter().map(ToString::to_string).collect();
        let pull = PullState { reviewers, ..State::pull_of(author, branch, &commit) };
        self.double.change(|state| state.open_pull(REPO, pull)).context("a pull request")
    }

    /// Asks for changes of a pull request, and returns the run of the task that the delivery becomes.
    pub(super) async fn refused(&self, number: u64, why: &str) -> Result<String> {
        let review = (number, "REQUEST_CHANGES", why);
        self.double.change(|state| state.review(REPO, "alice", review)).context("a review")?;
        let fits = |task: &v1::Task| {
            task.number == Some(number) && task.context_json.contains(why) && task.assignee == AGENT
        };
        Ok(self.found("changes_requested", fits).await?.run_id)
    }

    /// The task of an event, once its delivery is processed.
    pub(super) async fn found(
        &self,
        event: &str,
        fits: impl Fn(&v1::Task) -> bool,
    ) -> Result<v1::Task> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::ListTasksRequest { page_size: 1000, ..Default::default() };
            let listed = self.stage.tasks(PERSON)?.list_tasks(request).await?.into_inner().tasks;
            let mut of_event = listed.iter().filter(|task| task.event_type == event);
            if let Some(task) = of_event.find(|task| fits(task)) {
                return Ok(task.clone());
            }
            ensure!(Instant::now() < deadline, "no task of {event}: {listed:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The end of a task that failed by no fault of its assignee, and the one task that follows from it.
    async fn failed(&self, run_id: &str, why: (&str, &str)) -> Result<v1::Task> {
        let ended = self.stage.ended(run_id).await?;
        ensure!((ended.failure.as_str(), ended.failure_class.as_str()) == why, "{ended:#?}");
        let mut caused = self.stage.caused_by(run_id, 1).await?;
        ensure!(caused.len() == 1 && caused[0].assignee == OTHER, "{caused:#?}");
        Ok(caused.remove(0))
    }

    async fn model_reviews(&self) -> Result<()> {
        let number = self.opened("alice", "alice/list", &[REVIEWER])?;
        let task = self.found("review_requested", |task| task.number == Some(number)).await?;
        let ended = self.stage.ended(&task.run_id).await?;
        ensure!(ended.outcome == "accepted" && ended.assignee == ROBOT, "{ended:#?}");
        let run = self.stage.deployment.run(&task.run_id).await?;
        ensure!(run.driver() == v1::Driver::Model, "{run:#?}");
        let verdict = run.verdict.context("no verdict")?;
        let asked = verdict.results.iter().find(|result| result.name == "forge_state");
        ensure!(asked.is_some_and(|result| result.passed), "{verdict:#?}");
        let reviews = self.double.change(|state| state.repo(REPO).map(|repo| repo.reviews.clone()));
        let reviews = reviews.context("the repository")?;
        let [review] = reviews.as_slice() else { anyhow::bail!("{reviews:#?}") };
        let written = (review.author.as_str(), review.event.as_str());
        ensure!(written == (REVIEWER, "REQUEST_CHANGES"), "{review:#?}");
        let request =
            v1::ListTaskEntriesRequest { run_id: task.run_id.clone(), ..Default::default() };
        let listed = self.stage.tasks(PERSON)?.list_task_entries(request).await?.into_inner();
        let reports = listed.entries.iter().filter(|entry| entry.kind == "action_report");
        let authors: Vec<&str> = reports.map(|entry| entry.author.as_str()).collect();
        ensure!(authors == [ROBOT], "{listed:#?}");
        let journal = self.stage.deployment.events(&task.run_id).await?;
        let shown = format!("{journal:?} {:?}", self.model.recorded());
        for login in [LOGIN, REVIEWER, "surety"] {
            let token = self.double.token(login).context("a token")?;
            ensure!(!shown.contains(&token), "the credential of {login} is shown");
        }
        Ok(())
    }

    /// The model changes the code in the clone of the pull request, and pushes by the account of its agent.
    async fn model_changes(&self) -> Result<()> {
        let number = self.opened(REVIEWER, "carol/list", &[])?;
        let before = self.git.head("carol/list")?.context("a commit")?;
        let review = (number, "REQUEST_CHANGES", "It must not be slow.");
        self.double.change(|state| state.review(REPO, "alice", review)).context("a review")?;
        let of_pull = |task: &v1::Task| task.number == Some(number);
        let task = self.found("changes_requested", of_pull).await?;
        let ended = self.stage.ended(&task.run_id).await?;
        ensure!(ended.outcome == "accepted" && ended.assignee == ROBOT, "{ended:#?}");
        let after = self.git.head("carol/list")?.context("a commit")?;
        ensure!(after != before, "nothing was pushed");
        let pushed = std::process::Command::new("git")
            .arg("--git-dir")
            .arg(self.git.path())
            .args(["log", "--format=%s %(trailers:key=Surety-Run,valueonly,separator=%x2C)"])
            .arg(format!("{before}..{after}"))
            .output()?;
        let pushed = String::from_utf8_lossy(&pushed.stdout).into_owned();
        let run_id = &task.run_id;
        let expected = format!("Add what it calls {run_id}\nMake the list quick {run_id}\n");
        ensure!(pushed == expected, "{pushed}");
        Ok(())
    }

    async fn program_works(&self, stubs: &Path) -> Result<()> {
        let (reviewed, broken) =
            (self.opened(LOGIN, "fix/1", &[])?, self.opened(LOGIN, "fix/2", &[])?);
        let before = self.git.head("fix/2")?.context("a commit")?;
        let status = (before.as_str(), "tests", "failure");
        self.double.change(|state| state.status(REPO, "ci", status)).context("a status")?;
        let issue = ("The list is slow", "It takes a minute.");
        let assigned = (vec![LOGIN.to_owned()], Vec::new());
        let issue = self.double.change(|state| state.open_issue(REPO, "alice", issue, assigned));
        let issue = issue.context("an issue")?;
        let runs = [
            (self.refused(reviewed, "Add a test.").await?, "review_result"),
            (self.found("ci_failed", |task| task.assignee == AGENT).await?.run_id, "ci_failure"),
            (self.found("issue_assigned", |_| true).await?.run_id, "issue_assigned"),
        ];
        let mut token = NamedTempFile::new()?;
        writeln!(token, "{}", secret(AGENT))?;
        let ran = Command::new(stubs.join("venv/bin/python"))
            .arg(root().join("examples/task_agent.py"))
            .arg(stubs.join("generated"))
            .arg(self.stage.deployment.executors.first().context("an executor")?.address())
            .arg(self.stage.deployment.planner.address())
            .arg(token.path())
            .arg("2")
            .arg(self.double.repositories())
            .kill_on_drop(true)
            .output();
        let ran = tokio::time::timeout(PATIENCE, ran).await.context("the agent does not end")??;
        let said = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        for (run_id, action) in &runs {
            let line = format!("{run_id} {action} accepted");
            ensure!(said.lines().any(|said| said == line), "no {line}:\n{said}\n{errors}");
            let ended = self.stage.ended(run_id).await?;
            ensure!(ended.outcome == "accepted", "{ended:#?}");
        }
        ensure!(
            said.contains(&format!("Create the branch fix/{issue}-the-list-is-slow.")),
            "{said}"
        );
        ensure!(self.git.head("fix/2")?.is_some_and(|head| head != before), "{broken} has no push");
        let pulls = self.double.change(|state| state.repo(REPO).map(|repo| repo.pulls.clone()));
        let opened = pulls
            .context("the repository")?
            .into_values()
            .find(|pull| pull.head == format!("fix/{issue}-the-list-is-slow"));
        ensure!(opened.is_some_and(|pull| pull.author == LOGIN), "no pull request of the agent");
        Ok(())
    }

    async fn clones_are_workspaces(&self) -> Result<()> {
        let number = self.opened(LOGIN, "fix/3", &[])?;
        self.double.change(|state| state.comment(REPO, "alice", (number, "Why a list?")));
        let task = self.found("review_comment", |task| task.number == Some(number)).await?;
        let agent = self.stage.agent(AGENT)?;
        let work = agent.work(&task.run_id).await?;
        let read = call("read_file", json!({"path": "src/list.rs"}));
        let written = call("forge_comment", json!({"body": "It is short."}));
        let answer = agent.submit(&work, &read.to_string()).await?;
        ensure!(answer.observation.contains("fn list() { slow() }"), "{answer:#?}");
        let work =
            surety_e2e::agent::Work { context: answer.next.context("the next turn")?, ..work };
        agent.submit(&work, &written.to_string()).await?;
        let accepted = self.stage.report(AGENT, &task.run_id, "Replied in src/list.rs.").await?;
        ensure!(accepted.accepted, "{accepted:#?}");
        let run = self.stage.deployment.run(&task.run_id).await?;
        let repository = run.repository.context("no repository")?;
        ensure!(repository.revision == format!("refs/pull/{number}/head"), "{repository:#?}");
        ensure!(
            repository.url == format!("{}/{REPO}.git", self.repositories.address),
            "{repository:#?}"
        );

        // The branch is gone: the coordinator decides.
        self.git.forget(&format!("refs/pull/{number}/head"))?;
        let gone = self.refused(number, "It lacks a test.").await?;
        let follows = self.failed(&gone, ("branch_gone", "system")).await?;
        ensure!(follows.event_type == "task_failed", "{follows:#?}");
        let issues = || {
            self.double.change(|state| {
                let issues = state.repo(REPO).map(|repo| repo.issues.clone()).unwrap_or_default();
                issues.into_values().filter(|issue| issue.author == "surety").count()
            })
        };
        wait_until("told by an issue", || issues() == 1).await?;

        // The repository is not there, and then the credential is wrong: no fault of the agent.
        let number = self.opened(LOGIN, "fix/4", &[])?;
        let (there, away) = (self.git.path(), self.git.path().with_extension("away"));
        std::fs::rename(there, &away)?;
        let down = self.refused(number, "It is too long.").await?;
        let follows = self.failed(&down, ("forge_api_unreachable", "infrastructure")).await?;
        ensure!(follows.action_type == "infrastructure_failure", "{follows:#?}");
        std::fs::rename(&away, there)?;
        std::fs::write(self.double.account(LOGIN)?, "no-token-of-this-forge")?;
        let denied = self.refused(number, "It is too short.").await?;
        let follows = self.failed(&denied, ("workspace_unavailable", "infrastructure")).await?;
        ensure!(follows.action_type == "infrastructure_failure", "{follows:#?}");
        ensure!(self.repositories.refused() > 0, "the wrong credential was served");
        Ok(())
    }

    /// A task that waits for an agent is replaced by one for the model when the agent is registered.
    async fn the_model_takes_what_waited(&self) -> Result<()> {
        for id in [ROBOT, OTHER] {
            let request = v1::DeleteAgentRequest { id: id.to_owned() };
            self.stage.tasks(PERSON)?.delete_agent(request).await?;
        }
        let number = self.opened("alice", "alice/later", &[REVIEWER])?;
        let of_pull = |task: &v1::Task| task.number == Some(number);
        let waiting = self.found("review_requested", of_pull).await?;
        ensure!(waiting.assignee.is_empty(), "{waiting:#?}");
        self.register_the_robot().await?;
        let replaced = self.stage.ended(&waiting.run_id).await?;
        ensure!(replaced.outcome == "superseded", "{replaced:#?}");
        let next = self.stage.caused_by(&waiting.run_id, 1).await?;
        let [next] = next.as_slice() else { anyhow::bail!("{next:#?}") };
        let ended = self.stage.ended(&next.run_id).await?;
        ensure!(ended.outcome == "accepted" && ended.assignee == ROBOT, "{ended:#?}");
        Ok(())
    }
}

/// The lines of the program that say something.
const MAX_LINES: usize = 66;

#[test]
fn the_program_stays_short_enough_to_be_read_at_once() -> Result<()> {
    let program = std::fs::read_to_string(root().join("examples/task_agent.py"))?;
    let lines = program.lines().map(str::trim);
    let count = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    ensure!(count <= MAX_LINES, "examples/task_agent.py has {count} lines");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_and_a_program_do_what_signed_deliveries_ask_for() -> Result<()> {
    let at = Work::start(Script::function(act)).await?;
    at.model_reviews().await?;
    at.model_changes().await?;
    if let Some(stubs) = generated().await? {
        at.program_works(&stubs).await?;
    }
    at.clones_are_workspaces().await?;
    at.the_model_takes_what_waited().await?;
    at.stage.deployment.finish().await
}
