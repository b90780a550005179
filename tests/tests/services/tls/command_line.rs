//! The command line over TLS, `surety up` with it, and the certificates of Compose.

use crate::tls::processes::borrowed;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Database, PATIENCE, Process, Service, TOKEN, binary};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test]
async fn the_certificates_of_compose_serve_the_command_line() -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/docker/certificates.sh");
    let (authority, folder) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let issue = || async {
        let mut command = Command::new(&script);
        command.arg(authority.path()).arg(folder.path()).args(["planner", "acceptgate"]);
        let output = command.output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let said = issue().await?;
    ensure!(said.contains("created an authority") && said.contains("for acceptgate"), "{said}");
    ensure!(issue().await?.is_empty(), "valid files are kept");
    std::fs::remove_file(folder.path().join("acceptgate.pem"))?;
    let said = issue().await?;
    ensure!(said.contains("for acceptgate") && !said.contains("for planner"), "{said}");

    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let ca = path("ca.pem");
    let variables = [
        ("SURETY_TLS_CERT_FILE", path("acceptgate.pem")),
        ("SURETY_TLS_KEY_FILE", path("acceptgate.key")),
    ];
    let process = Process::start_stateless(Service::Gate, &borrowed(&variables)).await?;
    let url = format!("https://{}", process.address());
    let health = Command::new(binary("surety")?)
        .args(["health", &url])
        .env("SURETY_TLS_CA_FILE", &ca)
        .output()
        .await?;
    ensure!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
    let health = Command::new(binary("surety")?)
        .args(["health", &url])
        .env_remove("SURETY_TLS_CA_FILE")
        .output()
        .await?;
    let said = String::from_utf8_lossy(&health.stderr);
    ensure!(!health.status.success() && said.contains("UnknownIssuer"), "{said}");
    Ok(())
}

#[tokio::test]
async fn the_command_line_sends_its_token_over_tls_and_not_without_it() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let database = Database::create().await?;
    let planner =
        Process::start(Service::Planner, &database, &borrowed(&ours.environment("port")?)).await?;
    let token = ours.write("token", TOKEN)?;
    let runs = |url: String| {
        let mut command = Command::new(binary("surety")?);
        command.args(["runs", "--url", &url, "--token-file"]).arg(&token);
        command.arg("--tls-ca-file").arg(ours.path("ca.pem"));
        Ok::<_, anyhow::Error>(command)
    };
    let listed = runs(format!("https://{}", planner.address()))?.output().await?;
    ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let refused = runs("http://planner.test:7401".to_owned())?.output().await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1), "{said}");
    for part in ["error[plaintext_refused]", "planner.test", "SURETY_PLAINTEXT_PEERS"] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    drop(planner);
    database.drop().await
}

#[tokio::test]
async fn up_serves_the_command_line_over_tls_with_the_address_in_its_folder() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let environment = ours.environment("port")?;
    let ports = ["PLANNER", "EXECUTOR", "GATE"].map(|name| format!("SURETY_{name}_LISTEN"));
    let folder = tempfile::Builder::new().prefix("surety-up-").tempdir_in("/tmp")?;
    let enterable = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folder.path(), enterable)?;
    let command = |words: &[&str]| -> Result<Command> {
        let mut command = Command::new(binary("surety")?);
        command.args(words).arg("--data-dir").arg(folder.path().join("data"));
        for name in ["SURETY_URL", "SURETY_TOKEN_FILE", "DATABASE_URL"] {
            command.env_remove(name);
        }
        Ok(command)
    };
    let mut up = command(&["up"])?
        .envs(ports.map(|name| (name, "127.0.0.1:0")))
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(up.stdout.take().context("its output")?).lines();
    let first = timeout(PATIENCE, lines.next_line()).await??.context("a line")?;
    ensure!(first.starts_with("surety is up at https://127.0.0.1:"), "{first}");
    let listed =
        command(&["runs"])?.env("SURETY_TLS_CA_FILE", ours.path("ca.pem")).output().await?;
    ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let plan = folder.path().join("plan.yaml");
    std::fs::write(
        &plan,
        "title: t\nsteps: [{id: a, description: a, script: [{name: list_dir, arguments: {}}]}]\n",
    )?;
    for own in ["", "keys", "postgres", "executor"] {
        let workspace = folder.path().join("data").join(own);
        let mut run = command(&["run"])?;
        run.arg(&plan).arg("--workspace").arg(&workspace);
        let refused = run.env("SURETY_TLS_CA_FILE", ours.path("ca.pem")).output().await?;
        let said = [refused.stdout, refused.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(!refused.status.success() && said.contains("which the service keeps"), "{said}");
    }
    kill(Pid::from_raw(i32::try_from(up.id().context("it runs")?)?), Signal::SIGTERM)?;
    ensure!(timeout(PATIENCE, up.wait()).await??.success());
    Ok(())
}

#[tokio::test]
async fn config_check_loads_the_certificates_and_shows_their_settings() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let environment = ours.environment("port")?;
    let check = |key: &str| -> Result<Command> {
        let mut command = Command::new(binary("surety")?);
        command.args(["config", "check"]);
        command.envs(environment.iter().map(|(name, value)| (*name, value)));
        command.env("SURETY_TLS_KEY_FILE", ours.path(key));
        Ok(command)
    };
    let shown = check("port.key")?.output().await?;
    let said = String::from_utf8_lossy(&shown.stdout);
    ensure!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    for part in ["SURETY_TLS_CERT_FILE", "port.pem", "port.key", "SURETY_PLAINTEXT_PEERS"] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    ensure!(!said.contains("PRIVATE KEY"), "{said}");
    let refused = check("missing.key")?.output().await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1), "{said}");
    ensure!(said.contains("error[setting_invalid]") && said.contains("missing.key"), "{said}");
    Ok(())
}
