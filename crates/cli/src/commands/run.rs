//! `surety run PLAN.yaml`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded, is_passing};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::follow::{Screen, follow};
use crate::output::{Output, note};
use crate::plan_file::{PlanFile, folder_of, read_plan_file, read_text};
use crate::text::one_line;
use crate::wire_json;

/// The number of attempts to submit the run to an unavailable service, and the first pause.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Submits a plan file and follows the run to its verdict.
#[derive(Debug, Args)]
pub struct Run {
    /// The plan file, YAML or JSON; `-` is standard input. Besides the plan's own keys (title,
    /// goal, steps, verify, todos) it may have limits, policy, workspace, repository, labels, driver and interactive.
    #[arg(value_name = "PLAN.yaml")]
    plan: PathBuf,

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
        let plan_file = read_plan_file(&read_text(&self.plan)?, folder_of(&self.plan))?;
        let request = self.request(plan_file)?;
        let connection = Connection::open(&self.client)?;
        let answer = submit(&connection, request).await?;
        let Some(run) = answer.run else {
            return Err(Failure::new(Code::Internal, "the service's answer contains no run", ""));
        };
        let created = wire_json::object([
            ("run_id", wire_json::text(&run.id)),
            ("existed", surety_common::domain::json::Value::Bool(answer.existed)),
            ("warnings", wire_json::list("Warning", &answer.warnings)),
        ]);
        output.either(&created, || run.id.clone())?;
        if !output.json {
            say_what_was_put_right(&answer.warnings);
        }
        if self.no_follow {
            return Ok(Exit::Done);
        }
        follow(&connection, &run, 1, &mut Screen::of(output, &run)).await
    }

    fn request(&self, plan_file: PlanFile) -> Result<v1::CreateRunRequest, Failure> {
        let repository = self.repository(&plan_file);
        let workspace = match (&self.workspace, &plan_file.workspace) {
            // The repository of a flag takes the place of the file's folder.
            (None, Some(_)) if self.repository.is_some() => String::new(),
            (Some(folder), _) => absolute(folder, Path::new(""))?,
            (None, Some(folder)) => {
                absolute(folder, self.plan.parent().unwrap_or_else(|| Path::new("")))?
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

/// A folder that does not exist here may exist on the executor's host, which needs an absolute
/// path.
fn absolute(folder: &Path, base: &Path) -> Result<String, Failure> {
    let joined = base.join(folder);
    let whole = match std::fs::canonicalize(&joined) {
        Ok(whole) => whole,
        Err(_) if folder.is_absolute() => folder.to_owned(),
        Err(error) => return Err(Failure::file(&joined)(error)),
    };
    whole.into_os_string().into_string().map_err(|path| {
        let message = format!("the workspace {} is not a UTF-8 path", path.display());
        Failure::new(Code::FileUnusable, message, "Rename the folder.")
    })
}

/// A retry is safe: the request has an id, so at most one run is created.
async fn submit(
    connection: &Connection,
    request: v1::CreateRunRequest,
) -> Result<v1::CreateRunResponse, Failure> {
    let mut pause = FIRST_PAUSE;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match connection.runs().create_run(bounded(request.clone())).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if left > 0 && is_passing(&status) => {
                note(&format!("surety: {}; retrying", one_line(status.message())));
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(status) => return Err(connection.failure(&status)),
        }
    }
}

fn say_what_was_put_right(warnings: &[v1::Warning]) {
    for warning in warnings {
        let place =
            warning.field.as_deref().map(|field| format!(" at {field}")).unwrap_or_default();
        let line = format!("warning[{}]{place}: {}", warning.code, warning.message);
        note(&one_line(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_becomes_a_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("w")).unwrap();
        let whole = here.join("w").display().to_string();
        assert_eq!(absolute(Path::new("w"), &here).unwrap(), whole);
        assert_eq!(absolute(Path::new("/elsewhere/w"), &here).unwrap(), "/elsewhere/w");
        let refused = absolute(Path::new("missing"), &here).unwrap_err();
        assert!(refused.to_text().starts_with("error[file_unusable]"));
    }
}
