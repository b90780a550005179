//! A Postgres that accepts connections with TLS only.

use anyhow::{Context, Result, ensure};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surety_cli::postgres::Binaries;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE, Process, Service};
use surety_e2e::script;

/// A server on TCP, on the data folder of a cluster that was stopped.
struct Server {
    process: Child,
    port: u16,
    _cluster: Cluster,
}

impl Server {
    async fn start(ours: &Authority) -> Result<Self> {
        ours.issue("postgres", "localhost", VALID)?;
        let mut cluster = Cluster::start().await?;
        let (user, group) = cluster.account()?;
        let data = cluster.socket_folder().with_file_name("cluster");
        cluster.stop().await?;
        for name in ["postgres.pem", "postgres.key"] {
            let copy = data.join(name);
            std::fs::copy(ours.path(name), &copy)?;
            chown(&copy, Some(user), Some(group))?;
        }
        std::fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(Binaries::find(None, None)?.program("postgres"));
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "ssl=on",
            "ssl_cert_file=postgres.pem",
            "ssl_key_file=postgres.key",
            "fsync=off",
        ] {
            command.args(["-c", setting]);
        }
        if nix::unistd::geteuid().is_root() {
            command.uid(user).gid(group);
        }
        let process = command.current_dir("/").stderr(Stdio::null()).spawn()?;
        let server = Self { process, port, _cluster: cluster };
        server.wait_until_ready(&ours.path("ca.pem")).await?;
        Ok(server)
    }

    fn url(&self, mode: &str, ca: Option<&Path>) -> String {
        let ca = ca.map(|path| format!("&sslrootcert={}", path.display())).unwrap_or_default();
        format!("postgres://surety@localhost:{}/surety?sslmode={mode}{ca}", self.port)
    }

    async fn wait_until_ready(&self, ca: &Path) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let url = self.url("verify-full", Some(ca));
        loop {
            let tried = sqlx::PgPool::connect(&url).await;
            match tried {
                Ok(pool) => {
                    pool.close().await;
                    return Ok(());
                }
                Err(error) => ensure!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).ok();
    }
}

#[tokio::test]
async fn services_work_on_a_postgres_whose_certificate_they_verify() -> Result<()> {
    let ours = Authority::new()?;
    let server = Server::start(&ours).await?;
    let database = Database::at(&server.url("verify-full", Some(&ours.path("ca.pem"))))?;
    let mut deployment = Deployment::start_idle(database, &[]).await?;
    deployment.add_executor(&[]).await?;
    let workspace = tempfile::tempdir()?;
    let plan = script::plan(&[script::step("a", &[], &[script::write("a.txt", "a")])]);
    let run = deployment.create(&plan, &workspace.path().to_string_lossy()).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.verdict.is_some_and(|verdict| verdict.accepted));
    let pool = deployment.database.pool().await?;
    // Every connection of the services: pools, dedicated connections and listeners.
    let sessions: Vec<(bool, Option<String>)> = sqlx::query_as(
        "select coalesce(ssl.ssl, false), activity.application_name from pg_stat_activity activity \
         left join pg_stat_ssl ssl using (pid) where activity.client_addr is not null",
    )
    .fetch_all(&pool)
    .await?;
    ensure!(sessions.len() > 5 && sessions.iter().all(|(ssl, _)| *ssl), "{sessions:?}");
    Ok(())
}

#[tokio::test]
async fn a_service_refuses_a_postgres_of_another_authority_and_one_without_tls() -> Result<()> {
    let (ours, other) = (Authority::new()?, Authority::new()?);
    let server = Server::start(&ours).await?;
    let other = other.path("ca.pem");
    let refused = sqlx::PgPool::connect(&server.url("verify-full", Some(&other))).await;
    let refused = refused.err().context("a refusal")?;
    ensure!(format!("{refused:?}").contains("UnknownIssuer"), "{refused:?}");
    // The certificate names localhost only.
    let by_number =
        server.url("verify-full", Some(&ours.path("ca.pem"))).replace("localhost", "127.0.0.1");
    let refused = sqlx::PgPool::connect(&by_number).await.err().context("a refusal")?;
    ensure!(format!("{refused:?}").contains("NotValidForName"), "{refused:?}");
    let refused = sqlx::PgPool::connect(&server.url("disable", None)).await;
    ensure!(refused.is_err());
    let url = server.url("verify-full", Some(&other));
    let gate = Process::start_on(Service::Gate, "127.0.0.1:0", &url, &[]).await?;
    gate.wait_for_line(|line| line.contains("UnknownIssuer")).await?;
    Ok(())
}
