//! Clients in other languages, from code generated from the protos, over every conformance row
//! against live services.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::Path;
use surety_common::wire::token::Token;
use surety_e2e::agent::{PERSON, secret, token_file};
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Database, Deployment, TOKEN};
use surety_e2e::skips;
use tokio::process::Command;

/// What the script ends with where the language is not installed.
const ABSENT: i32 = 77;

async fn run_client(language: &str) -> Result<()> {
    let deployment = Deployment::start().await?;
    let executor = deployment.executors.first().context("no executor runs")?;
    let environment = [
        ("SURETY_PLANNER", deployment.planner.address()),
        ("SURETY_EXECUTOR", executor.address()),
        ("SURETY_GATE", deployment.gate.address()),
        ("SURETY_TOKEN", TOKEN),
    ];
    run_script(&[language], &environment).await?;
    deployment.database.drop().await
}

/// Runs scripts/clients.sh with the addresses of services.
async fn run_script(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let what = arguments.join(" ");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ran = Command::new(root.join("scripts/clients.sh"))
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().last().unwrap_or_default();
    // Past the test's own capture: a client that is skipped must be seen to be.
    writeln!(std::io::stderr(), "{what} client: {last}")?;
    let skipped = ran.status.code() == Some(ABSENT);
    if skipped {
        skips::note(&format!("client {what}"), last.trim_start_matches("skipped: "))?;
    }
    ensure!(ran.status.success() || skipped, "{what}:\n{said}\n{errors}");
    Ok(())
}

#[tokio::test]
async fn a_python_client_meets_every_outcome() -> Result<()> {
    run_client("python").await
}

/// A driver counts as lost after this time without a heartbeat.
const LEASE: (&str, &str) = ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "3000");

#[tokio::test]
async fn the_python_package_works_from_its_wheel() -> Result<()> {
    run_package("python-package").await
}

#[tokio::test]
async fn the_typescript_package_works_from_its_archive() -> Result<()> {
    run_package("typescript-package").await
}

/// A worker counts as lost after this time without a message.
const WORKER_LEASE: (&str, &str) = ("SURETY_EXECUTOR_WORKER_LEASE_MS", "3000");

/// Runs the tests of a package over services that know a person, drivers and a worker.
async fn run_package(package: &str) -> Result<()> {
    let tokens = token_file()?;
    let known = tokens.path().to_string_lossy().into_owned();
    let common = [("SURETY_TOKEN_FILE", known.as_str()), LEASE, WORKER_LEASE];
    let mut deployment = Deployment::start_idle(Database::create().await?, &common).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let (planner, executor) = (deployment.planner.url(), deployment.first_executor()?.url());
    let environment = [
        ("SURETY_URL", planner.as_str()),
        ("SURETY_EXECUTOR_URL", &executor),
        ("SURETY_TOKEN_FILE", &known),
    ];
    run_script(&[package], &environment).await?;
    deployment.finish().await
}

#[tokio::test]
async fn the_python_package_calls_services_over_tls() -> Result<()> {
    run_package_over_tls("python-package").await
}

#[tokio::test]
async fn the_typescript_package_calls_services_over_tls() -> Result<()> {
    run_package_over_tls("typescript-package").await
}

async fn run_package_over_tls(package: &str) -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let tokens = token_file()?;
    let known = tokens.path().to_string_lossy().into_owned();
    let certificates = ours.environment("port")?;
    let mut common: Vec<_> =
        certificates.iter().map(|(name, value)| (*name, value.as_str())).collect();
    common.push(("SURETY_TOKEN_FILE", &known));
    let mut deployment = Deployment::start_idle(Database::create().await?, &common).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let gate_url = format!("https://{}", deployment.gate.address());
    deployment.add_executor(&[("SURETY_GATE_URL", &gate_url)]).await?;
    let planner = format!("https://{}", deployment.planner.address());
    let executor = format!("https://{}", deployment.first_executor()?.address());
    let authority = ours.path("ca.pem").to_string_lossy().into_owned();
    let environment = [
        ("SURETY_URL", planner.as_str()),
        ("SURETY_EXECUTOR_URL", &executor),
        ("SURETY_TOKEN_FILE", &known),
        ("SURETY_TLS_CA_FILE", &authority),
    ];
    run_script(&[package, "over_tls"], &environment).await?;
    deployment.finish().await
}

#[tokio::test]
async fn a_typescript_client_meets_every_outcome() -> Result<()> {
    run_client("typescript").await
}

/// What runs code in other languages: a script, its argument, and the skip that it notes itself.
const SCRIPTS: [(&str, &str, &str); 6] = [
    ("attestations.sh", "", "attestations: python3 is not installed\n"),
    ("clients.sh", "python", ""),
    ("clients.sh", "typescript", ""),
    ("clients.sh", "python-package", ""),
    ("stubs.sh", "python", ""),
    ("stubs.sh", "typescript", ""),
];

#[test]
fn what_runs_other_languages_is_skipped_without_them_and_fails_on_ci() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let found = ["/usr/bin/dirname", "/bin/dirname"].into_iter().find(|it| Path::new(it).exists());
    std::os::unix::fs::symlink(found.context("no dirname")?, folder.path().join("dirname"))?;
    for (script, language, note) in SCRIPTS {
        let skips = tempfile::NamedTempFile::new()?;
        for (ci, code) in [("", ABSENT), ("true", 1), ("1", 1)] {
            let ended = std::process::Command::new("/bin/bash")
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(script))
                .arg(language)
                .env("PATH", folder.path())
                .env("SURETY_TEST_SKIPS", skips.path())
                .env("CI", ci)
                .output()?;
            let is_expected = ended.status.code() == Some(code);
            ensure!(is_expected, "{script} {language}, CI={ci:?}: {ended:?}");
        }
        ensure!(std::fs::read_to_string(skips.path())? == note, "{script} {language}");
    }
    Ok(())
}
