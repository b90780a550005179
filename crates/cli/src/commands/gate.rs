//! `surety gate check FILE`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_acceptgate::check::http_probe::Probes;
use surety_acceptgate::stateless::evaluate;
use surety_common::config::GateProbeConfig;
use surety_common::wire::v1;
use surety_common::wire::v1::evaluate_response::Outcome;

use crate::evidence_file::read_evidence_file;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::read_text;
use crate::report;
use crate::text::warning_line;
use crate::wire_json;

/// Evaluates checks and receipts without a service.
#[derive(Debug, Args)]
pub struct Gate {
    #[command(subcommand)]
    command: GateCommand,
}

#[derive(Debug, Subcommand)]
enum GateCommand {
    /// Print the verdict on an evidence file: checks, receipts, todos and the final text.
    #[command(after_help = Exit::help())]
    Check {
        /// The evidence file, YAML or JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        #[command(flatten)]
        probe: GateProbeConfig,
    },
}

impl Gate {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let GateCommand::Check { file, probe } = self.command;
        let evidence =
            read_evidence_file(&read_text(&file)?).map_err(|failure| failure.in_file(&file))?;
        let probes = Probes::new(probe.gate_probe_allow.as_deref())
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        let mut answer: v1::EvaluateResponse = evaluate(evidence.request, &probes).await?.into();
        answer.warnings.splice(0..0, evidence.warnings.into_iter().map(Into::into));
        let value = wire_json::message("EvaluateResponse", &answer);
        match answer.outcome {
            Some(Outcome::Verdict(verdict)) => {
                output.either(&value, || as_text(&answer.warnings, &verdict))?;
                Ok(if verdict.accepted { Exit::Done } else { Exit::NotAccepted })
            }
            Some(Outcome::Problem(problem)) => {
                if output.json {
                    output.value(&value)?;
                }
                Err(problem.into())
            }
            None => Err(Failure::new(Code::Internal, "the gate returned no outcome", "")),
        }
    }
}

fn as_text(warnings: &[v1::Warning], verdict: &v1::Verdict) -> String {
    let mut lines: Vec<_> = warnings.iter().map(warning_line).collect();
    lines.push(report::verdict(verdict));
    lines.join("\n")
}
