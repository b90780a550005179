//! Services that know a forge, on which agents act by their own accounts.

use super::delivery::OLD;
use super::{LOGIN, PAGE, POLL, Stage, pull};
use crate::agent::{AGENT, PERSON};
use crate::forge::{Bare, CommentState, ForgeDouble, Hook, State};
use crate::harness::PATIENCE;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use tempfile::TempDir;

/// The repository on the forge.
pub const REPO: &str = "team/app";

/// Services that know a forge with the account of [`AGENT`].
pub struct OnForge {
    /// The services.
    pub stage: Stage,
    /// The forge.
    pub double: ForgeDouble,
    /// The branches of [`REPO`].
    pub git: Bare,
    _folder: TempDir,
}

impl OnForge {
    /// Services with the variables of every deployment, on a Gitea.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With these variables beside the common ones.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_with(more: &[(&str, &str)]) -> Result<Self> {
        Self::start_on(ForgeDouble::start().await?, "", more).await
    }

    /// As [`OnForge::start_with`], on this forge, which has this line more in the forges file.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_on(
        double: ForgeDouble,
        setting: &str,
        more: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_as(Forge::Gitea, double, setting, more).await
    }

    /// As [`OnForge::start_on`], where the forge is of this kind.
    ///
    /// # Errors
    /// A process did not start.
    pub async fn start_as(
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

    /// Has the forge deliver what happens on it. The services have [`SECRETS`](super::delivery::SECRETS).
    ///
    /// # Errors
    /// The hook was not stored.
    pub async fn connect(&self, kind: Forge) -> Result<()> {
        self.stage.put_hook(kind).await?;
        let url = format!("{}/webhooks/{kind}/main", self.stage.deployment.planner.url());
        self.double.hook(Hook { kind, url, secret: OLD.to_owned() });
        Ok(())
    }

    /// The stored deliveries, once there are so many and none waits to be processed.
    ///
    /// # Errors
    /// It is not so within [`PATIENCE`].
    pub async fn processed(&self, count: usize) -> Result<Vec<v1::Delivery>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = v1::ListDeliveriesRequest { page_size: PAGE, ..Default::default() };
            let listed = self.stage.tasks(PERSON)?.list_deliveries(request).await?;
            let found = listed.into_inner().deliveries;
            let is_done = |one: &v1::Delivery| one.state() != v1::DeliveryState::Stored;
            if found.len() >= count && found.iter().all(is_done) {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "not {count} deliveries in time: {found:#?}");
            tokio::time::sleep(POLL).await;
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
    ///
    /// # Errors
    /// git fails.
    pub fn opened(&self, author: &str, branch: &str) -> Result<u64> {
        let commit =
            self.git.commit(branch, &[("src/list.rs", "fn list() { slow() }\n")], "List")?;
        let opened = self
            .double
            .change(|state| state.open_pull(REPO, State::pull_of(author, branch, &commit)));
        opened.context("a pull request")
    }

    /// A delivery about a pull request as it is now.
    ///
    /// # Errors
    /// There is no such pull request.
    pub fn about(&self, action: &str, number: u64) -> Result<Value> {
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

    /// The comments on an issue or a pull request.
    #[must_use]
    pub fn comments(&self, number: u64) -> Vec<CommentState> {
        self.double.change(|state| {
            let comments = state.repo(REPO).map(|repo| repo.comments.clone()).unwrap_or_default();
            comments.into_iter().filter(|it| it.number == number).collect()
        })
    }

    /// The run of the one task of an event.
    ///
    /// # Errors
    /// The call failed, or the event made another number of tasks.
    pub async fn submitted(&self, event: &str, body: &Value) -> Result<String> {
        let mut answer = self.stage.submit(event, body).await?;
        ensure!(answer.tasks.len() == 1, "{answer:#?}");
        Ok(answer.tasks.remove(0).run_id)
    }

    /// [`AGENT`] submits a report. Answers whether it was accepted, and the task at its end.
    ///
    /// # Errors
    /// A call failed, or the task did not end within [`PATIENCE`].
    pub async fn reported(&self, run_id: &str, report: &str) -> Result<(bool, v1::Task)> {
        let answer = self.stage.report(AGENT, run_id, report).await?;
        Ok((answer.accepted, self.stage.ended(run_id).await?))
    }
}
