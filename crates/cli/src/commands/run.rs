//! `surety run PLAN.yaml`, `surety run --goal TEXT`

use std::path::{Path, PathBuf};

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::domain::check::{Author, name_paths, read_checks};
use surety_common::domain::json::Value;
use surety_common::wire::v1;
use surety_planner::plan::standing_at;

use super::submission::{Submission, absolute, submitted};
use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::{PlanFile, read_plan_file_at};

/// Submits a plan file, or a goal that a model plans, and follows the run to its verdict.
#[derive(Debug, Args)]
pub struct Run {
    /// The plan file, YAML or JSON; `-` is standard input. Besides the plan's own keys (title,
    /// goal, steps, verify, todos) it may have limits, policy, workspace, repository, labels, driver and interactive.
    #[arg(value_name = "PLAN.yaml", required_unless_present = "goal")]
    plan: Option<PathBuf>,

    /// The goal, in place of a plan file: the service's model plans it and decides each step.
    #[arg(long, value_name = "TEXT", conflicts_with = "plan")]
    goal: Option<String>,

    /// With --goal: a command or a file by which the result is judged. It is yours: the model cannot change it.
    /// May be given several times.
    #[arg(long, value_name = "CHECK", requires = "goal")]
    verify: Vec<String>,

    /// The folder to work in, on the executor's host; overrides the file's own.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The git repository to work on in place of a folder, by its address; overrides the file's own.
    #[arg(long, value_name = "URL", conflicts_with = "workspace")]
    repository: Option<String>,

    /// Its revision: a branch, a tag, a whole ref, or a commit with all its digits; by default HEAD.
    #[arg(long, value_name = "REV")]
    revision: Option<String>,

    /// The name of the secret with its credential, as the executor's operator lists it.
    #[arg(long, value_name = "NAME")]
    repository_secret: Option<String>,

    /// The namespace; by default `default`.
    #[arg(long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// The idempotency key of this submission: submitting it again creates no second run.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,

    /// A person follows the run: it asks where its verdict is in doubt, unless the policy says otherwise.
    #[arg(long)]
    interactive: bool,

    /// Print the run's id and end.
    #[arg(long)]
    no_follow: bool,

    #[command(flatten)]
    client: ClientConfig,
}

impl Run {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let plan_file = match &self.plan {
            Some(plan) => read_plan_file_at(plan, self.workspace.as_deref())?,
            None => self.goal_alone()?,
        };
        let request = self.request(plan_file)?;
        let connection = Connection::open(&self.client)?;
        let submit = async || connection.runs().create_run(bounded(request.clone())).await;
        let answer = submitted(&connection, submit).await?;
        let submission = Submission {
            run: answer.run,
            existed: answer.existed,
            warnings: answer.warnings,
            follow: !self.no_follow,
        };
        submission.end(&connection, output).await
    }

    /// The request of a goal without a plan.
    fn goal_alone(&self) -> Result<PlanFile, Failure> {
        let mut lines = Value::Array(self.verify.iter().cloned().map(Value::String).collect());
        if let Some(workspace) = &self.workspace {
            name_paths(&mut lines, &|path| standing_at(workspace, Path::new(path)));
        }
        let (checks, _) =
            read_checks(&lines, "--verify", Author::Submitter).map_err(|problem| {
                let field = problem.field.unwrap_or_default();
                Failure::new(Code::ValueInvalid, problem.message, "").at(&field)
            })?;
        Ok(PlanFile {
            goal: self.goal.clone().unwrap_or_default(),
            verify: checks.into_iter().map(Into::into).collect(),
            driver: v1::Driver::Model,
            ..PlanFile::default()
        })
    }

    fn request(&self, plan_file: PlanFile) -> Result<v1::CreateRunRequest, Failure> {
        let repository = self.repository(&plan_file);
        let workspace = match (&self.workspace, &plan_file.workspace) {
            // The repository of a flag takes the place of the file's folder.
            (None, Some(_)) if self.repository.is_some() => String::new(),
            (Some(folder), _) => absolute(folder, Path::new(""))?,
            (None, Some(folder)) => {
                let plan = self.plan.as_deref().and_then(Path::parent);
                absolute(folder, plan.unwrap_or_else(|| Path::new("")))?
            }
            (None, None) => String::new(),
        };
        let made_up = || uuid::Uuid::now_v7().to_string();
        let mut request = v1::CreateRunRequest {
            request_id: self.request_id.clone().unwrap_or_else(made_up),
            namespace: self.namespace.clone(),
            goal: plan_file.goal,
            plan_source: plan_file.plan_text.map(v1::create_run_request::PlanSource::PlanText),
            limits: plan_file.limits,
            workspace,
            repository,
            policy: plan_file.policy,
            labels: plan_file.labels.into_iter().collect(),
            interactive: self.interactive || plan_file.interactive,
            without_plan: plan_file.without_plan,
            verify: plan_file.verify,
            ..v1::CreateRunRequest::default()
        };
        request.set_driver(plan_file.driver);
        Ok(request)
    }

    /// The repository of the flags over that of the file. A folder named by a flag takes its place.
    fn repository(&self, plan_file: &PlanFile) -> Option<v1::Repository> {
        let named = plan_file.repository.clone().filter(|_| self.workspace.is_none());
        let flags = [&self.repository, &self.revision, &self.repository_secret];
        if named.is_none() && flags.iter().all(|flag| flag.is_none()) {
            return None;
        }
        let mut repository = match &self.repository {
            Some(url) => v1::Repository { url: url.clone(), ..v1::Repository::default() },
            None => named.unwrap_or_default(),
        };
        if let Some(revision) = &self.revision {
            repository.revision.clone_from(revision);
        }
        if let Some(secret) = &self.repository_secret {
            repository.secret.clone_from(secret);
        }
        Some(repository)
    }
}
