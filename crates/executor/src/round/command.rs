//! The commands of checks.

use super::tests_seen::add_counts;
use super::{Round, may_use_shell};
use crate::blocking::blocking;
use crate::tool::builtin::run_command::outcome;
use crate::tool::process::{self, CommandRequest};
use crate::tool::{Environment, ErrorCode, RelPath, ToolContext, ToolError, ToolOutcome, project};
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::command::{Program, needs_shell, programs};
use surety_common::domain::receipt::Command;
use surety_common::domain::verification::ProjectTests;
use uuid::Uuid;

impl Round {
    /// Runs a check's line. The fact has the line as it was written, and its exit code.
    ///
    /// A line of a plan gets no shell: its programs run one after another while each succeeds. The author
    /// of a user's or an operator's line is trusted, so what needs a shell gets one.
    pub(super) async fn run_line(
        &self,
        line: &str,
        owner: Owner,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let runs = self.test_runs(&Command::Line(line.to_owned())).await?;
        let mut outcome = self.run_programs(line, owner, call_id).await?;
        add_counts(&mut outcome, runs);
        Ok(outcome)
    }

    async fn run_programs(
        &self,
        line: &str,
        owner: Owner,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let context = self.context(call_id);
        if may_use_shell(owner) && needs_shell(line) {
            let argv = ["sh", "-c", line].map(str::to_owned).to_vec();
            return run_argv(&context, line, argv, Environment::clone(&context.environment)).await;
        }
        let Some(programs) = programs(line) else {
            return Err(ToolError::new(
                ErrorCode::ShellNotAllowed,
                format!("{line:?} needs a shell, which the policy does not allow; name a program"),
            ));
        };
        let mut output = Vec::new();
        let mut last = None;
        for Program { argv, environment } in programs {
            let added: BTreeMap<String, String> = environment.into_iter().collect();
            let environment = context.environment.with(&added)?;
            let mut outcome = run_argv(&context, line, argv, environment).await?;
            output.append(&mut outcome.output);
            let failed = !outcome.success;
            last = Some(outcome);
            if failed {
                break;
            }
        }
        let mut outcome = last.ok_or_else(|| {
            ToolError::new(ErrorCode::ProgramNotFound, format!("{line:?} names no program"))
        })?;
        outcome.output = output;
        Ok(outcome)
    }

    /// Runs the project's own tests; missing tests are recorded as skipped, never as passed.
    pub(super) async fn run_project_tests(&self, call_id: Uuid) -> Result<ToolOutcome, ToolError> {
        let context = self.context(call_id);
        let (workspace, environment) = (context.workspace()?, Arc::clone(&context.environment));
        let found = blocking(move || project::test_command(&workspace, &environment)).await?;
        let Some(argv) = found else {
            let mut outcome = ToolOutcome::done(
                "skipped: the project names no test command",
                Vec::new(),
                vec![ProjectTests::skipped()],
            );
            // No test ran, so nothing is proven.
            outcome.success = false;
            return Ok(outcome);
        };
        let request = CommandRequest {
            command: Command::Argv(argv),
            folder: context.workspace()?.folder(&RelPath::root())?,
            environment: Environment::clone(&context.environment),
        };
        let runs = self.test_runs(&request.command).await?;
        let finished = process::run(&context, &request).await?;
        let mut outcome = outcome(request.command, finished);
        add_counts(&mut outcome, runs);
        Ok(outcome)
    }
}

/// Runs a program of a line. The fact has the whole line.
async fn run_argv(
    context: &ToolContext,
    line: &str,
    argv: Vec<String>,
    environment: Environment,
) -> Result<ToolOutcome, ToolError> {
    let request = CommandRequest {
        command: Command::Argv(argv),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment,
    };
    let finished = process::run(context, &request).await?;
    Ok(outcome(Command::Line(line.to_owned()), finished))
}
