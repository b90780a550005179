//! `surety receipts export RUN`, `surety receipts verify FILE`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::{ChainFinding, ChainReport};
use surety_common::domain::signature::{
    EvidenceReport, SignatureStatus, check_export, compare_exports,
};
use surety_common::keys::read_trusted_keys;
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
    /// Write a run's evidence, one line of JSON each: receipts, signatures and proofs, verdicts, and the chain's end.
    Export {
        #[command(flatten)]
        named: NamedRun,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Check an export: every digest, every link, every signature, and the chain's end.
    #[command(after_help = Exit::help())]
    Verify {
        /// The export file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// The trusted keys, as `surety keys export` writes them. With it the file must be signed as a whole.
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,

        /// An earlier export of the same run: what it has and this one lacks was rolled back or deleted.
        #[arg(long, value_name = "FILE")]
        since: Option<PathBuf>,
    },
}

impl Receipts {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            ReceiptsCommand::Export { named, client } => export(&named, &client, output).await,
            ReceiptsCommand::Verify { file, keys, since } => {
                let lines = read_text_within(&file, MOST_BYTES)?;
                let keys = keys.map(|path| read_trusted_keys(&path)).transpose()?;
                let mut report = check_export(&lines, keys.as_ref());
                if let Some(since) = since {
                    let earlier = read_text_within(&since, MOST_BYTES)?;
                    let missing = compare_exports(&lines, &earlier).into_iter();
                    let found = missing.map(|message| ChainFinding { seq: 0, message });
                    report.chain.findings.extend(found);
                }
                verify(&report, keys.is_some(), output)
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
        if let Some(
            Line::EnvelopeJson(line)
            | Line::ReceiptJson(line)
            | Line::EvidenceJson(line)
            | Line::EndJson(line),
        ) = item.line
        {
            output.line(&line)?;
        }
    }
    Ok(Exit::Done)
}

/// With keys, only what they signed as a whole is valid.
fn verify(report: &EvidenceReport, with_keys: bool, output: Output) -> Result<Exit, Failure> {
    let signed = report.status == SignatureStatus::Signed;
    let valid = report.chain.is_whole() && (signed || !with_keys);
    output.either(&value(report, valid), || as_text(report))?;
    Ok(if valid { Exit::Done } else { Exit::NotAccepted })
}

fn status(report: &EvidenceReport) -> (&'static str, &str) {
    match &report.status {
        SignatureStatus::Signed => ("signed", ""),
        SignatureStatus::Unsigned(why) => ("unsigned", why),
        SignatureStatus::Broken(place) => ("broken", place),
    }
}

fn value(report: &EvidenceReport, valid: bool) -> Value {
    let ChainReport { receipt_count, chain_digest, findings } = &report.chain;
    let finding = |ChainFinding { seq, message }: &ChainFinding| {
        object([("seq", Value::Number(seq.to_string())), ("message", text(message))])
    };
    let (state, detail) = status(report);
    object([
        ("valid", Value::Bool(valid)),
        ("signatures", text(state)),
        ("detail", text(detail)),
        ("receipt_count", Value::Number(receipt_count.to_string())),
        ("signed_receipt_count", Value::Number(report.signed_receipt_count.to_string())),
        ("chain_digest", text(chain_digest)),
        ("findings", Value::Array(findings.iter().map(finding).collect())),
    ])
}

fn as_text(report: &EvidenceReport) -> String {
    let chain = &report.chain;
    let receipts = count(chain.receipt_count, "receipt");
    if chain.is_whole() {
        let digest = one_line(&chain.chain_digest);
        let signed = match status(report) {
            ("signed", _) => "signed by trusted keys".to_owned(),
            (state, why) => format!("{state}: {}", one_line(why)),
        };
        return format!("the chain of {receipts} is valid\ndigest  {digest}\n{signed}");
    }
    let mut lines = vec![format!("the evidence with {receipts} is broken")];
    lines.extend(chain.findings.iter().map(|ChainFinding { seq, message }| match seq {
        0 => one_line(&format!("  {message}")),
        seq => one_line(&format!("  receipt {seq}: {message}")),
    }));
    lines.join("\n")
}
