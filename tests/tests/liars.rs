//! False claims are refused, and honest runs are accepted.
//!
//! `SURETY_LIARS=all` plays every case, `SURETY_LIARS=waiting` those that wait for a mechanism; without
//! it a part of every kind is played. Arguments are parts of the ids of cases; `--verbose` says how each
//! came out.
//!
//! Without libtest around it, so that what it prints ends with its closing line.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::ExitCode;
use surety_common::wire::token::Token;
use surety_e2e::agent;
use surety_e2e::harness::Deployment;
use surety_e2e::liars::case::Part;
use surety_e2e::liars::modelled::{MODEL, Models};
use surety_e2e::liars::report::Report;
use surety_e2e::liars::{Form, play_all};
use tempfile::NamedTempFile;

/// The one test that this program is.
const NAME: &str = "false_claims_are_refused_and_honest_runs_accepted";

/// What the cases amount to at least, so that none is lost unseen.
const LEAST_CASES: [(Part, usize); 3] =
    [(Part::Lies, 422), (Part::Honest, 240), (Part::Isolation, 16)];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    if flag("--list") {
        if !flag("--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filters = arguments.iter().filter(|argument| !argument.starts_with('-'));
    // A filter of another test than this one names no case.
    let filters: Vec<String> = filters.filter(|filter| !NAME.contains(*filter)).cloned().collect();
    if flag("--ignored") {
        return ExitCode::SUCCESS;
    }
    match play(&filters, flag("--verbose")).await {
        Ok(report) if report.wrong.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("liars: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Services that know a person, agents, a worker and a model, and the files that they read at their start.
async fn deployed(models: &Models) -> Result<(Deployment, [NamedTempFile; 2])> {
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let servers = NamedTempFile::new()?;
    std::fs::write(servers.path(), mcp_servers())?;
    let file = servers.path().to_string_lossy().into_owned();
    let repositories = format!("file://{}", std::env::temp_dir().display());
    let environment = [
        ("SURETY_TOKEN_FILE", path.as_str()),
        ("SURETY_EXECUTOR_MCP", &file),
        ("SURETY_EXECUTOR_REPOSITORIES", &repositories),
        ("SURETY_MODEL_URL", &models.url()),
        ("SURETY_MODEL_NAME", MODEL),
    ];
    let mut deployment = Deployment::start_with(&environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    Ok((deployment, [tokens, servers]))
}

/// A server whose tools have the safe annotations, and the same one declared read-only.
fn mcp_servers() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/mcp_tools");
    let (script, folder) = (folder.join("server.py"), folder.display());
    // One that a version manager puts before it is slow to start.
    let system = "/usr/bin/python3";
    let python = if Path::new(system).exists() { system } else { "python3" };
    let server = |name: &str, more: &str| {
        format!(
            "[mcp.{name}]\ncommand = [\"{python}\", {:?}, \"--marks\", \"/tmp\"]\nread_only = [\"{folder}\"]\n\
             namespaces = [\"*\"]\n{more}",
            script.display().to_string()
        )
    };
    server("helper", "") + &server("reader", "[mcp.reader.tools.write]\nread_only = true\n")
}

async fn play(filters: &[String], verbose: bool) -> Result<Report> {
    let form = match std::env::var("SURETY_LIARS").as_deref() {
        Ok("all") => Form::All,
        Ok("waiting") => Form::Waiting,
        Ok(_) | Err(_) => Form::Short,
    };
    let models = Models::start().await?;
    let (deployment, _files) = deployed(&models).await?;
    let report = play_all(&deployment, &models, form, filters).await?;
    if form == Form::Waiting {
        println!("right without their mark: {}", report.right().join(", "));
    }
    if verbose {
        println!("{}", report.played.join("\n"));
    }
    // Before the audit, whose findings must not hide it.
    println!("{report}");
    deployment.finish().await?;
    for (part, least) in LEAST_CASES {
        let found = report.known.get(&part).copied().unwrap_or_default();
        ensure!(found >= least, "{} has {found} cases, expected {least}", part.as_str());
    }
    Ok(report)
}
