//! `run_command`: runs a program with arguments, without a shell.

use crate::tool::builtin::support::{here, read, returning, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::process::{self, CommandRequest, Ending, Finished};
use crate::tool::{Annotations, Effect, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::{Command, Conditions, Fact};
use surety_common::domain::verification::network_refused;
use surety_sandbox::LimitHit;

/// What stands for an address of which only the attempt to reach it is known.
const NAMELESS: &str = "an address without a name";

/// The output that names a process that a command left running, and that was killed.
const PROCESSES_LEFT: &str = "processes_left";
/// Processes that are listed; the summary has all.
const MAX_LEFT: usize = 20;

/// The line between the two streams in the output; present only when there is standard error.
pub const STDERR_MARK: &str = "--- standard error ---";

/// The longest time limit that a call may request, in seconds.
const LONGEST_REQUEST_S: u64 = 3600;

/// The tool's name.
pub const NAME: &str = "run_command";

/// Runs a command.
#[derive(Debug)]
pub struct RunCommand(ToolSpec);

#[derive(Debug, Deserialize)]
struct Args {
    #[serde(default)]
    argv: Vec<String>,
    command: Option<String>,
    #[serde(default = "here")]
    cwd: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_s: Option<u64>,
}

impl RunCommand {
    /// The tool. A command may take `default_timeout` where the call asks for no other time.
    pub fn new(default_timeout: Duration) -> Self {
        let seconds = default_timeout.as_secs();
        let annotations = Annotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: true,
        };
        let spec = returning(
            "the output of the command, and its exit code as a fact",
            spec(
                NAME,
                "Runs a program in the workspace with a list of arguments, without a shell, and returns \
             its output: standard output, then standard error after a separator line; whole up to \
             64 MiB, and beyond that its start and its end. \
             Succeeds when the exit code is 0. Background processes that it leaves running are \
             ended. SURETY_IDEMPOTENCY_KEY contains the call's idempotency key, the same \
             when the call is repeated.",
                annotations,
                json!({
                    "type": "object",
                    "properties": {
                        "argv": {
                            "type": "array", "minItems": 1, "items": {"type": "string"},
                            "description": "The program and its arguments, such as [\"cargo\", \"test\"]."
                        },
                        "command": {"type": "string", "minLength": 1, "description": "A line for a shell; only where the policy allows one."},
                        "cwd": {"type": "string", "minLength": 1, "description": "The folder to run in; the root by default."},
                        "env": {
                            "type": "object", "additionalProperties": {"type": "string"},
                            "description": "Additional environment variables. The value secret:NAME stands for a secret that the run may use."
                        },
                        "timeout_s": {"type": "integer", "minimum": 1, "maximum": LONGEST_REQUEST_S, "description": format!("The time limit in seconds; {seconds} by default. The run's limit `command_timeout` wins.")}
                    },
                    "oneOf": [{"required": ["argv"]}, {"required": ["command"]}],
                    "additionalProperties": false
                }),
            ),
        );
        Self(ToolSpec { default_timeout, ..spec })
    }
}

impl Tool for RunCommand {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn intend(&self, ctx: &ToolContext, args: &Value) -> Result<Effect, ToolError> {
        request(ctx, &read(args)?)?;
        Ok(Effect::Unknown)
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { work(ctx, args).await.unwrap_or_else(ToolOutcome::from) })
    }

    fn requested_timeout(&self, args: &Value) -> Option<Duration> {
        let asked: Args = read(args).ok()?;
        asked.timeout_s.map(|seconds| Duration::from_secs(seconds.min(LONGEST_REQUEST_S)))
    }
}

async fn work(ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
    let args: Args = read(args)?;
    let request = request(ctx, &args)?;
    let finished = process::run(ctx, &request).await?;
    let mut outcome = outcome(request.command, finished);
    let ran = conditions(ctx, &args)?;
    for fact in &mut outcome.facts {
        if let Fact::Command { conditions, .. } = fact {
            *conditions = Some(ran.clone());
        }
    }
    Ok(outcome)
}

fn conditions(ctx: &ToolContext, args: &Args) -> Result<Conditions, ToolError> {
    let environment = args.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let cwd = ctx.workspace()?.locate(&args.cwd)?.text();
    Ok(Conditions { cwd, environment, ..Conditions::default() })
}

fn request(ctx: &ToolContext, args: &Args) -> Result<CommandRequest, ToolError> {
    let command = match &args.command {
        None => Command::Argv(args.argv.clone()),
        Some(line) if ctx.shell_allowed => Command::Line(line.clone()),
        Some(_) => {
            let message =
                "a command line needs a shell; pass the program and its arguments as argv";
            return Err(ToolError::new(ErrorCode::ShellNotAllowed, message));
        }
    };
    let folder = ctx.workspace()?.locate(&args.cwd)?;
    Ok(CommandRequest {
        command,
        folder: ctx.workspace()?.folder(&folder)?,
        environment: ctx.environment.with_secrets(&args.env, &ctx.secrets)?.keyed(ctx.call_id),
    })
}

/// The outcome of a command that ended, also for the runner's own commands.
pub fn outcome(command: Command, finished: Finished) -> ToolOutcome {
    let said = match &command {
        Command::Argv(argv) => argv.join(" "),
        Command::Line(line) => line.clone(),
    };
    let code = finished.exit_code;
    let note = note(&finished);
    let failure = match finished.ending {
        Ending::Itself if finished.limit.is_some() => {
            let limit = finished.limit.map_or("", LimitHit::as_str);
            let what = format!("was ended at its sandbox's limit of {limit}");
            Some((ErrorCode::ResourceLimit, what))
        }
        Ending::Itself if code == 0 => None,
        Ending::Itself => Some((ErrorCode::CommandFailed, format!("ended with {code}"))),
        Ending::Deadline => Some((ErrorCode::Timeout, "was ended at its deadline".to_owned())),
        Ending::Cancel => Some((ErrorCode::Cancelled, "was cancelled".to_owned())),
    };
    let mut facts = vec![Fact::Command { command, exit_code: code, conditions: None }];
    if code != 0 {
        let refused = finished.hosts_refused.iter();
        facts.extend(refused.map(|host| network_refused(host)));
        if finished.network_refused && finished.hosts_refused.is_empty() {
            facts.push(network_refused(NAMELESS));
        }
    }
    let left = finished.left.iter().take(MAX_LEFT);
    facts.extend(left.map(|left| Fact::of_output(PROCESSES_LEFT, left.name.as_str())));
    let output = joined(finished.stdout, &finished.stderr);
    let outcome = match failure {
        None => ToolOutcome::done(format!("{said}: ended with 0{note}"), output, facts),
        Some((code, what)) => {
            let error = ToolError::new(code, format!("{said}: {what}{note}"));
            ToolOutcome::failed(error, output, facts)
        }
    };
    ToolOutcome { sandbox: finished.sandbox, ..outcome }
}

/// Further facts about an ended command.
fn note(finished: &Finished) -> String {
    let mut note = String::new();
    if !finished.left.is_empty() {
        let names: Vec<_> = finished.left.iter().map(|left| left.name.as_str()).collect();
        note.push_str(&format!("; background processes were killed: {}", names.join(", ")));
    }
    if finished.left_out > 0 {
        note.push_str(&format!("; {} bytes of its output are not stored", finished.left_out));
    }
    if finished.exit_code != 0 && !finished.hosts_refused.is_empty() {
        let hosts = finished.hosts_refused.join(", ");
        note.push_str(&format!("; it tried to reach {hosts}, which policy.network does not allow"));
    } else if finished.exit_code != 0 && finished.network_refused {
        note.push_str("; it tried to connect to the network, which policy.network does not allow");
    }
    note
}

fn joined(mut output: Vec<u8>, errors: &[u8]) -> Vec<u8> {
    if errors.is_empty() {
        return output;
    }
    if !output.is_empty() && !output.ends_with(b"\n") {
        output.push(b'\n');
    }
    output.extend_from_slice(STDERR_MARK.as_bytes());
    output.push(b'\n');
    output.extend_from_slice(errors);
    output
}
