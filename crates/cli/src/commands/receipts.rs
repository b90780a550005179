//! `surety receipts export RUN`, `surety receipts verify FILE`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::{ChainFinding, ChainReport, check_export};
use surety_common::wire::v1;
use surety_common::wire::v1::export_receipts_response::Line;
use tonic::Request;

use super::named_run::NamedRun;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan_file::read_text_within;
use crate::text::{count, one_line};
use crate::wire_json::{object, text};

/// An export grows with its run: this fits some hundred thousand receipts.
const MOST_BYTES: u64 = 1 << 30;

/// Exports a run's receipts, and checks an export without a service.
#[derive(Debug, Args)]
pub struct Receipts {
    #[command(subcommand)]
    command: ReceiptsCommand,
}

#[derive(Debug, Subcommand)]
enum ReceiptsCommand {
    /// Write a run's receipts, one line of JSON each, and the chain's end as the last line.
    Export {
        #[command(flatten)]
        named: NamedRun,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Check an export: every digest, every link, and the chain's end.
    #[command(after_help = Exit::help())]
    Verify {
        /// The export file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

impl Receipts {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            ReceiptsCommand::Export { named, client } => export(&named, &client, output).await,
            ReceiptsCommand::Verify { file } => {
                let lines = read_text_within(&file, MOST_BYTES)?;
                verify(&check_export(&lines), output)
            }
        }
    }
}

async fn export(named: &NamedRun, client: &ClientConfig, output: Output) -> Result<Exit, Failure> {
    let (connection, run_id) = named.find(client).await?;
    let failure = |status: tonic::Status| connection.failure(&status);
    let request = Request::new(v1::ExportReceiptsRequest { run_id });
    let answer = connection.runs().export_receipts(request).await.map_err(failure)?;
    let mut stream = answer.into_inner();
    while let Some(item) = stream.message().await.map_err(failure)? {
        if let Some(Line::EnvelopeJson(line) | Line::ReceiptJson(line) | Line::EndJson(line)) =
            item.line
        {
            output.line(&line)?;
        }
    }
    Ok(Exit::Done)
}

fn verify(report: &ChainReport, output: Output) -> Result<Exit, Failure> {
    output.either(&value(report), || as_text(report))?;
    Ok(if report.is_whole() { Exit::Done } else { Exit::NotAccepted })
}

fn value(report: &ChainReport) -> Value {
    let ChainReport { receipt_count, chain_digest, findings } = report;
    let finding = |ChainFinding { seq, message }: &ChainFinding| {
        object([("seq", Value::Number(seq.to_string())), ("message", text(message))])
    };
    object([
        ("valid", Value::Bool(report.is_whole())),
        ("receipt_count", Value::Number(receipt_count.to_string())),
        ("chain_digest", text(chain_digest)),
        ("findings", Value::Array(findings.iter().map(finding).collect())),
    ])
}

fn as_text(report: &ChainReport) -> String {
    let receipts = count(report.receipt_count, "receipt");
    if report.is_whole() {
        let digest = one_line(&report.chain_digest);
        return format!("the chain of {receipts} is valid\ndigest  {digest}\nnot signed");
    }
    let mut lines = vec![format!("the chain of {receipts} is broken")];
    lines.extend(report.findings.iter().map(|ChainFinding { seq, message }| match seq {
        0 => one_line(&format!("  the chain: {message}")),
        seq => one_line(&format!("  receipt {seq}: {message}")),
    }));
    lines.join("\n")
}
