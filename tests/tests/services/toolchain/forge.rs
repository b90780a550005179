//! The forge itself decides: it is asked what a task led to, it gets one comment for a failure, and agents act on it by
//! their own accounts.

use super::{LOGIN, Stage, pull};
use crate::toolchain_intake::sender::OLD;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON, call};
use surety_e2e::forge::{Bare, CommentState, Failure, ForgeDouble, Hook, State};
use surety_e2e::harness::{PATIENCE, wait_until};
use tempfile::TempDir;

pub(super) const REPO: &str = "team/app";

/// Services that know a forge with the account of [`AGENT`].
pub(super) struct OnForge {
    pub(super) stage: Stage,
    pub(super) double: ForgeDouble,
    pub(super) git: Bare,
    _folder: TempDir,
}

impl OnForge {
    async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With these variables beside the common ones.
    pub(super) async fn start_with(more: &[(&str, &str)]) -> Result<Self> {
        Self::start_on(ForgeDouble::start().await?, "", more).await
    }

    /// As [`OnForge::start_with`], on this forge, which has this line more in the forges file.
    pub(super) async fn start_on(
        double: ForgeDouble,
        setting: &str,
        more: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_as(Forge::Gitea, double, setting, more).await
    }

    /// As [`OnForge::start_on`], where the forge is of this kind.
    pub(super) async fn start_as(
        kind: Forge,
        double: ForgeDouble,
        setting: &str,
        more: &[(&str, &str)],
    ) -> Result<Self> {
        let git = double.repository(REPO, &[("src/list.rs", "fn list() {}\n")])?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("forges.toml");
        std::fs::write(&file, Self::forges(kind, &double, setting)?)?;
        double.account("alice")?;
        // Agents act by their own accounts: the forge refuses the service's.
        double
            .change(|state| state.denied.insert(("surety".to_owned(), "submit_review".to_owned())));
        let file = file.to_string_lossy().into_owned();
        let environment = [&[("SURETY_FORGES_FILE", file.as_str())], more].concat();
        let stage = Stage::start_with(&environment).await?;
        stage.put(AGENT, &[(kind.as_str(), LOGIN)], &["developer"]).await?;
        Ok(Self { stage, double, git, _folder: folder })
    }

    /// Has the forge deliver what happens on it. The planner has the secrets of the tests of the intake.
    pub(super) async fn connect(&self, kind: Forge) -> Result<()> {
        let of_wire = match kind {
            Forge::Gitea => v1::Forge::Gitea,
            Forge::Forgejo => v1::Forge::Forgejo,
            Forge::Github => v1::Forge::Github,
        };
        let hook = v1::Hook {
            name: "main".to_owned(),
            forge: of_wire.into(),
            secrets: vec!["old".to_owned()],
            ..v1::Hook::default()
        };
        self.stage.tasks(PERSON)?.put_hook(v1::PutHookRequest { hook: Some(hook) }).await?;
        let url = format!("{}/webhooks/{kind}/main", self.stage.deployment.planner.url());
        self.double.hook(Hook { kind, url, secret: OLD.to_owned() });
        Ok(())
    }

    /// The stored deliveries, once there are so many and none waits to be processed.
    pub(super) async fn processed(&self, count: usize) -> Result<Vec<v1::Delivery>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::ListDeliveriesRequest { page_size: 1000, ..Default::default() };
            let listed = self.stage.tasks(PERSON)?.list_deliveries(request).await?;
            let found = listed.into_inner().deliveries;
            let is_done = |one: &v1::Delivery| one.state() != v1::DeliveryState::Stored;
            if found.len() >= count && found.iter().all(is_done) {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "not {count} deliveries in time: {found:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn forges(kind: Forge, double: &ForgeDouble, setting: &str) -> Result<String> {
        let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
        let (service, agent) = (quoted(double.account("surety")?), quoted(double.account(LOGIN)?));
        let url = double.url();
        Ok(format!(
            "[forge.main]\nkind = \"{kind}\"\nurl = \"{url}\"\ncredential_file = {service}\nrepositories = [\"team/*\"]\n\
             {setting}\n[agents.{AGENT}.main]\naccount = \"{LOGIN}\"\ncredential_file = {agent}\n"
        ))
    }

    /// Opens a pull request of an account, and returns its number.
    pub(super) fn opened(&self, author: &str, branch: &str) -> Result<u64> {
        let commit =
            self.git.commit(branch, &[("src/list.rs", "fn list() { slow() }\n")], "List")?;
        let opened = self
            .double
            .change(|state| state.open_pull(REPO, State::pull_of(author, branch, &commit)));
        opened.context("a pull request")
    }

    /// A delivery about a pull request as it is now.
    pub(super) fn about(&self, action: &str, number: u64) -> Result<Value> {
        let mut body = pull(action, number, 1);
        let shown = self.double.change(|state| {
            let pull = state.repo(REPO)?.pulls.get(&number)?.clone();
            Some((pull.author, pull.commit, State::now().to_rfc3339()))
        });
        let (author, commit, at) = shown.context("the pull request")?;
        body["pull_request"]["user"]["login"] = json!(author);
        body["pull_request"]["head"]["sha"] = json!(commit);
        body["pull_request"]["updated_at"] = json!(at);
        Ok(body)
    }

    pub(super) fn comments(&self, number: u64) -> Vec<CommentState> {
        self.double.change(|state| {
            let comments = state.repo(REPO).map(|repo| repo.comments.clone()).unwrap_or_default();
            comments.into_iter().filter(|it| it.number == number).collect()
        })
    }

    pub(super) async fn submitted(&self, event: &str, body: &Value) -> Result<String> {
        let mut answer = self.stage.submit(event, body).await?;
        ensure!(answer.tasks.len() == 1, "{answer:#?}");
        Ok(answer.tasks.remove(0).run_id)
    }

    pub(super) async fn reported(&self, run_id: &str, report: &str) -> Result<(bool, v1::Task)> {
        let answer = self.stage.report(AGENT, run_id, report).await?;
        Ok((answer.accepted, self.stage.ended(run_id).await?))
    }
}

#[tokio::test]
async fn a_review_is_answered_by_a_push_a_claim_gets_one_comment_and_an_outage_blames_no_agent()
-> Result<()> {
    let on = OnForge::start().await?;
    let number = on.opened(LOGIN, "fix/9-list")?;
    on.double
        .change(|state| state.review(REPO, "alice", (number, "REQUEST_CHANGES", "Add a test.")));
    let run_id = on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await?;

    // The agent claims a push that did not happen. The answer to the comment is lost after it was written.
    on.double.fail("add_comment", Failure::CutAfterWrite, (0, 1));
    let (accepted, failed) =
        on.reported(&run_id, "Changed src/list.rs, pushed, CI passed.").await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(!accepted && why == ("steps_ignored", "business"), "{failed:#?}");
    let verdict = on.stage.deployment.run(&run_id).await?.verdict.context("no verdict")?;
    ensure!(verdict.results.iter().any(|result| result.reason == "no_new_push"), "{verdict:#?}");
    let caused = on.stage.caused_by(&run_id, 1).await?;
    let [again] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
    let commented = || on.comments(number).into_iter().filter(|it| it.author == "surety");
    wait_until("commented", || commented().count() > 0).await?;
    let comment = commented().next().context("a comment")?;
    ensure!(comment.body.contains(&format!("@{LOGIN}")), "{comment:#?}");
    ensure!(comment.body.contains(&format!("<!-- surety:run={run_id} -->")), "{comment:#?}");

    // The push that the review asked for.
    on.git.commit("fix/9-list", &[("tests/list.rs", "#[test]\n")], "Test the list")?;
    let (accepted, ended) = on.reported(&again.run_id, "Pushed tests/list.rs.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");
    ensure!(commented().count() == 1, "{:#?}", on.comments(number));

    // While the forge is down, the verification errs, and not the agent.
    let newer = on.about("reviewed", number)?;
    on.double.change(|state| state.review(REPO, "alice", (number, "REQUEST_CHANGES", "More.")));
    let down = on.submitted("pull_request_rejected", &newer).await?;
    on.double.fail("*", Failure::Status(503), (0, 10_000));
    let (accepted, failed) = on.reported(&down, "Pushed src/list.rs.").await?;
    let why = (failed.failure.as_str(), failed.failure_class.as_str());
    ensure!(!accepted && why == ("forge_api_unreachable", "infrastructure"), "{failed:#?}");
    let caused = on.stage.caused_by(&down, 1).await?;
    let [infra] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
    ensure!(infra.action_type == "infrastructure_failure" && infra.assignee == OTHER, "{infra:#?}");
    let metrics = on.stage.deployment.gate.get("/metrics").await?;
    let counted = r#"surety_forge_calls_total{forge="main",operation="pull",result="unreachable"}"#;
    ensure!(metrics.contains(counted), "{metrics}");
    on.stage.deployment.finish().await
}

#[tokio::test]
async fn a_reviewer_works_with_the_forge_tools_by_its_own_account() -> Result<()> {
    let on = OnForge::start().await?;
    on.stage.put(AGENT, &[("gitea", LOGIN)], &["developer", "reviewer"]).await?;
    let number = on.opened("alice", "alice/list")?;
    let mut body = on.about("opened", number)?;
    body["sender"]["login"] = json!("alice");
    let run_id = on.submitted("pull_request", &body).await?;
    let task = on.stage.task(&run_id).await?;
    ensure!(task.action_type == "review_request" && task.assignee == AGENT, "{task:#?}");
    let context: Value = serde_json::from_str(&task.context_json)?;
    ensure!(context["changed_files"] == json!(["src/list.rs"]), "{context:#}");

    let agent = on.stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let review = json!({"event": "REQUEST_CHANGES", "body": "Do not be slow."});
    let replies = [
        call("forge_get", json!({"what": "diff"})),
        call("forge_review", review),
        call("forge_comment", json!({"body": "See the review."})),
    ];
    let last = agent.take_turns(work, &replies).await?;
    let shown = format!("{last:?}");
    ensure!(shown.contains("forge_comment") || shown.contains("comment on"), "{shown}");
    let reviews = on.double.change(|state| state.repo(REPO).map(|repo| repo.reviews.clone()));
    let reviews = reviews.context("the repository")?;
    let [review] = reviews.as_slice() else { anyhow::bail!("{reviews:#?}") };
    ensure!(
        (review.author.as_str(), review.event.as_str()) == (LOGIN, "REQUEST_CHANGES"),
        "{review:#?}"
    );
    ensure!(on.comments(number).iter().all(|it| it.author == LOGIN), "{:#?}", on.comments(number));
    let (accepted, ended) = on.reported(&run_id, "Reviewed #1: changes requested.").await?;
    ensure!(accepted && ended.outcome == "accepted", "{ended:#?}");

    // No credential is in what the run stored or said.
    let journal = on.stage.deployment.events(&run_id).await?;
    for login in [LOGIN, "surety"] {
        let token = on.double.token(login).context("a token")?;
        ensure!(
            !format!("{journal:?} {shown} {ended:?}").contains(&token),
            "a credential is shown"
        );
    }
    on.stage.deployment.finish().await
}
