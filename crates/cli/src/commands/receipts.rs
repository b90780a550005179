//! `surety receipts export RUN`, `surety receipts verify FILE`

use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use clap::{Args, Subcommand};
use surety_common::config::{ClientConfig, ConfigError};
use surety_common::domain::json::Value;
use surety_common::domain::receipt::{ChainFinding, ChainReport};
use surety_common::domain::signature::{
    AnchoredVerdict, EvidenceReport, SignatureStatus, TrustedKeys, check_export, instant,
    is_about_a_verdict, missing_since, verdicts_end_line,
};
use surety_common::domain::timestamp::TsaCertificate;
use surety_common::keys::read_trusted_keys;
use surety_common::wire::v1;
use surety_common::wire::v1::export_receipts_response::Line;
use tonic::Request;

use super::named_run::NamedRun;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::{read_bytes_within, read_text_within};
use crate::text::{count, one_line};
use crate::wire_json::{object, text};

/// An export grows with its run: this fits some hundred thousand receipts.
const MOST_BYTES: u64 = 1 << 30;
/// A larger file holds no certificate.
const MOST_CERTIFICATE_BYTES: u64 = 64 << 10;

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

        /// Write the signed statements about the run's verdicts only. Kept elsewhere, they show a later rollback.
        #[arg(long)]
        verdicts: bool,

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

        /// What was taken of the run earlier: an export, its verdicts (`surety receipts export --verdicts`), or an
        /// anchor. What it has and this export lacks was rolled back or deleted. May be given several times.
        #[arg(long, value_name = "FILE")]
        since: Vec<PathBuf>,

        /// The certificate of the time-stamp authority (PEM). With it the time stamps of anchors are checked.
        #[arg(long, value_name = "FILE", requires = "keys")]
        tsa_certificate: Option<PathBuf>,
    },
}

impl Receipts {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            ReceiptsCommand::Export { named, verdicts, client } => {
                export(&named, verdicts, &client, output).await
            }
            ReceiptsCommand::Verify { file, keys, since, tsa_certificate } => {
                let bytes = read_bytes_within(&file, MOST_BYTES)?;
                let keys = keys.map(|path| trusted_keys(&path)).transpose()?;
                let keys = match (keys, tsa_certificate) {
                    (Some(keys), Some(path)) => Some(keys.with_time_authority(authority(&path)?)),
                    (keys, _) => keys,
                };
                let lines = match String::from_utf8(bytes) {
                    Ok(lines) => lines,
                    Err(error) => return verify(&unread(&error), keys.is_some(), output),
                };
                let mut report = check_export(&lines, keys.as_ref());
                for path in since {
                    let earlier = read_text_within(&path, MOST_BYTES)?;
                    let missing = missing_since(&lines, &earlier, keys.as_ref());
                    let missing = missing.map_err(|why| unusable_since(&path, &why))?.into_iter();
                    missing.for_each(|message| report.find(message));
                }
                verify(&report, keys.is_some(), output)
            }
        }
    }
}

/// The report on bytes that are no text: a place that does not read is broken as any other.
fn unread(error: &FromUtf8Error) -> EvidenceReport {
    let whole = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
    let line = whole.filter(|byte| **byte == b'\n').count() + 1;
    let status = SignatureStatus::Unsigned(String::new());
    let chain = ChainReport::default();
    let mut report = EvidenceReport { chain, signed_receipt_count: 0, status, anchors: Vec::new() };
    report.find(format!("line {line}: it is not UTF-8 text"));
    report
}

/// The keys of `--keys`.
fn trusted_keys(path: &Path) -> Result<TrustedKeys, Failure> {
    read_trusted_keys(path).map_err(|error| {
        let ConfigError::TrustedKeysUnusable { path, why } = error else { return error.into() };
        let message = format!("the file {} of --keys {why}", path.display());
        Failure::new(Code::FileUnusable, message, "Name a file that `surety keys export` wrote.")
    })
}

/// The certificate of a time-stamp authority in a file.
fn authority(path: &Path) -> Result<TsaCertificate, Failure> {
    let text = read_text_within(path, MOST_CERTIFICATE_BYTES)?;
    TsaCertificate::from_pem(&text).map_err(|error| {
        let message = format!("{} cannot be used: {error}", path.display());
        let advice = "Give the authority's own certificate as PEM, not that of its issuer.";
        Failure::new(Code::ValueInvalid, message, advice).at("--tsa-certificate")
    })
}

fn unusable_since(path: &Path, why: &str) -> Failure {
    let message = format!("{} cannot be compared: {why}", path.display());
    let advice = "Give an earlier export, verdicts or an anchor of the same run.";
    Failure::new(Code::ValueInvalid, message, advice).at("--since")
}

async fn export(
    named: &NamedRun,
    verdicts: bool,
    client: &ClientConfig,
    output: Output,
) -> Result<Exit, Failure> {
    let (connection, run_id) = named.find(client).await?;
    let failure = |status: tonic::Status| connection.failure(&status);
    let request = Request::new(v1::ExportReceiptsRequest { run_id: run_id.clone() });
    let answer = connection.runs().export_receipts(request).await.map_err(failure)?;
    let (mut stream, mut lines) = (answer.into_inner(), 0);
    while let Some(item) = stream.message().await.map_err(failure)? {
        if let Some(
            Line::EnvelopeJson(line)
            | Line::ReceiptJson(line)
            | Line::EvidenceJson(line)
            | Line::EndJson(line),
        ) = item.line
            && (!verdicts || is_about_a_verdict(&line))
        {
            output.line(&line)?;
            lines += 1;
        }
    }
    if verdicts {
        output.line(&verdicts_end_line(&run_id, lines))?;
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
        ("anchors", Value::Array(report.anchors.iter().map(anchor_value).collect())),
    ])
}

fn anchor_value(anchor: &AnchoredVerdict) -> Value {
    let AnchoredVerdict { plan_revision, at, is_checked } = anchor;
    object([
        ("plan_revision", Value::Number(plan_revision.to_string())),
        ("at", text(instant(*at))),
        ("checked", Value::Bool(*is_checked)),
    ])
}

fn anchor_text(anchor: &AnchoredVerdict) -> String {
    let AnchoredVerdict { plan_revision, at, is_checked } = anchor;
    let by = match is_checked {
        true => "by the authority of --tsa-certificate",
        false => "by an authority that was not checked (--tsa-certificate)",
    };
    format!("\nthe verdict on plan revision {plan_revision} was anchored at {}, {by}", instant(*at))
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
        let anchors: String = report.anchors.iter().map(anchor_text).collect();
        return format!("the chain of {receipts} is valid\ndigest  {digest}\n{signed}{anchors}");
    }
    let mut lines = vec![format!("the evidence with {receipts} is broken")];
    lines.extend(chain.findings.iter().map(|ChainFinding { seq, message }| match seq {
        0 => one_line(&format!("  {message}")),
        seq => one_line(&format!("  receipt {seq}: {message}")),
    }));
    lines.join("\n")
}
