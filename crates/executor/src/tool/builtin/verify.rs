//! `verify`: runs a verification command that a user or an operator named.

use crate::tool::builtin::run_command::outcome;
use crate::tool::builtin::support::{read, returning, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::process::{self, CommandRequest};
use crate::tool::{Annotations, Effect, RelPath, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use surety_common::domain::check::Owner;
use surety_common::domain::json::Value;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::{Command, Conditions, Fact};
use surety_common::domain::verification::Verification;
use surety_common::domain::verify_tool::VerifyTool;
use tokio::time::Instant;

/// The tool's name.
pub const NAME: &str = "verify";

/// The verification commands of a run, each with its owner.
pub type VerifyTools = [(Owner, VerifyTool)];

/// Runs a named verification command.
#[derive(Debug)]
pub struct Verify(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    tool: String,
    #[serde(default)]
    scope: String,
}

impl Verify {
    /// The tool. A command may take `default_timeout` where its policy names no other time.
    pub fn new(default_timeout: Duration) -> Self {
        let annotations = Annotations {
            read_only: false,
            destructive: false,
            idempotent: true,
            open_world: true,
        };
        let spec = returning(
            "the output of the command, its exit code and whether it passed as facts",
            spec(
                NAME,
                "Runs one of the run's named verification commands in the workspace, such as lint, and \
                 returns its output. Succeeds when the exit code is 0. It shows beforehand what a \
                 tool_fact check will see; the runner runs the command again before the verdict.",
                annotations,
                json!({
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string", "minLength": 1, "description": "The name of the command; an unknown name is answered with those that the run has."},
                        "scope": {"type": "string", "description": "What the command is limited to, such as a folder; only for commands that take a scope."}
                    },
                    "required": ["tool"],
                    "additionalProperties": false
                }),
            ),
        );
        Self(ToolSpec { default_timeout, ..spec })
    }
}

impl Tool for Verify {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn intend(&self, ctx: &ToolContext, args: &Value) -> Result<Effect, ToolError> {
        named(&ctx.verify_tools, args)?;
        Ok(Effect::Unknown)
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { work(ctx, args).await.unwrap_or_else(ToolOutcome::from) })
    }
}

/// The time limit that the policy gives the command of a call.
pub fn time_limit(tools: &VerifyTools, args: &Value) -> Option<Duration> {
    named(tools, args).ok()?.timeout_s.map(Duration::from_secs)
}

fn named(tools: &VerifyTools, args: &Value) -> Result<Verification, ToolError> {
    let Args { tool, scope } = read(args)?;
    let tools = tools.iter().map(|(owner, tool)| (*owner, tool));
    let refused = |problem: Problem| {
        let is_known = problem.code == Code::VerifyScopeInvalid;
        let code =
            if is_known { ErrorCode::VerifyScopeInvalid } else { ErrorCode::VerifyToolUnknown };
        ToolError::new(code, problem.message)
    };
    let (_, verification) = Verification::of(tools, &tool, &scope).map_err(refused)?;
    Ok(verification)
}

async fn work(ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
    let verification = named(&ctx.verify_tools, args)?;
    let mut ctx = ctx.clone();
    if let Some(seconds) = verification.timeout_s {
        ctx.deadline = ctx.deadline.min(Instant::now() + Duration::from_secs(seconds));
    }
    let request = CommandRequest {
        command: Command::Argv(verification.argv.clone()),
        folder: ctx.workspace()?.folder(&RelPath::root())?,
        environment: ctx.environment.as_ref().clone().keyed(ctx.call_id),
    };
    let finished = process::run(&ctx, &request).await?;
    let mut outcome = outcome(request.command, finished);
    for fact in &mut outcome.facts {
        if let Fact::Command { conditions, .. } = fact {
            let cwd = RelPath::root().text();
            *conditions = Some(Conditions { cwd, ..Conditions::default() });
        }
    }
    outcome.facts.push(verification.fact(outcome.success));
    Ok(outcome)
}
