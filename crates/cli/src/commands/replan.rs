//! `surety plan submit RUN FILE` and `surety replan RUN --reason TEXT`

use std::path::PathBuf;

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;
use surety_common::wire::v1::submit_plan_request::PlanSource;

use super::named_run::NamedRun;
use crate::connection::bounded;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::{read_plan_file_at, read_value_at};
use crate::text::{count, one_line, run_state, warning_line};
use crate::wire_json;

/// Submits a plan, or a patch of the plan, for a run.
#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    named: NamedRun,

    /// The plan file, or the patch, YAML or JSON; `-` is standard input. Options beside a plan do not count.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The file is a patch of the run's plan: `add_steps`, `update_steps`, `remove_steps`, `reason`.
    #[arg(long)]
    patch: bool,

    /// Why; stored with the revision.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl Submit {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let source = if self.patch {
            PlanSource::PatchText(read_value_at(&self.file)?.to_compact())
        } else {
            let plan = read_plan_file_at(&self.file, None)?.plan_text;
            PlanSource::PlanText(plan.ok_or_else(|| {
                let advice =
                    "A plan has at least `title` and `steps`; a patch is submitted with --patch.";
                Failure::new(Code::ValueInvalid, "the file contains no plan, only options", advice)
            })?)
        };
        let (connection, run_id) = self.named.find(&self.client).await?;
        let get = v1::GetRunRequest { run_id: run_id.clone(), ..Default::default() };
        let got = connection.runs().get_run(bounded(get)).await;
        let run = got.map_err(|status| connection.failure(&status))?.into_inner().run;
        let request = v1::SubmitPlanRequest {
            run_id,
            expected_revision: run.map(|run| run.plan_revision).unwrap_or_default(),
            plan_source: Some(source),
            reason: self.reason,
            ..Default::default()
        };
        let submitted = connection.plans().submit_plan(bounded(request)).await;
        let answer = submitted.map_err(|status| connection.failure(&status))?.into_inner();
        let shown = || {
            let mut lines: Vec<String> = answer.warnings.iter().map(warning_line).collect();
            let plan = answer.plan.clone().unwrap_or_default();
            let steps = u64::try_from(plan.steps.len()).unwrap_or(u64::MAX);
            let title = one_line(&plan.title);
            lines.push(format!(
                "revision {} of the plan: {title}, {}",
                plan.revision,
                count(steps, "step")
            ));
            if let Some(run) = &answer.run {
                lines.push(format!("run {} is {}", run.id, run_state(run.state())));
            }
            lines.join("\n")
        };
        output.either(&wire_json::message("SubmitPlanResponse", &answer), shown)?;
        Ok(Exit::Done)
    }
}

/// Asks for another plan of a run at work.
#[derive(Debug, Args)]
pub struct Replan {
    #[command(flatten)]
    named: NamedRun,

    /// What is wrong with the plan; what plans reads it.
    #[arg(long)]
    reason: String,

    /// What the plan rested on has changed outside of the run.
    #[arg(long)]
    environment_changed: bool,

    #[command(flatten)]
    client: ClientConfig,
}

impl Replan {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let cause = match self.environment_changed {
            true => v1::ReplanCause::EnvironmentChanged,
            false => v1::ReplanCause::Requested,
        };
        let request = v1::RequestReplanRequest {
            run_id,
            reason: self.reason,
            cause: cause.into(),
            ..Default::default()
        };
        let asked = connection.plans().request_replan(bounded(request)).await;
        let run = asked.map_err(|status| connection.failure(&status))?.into_inner().run;
        let run = run.unwrap_or_default();
        let shown = || format!("run {} is {}", run.id, run_state(run.state()));
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
