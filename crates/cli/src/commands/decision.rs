//! `surety decision check FILE`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_common::wire::v1;
use surety_common::wire::v1::parse_decision_response::Outcome;
use surety_executor::stateless::read_decision;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan_file::read_text;
use crate::text::{action, harmless, one_line, warning_line};
use crate::wire_json;

/// Checks decisions without a service.
#[derive(Debug, Args)]
pub struct Decision {
    #[command(subcommand)]
    command: DecisionCommand,
}

#[derive(Debug, Subcommand)]
enum DecisionCommand {
    /// Print the decision in a driver's text, and the corrections of the reader.
    Check {
        /// The text as the driver wrote it; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

impl Decision {
    pub(super) fn run(self, output: Output) -> Result<Exit, Failure> {
        let DecisionCommand::Check { file } = self.command;
        let read = read_decision(&read_text(&file)?);
        let value = wire_json::message("ParseDecisionResponse", &read);
        if let Some(Outcome::Problem(problem)) = read.outcome {
            if output.json {
                output.value(&value)?;
            }
            return Err(problem.into());
        }
        output.either(&value, || as_text(&read))?;
        Ok(Exit::Done)
    }
}

fn as_text(read: &v1::ParseDecisionResponse) -> String {
    let mut lines: Vec<_> = read.warnings.iter().map(warning_line).collect();
    match &read.outcome {
        Some(Outcome::Decision(decision)) => lines.extend(decision_lines(decision)),
        Some(Outcome::Control(control)) => {
            lines.push("replan: the step fails, and the plan is replaced".to_owned());
            lines.extend(named("reason", &control.reason));
        }
        Some(Outcome::Problem(_)) | None => {}
    }
    lines.join("\n")
}

fn decision_lines(decision: &v1::ExecuteDecision) -> Vec<String> {
    let mut lines = vec![action(decision.action())];
    if let Some(call) = &decision.tool_call {
        lines.extend(named("tool", &call.name));
        lines.extend(named("arguments", &call.arguments_json));
    }
    if let Some(abort) = &decision.abort {
        lines.extend(named("code", &abort.code));
        lines.extend(named("message", &abort.user_message));
        lines.extend(named("internal", &abort.internal_reason));
    }
    let texts = [
        ("speak", &decision.speak),
        ("reason", &decision.reason),
        ("goal_check", &decision.goal_check),
    ];
    lines.extend(texts.into_iter().filter_map(|(name, text)| named(name, text)));
    lines
}

fn named(name: &str, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("  {name:<10} {}", one_line(&harmless(text))))
}
