//! The environment of every measurement: one durable Postgres for all, and a fresh database with
//! fresh processes for each.

use crate::options::Options;
use anyhow::Result;
use chrono::Utc;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::path::Path;
use std::str::FromStr;
use surety_cli::postgres::{Durability, EmbeddedPostgres};
use surety_common::domain::signature::Service as Signer;
use surety_common::keys::{KeyFile, trust_key};
use surety_common::store;
use surety_e2e::harness::{Database, Deployment, Process, QUIET_LOG, Service, server_of};

/// As the published engines were measured; everything else is Postgres's default.
const SETTINGS: [&str; 2] = ["shared_buffers=512MB", "max_connections=200"];
/// Counts every statement. Only for profiles, as it costs some.
const STATEMENTS: [&str; 2] =
    ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on"];

/// What names the file of each service's key.
const KEY_FILES: [(Signer, &str); 3] = [
    (Signer::Planner, "SURETY_PLANNER_KEY_FILE"),
    (Signer::Executor, "SURETY_EXECUTOR_KEY_FILE"),
    (Signer::Gate, "SURETY_GATE_KEY_FILE"),
];

/// Postgres, and the options of the benchmark.
pub(crate) struct Stand<'a> {
    pub(crate) options: &'a Options,
    postgres: EmbeddedPostgres,
    pub(crate) postgres_pid: i32,
    /// Into the database `postgres`, so that what is asked over it counts for no measured one.
    pub(crate) observer: PgPool,
    data_dir: tempfile::TempDir,
    /// The variable and the file of each service's key.
    keys: Vec<(&'static str, String)>,
    /// The file of trusted keys, which has these keys.
    trusted_keys: String,
}

impl<'a> Stand<'a> {
    pub(crate) async fn start(options: &'a Options) -> Result<Self> {
        let mut settings = SETTINGS.to_vec();
        if options.profile {
            settings.extend(STATEMENTS);
        }
        settings.extend(options.setting.iter().map(String::as_str));
        let postgres = EmbeddedPostgres::start_temporary(Durability::Full, &settings).await?;
        let maintenance = PgConnectOptions::from_str(&postgres.url())?.database("postgres");
        let observer = PgPoolOptions::new().max_connections(1).connect_with(maintenance).await?;
        let folder: String = sqlx::query_scalar("show data_directory").fetch_one(&observer).await?;
        let postgres_pid = server_of(Path::new(&folder))?.as_raw();
        for extension in ["pg_walinspect", "pg_stat_statements"] {
            let statement = format!("create extension if not exists {extension}");
            // What the extension would have shown is then left out.
            if let Err(error) = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&observer).await
            {
                eprintln!("without {extension}: {error}");
            }
        }
        let data_dir = tempfile::tempdir()?;
        let (mut keys, trusted) = (Vec::new(), data_dir.path().join("trusted-keys.json"));
        for (service, name) in KEY_FILES {
            let file = data_dir.path().join(name.to_lowercase());
            let key = KeyFile::open_or_make(&file)?.public();
            trust_key(&trusted, (service, key), Utc::now())?;
            keys.push((name, file.to_string_lossy().into_owned()));
        }
        let trusted_keys = trusted.to_string_lossy().into_owned();
        Ok(Self { options, postgres, postgres_pid, observer, data_dir, keys, trusted_keys })
    }

    /// A planner and a gate over a fresh database; no executor yet.
    pub(crate) async fn deploy(&self) -> Result<Deployment> {
        Deployment::start_idle(self.database().await?, &self.environment()).await
    }

    /// As [`Stand::deploy`], with executors.
    pub(crate) async fn deploy_with(&self, executors: usize) -> Result<Deployment> {
        self.deploy_on(self.database().await?, executors).await
    }

    /// As [`Stand::deploy_with`], over an existing database.
    pub(crate) async fn deploy_on(
        &self,
        database: Database,
        executors: usize,
    ) -> Result<Deployment> {
        self.deploy_as(database, executors, &self.environment()).await
    }

    /// As [`Stand::deploy_on`], with other environment variables.
    pub(crate) async fn deploy_as(
        &self,
        database: Database,
        executors: usize,
        environment: &[(&str, &str)],
    ) -> Result<Deployment> {
        let mut deployment = Deployment::start_idle(database, environment).await?;
        for _ in 0..executors {
            deployment.add_executor(environment).await?;
        }
        Ok(deployment)
    }

    /// As [`Stand::deploy_as`], with a role of the database for each service.
    pub(crate) async fn deploy_with_roles(
        &self,
        database: Database,
        executors: usize,
        environment: &[(&str, &str)],
    ) -> Result<Deployment> {
        let owner = database.pool().await?;
        store::make_service_roles(&owner).await?;
        owner.close().await;
        let [planner, executor, gate] = ["surety_planner", "surety_executor", "surety_gate"]
            .map(|role| database.url_of_role(role));
        let (planner, executor, gate) = (planner?, executor?, gate?);
        let with = |url| [environment, &[("DATABASE_URL", url)]].concat();
        let gate = Process::start(Service::Gate, &database, &with(gate.as_str())).await?;
        let planner = Process::start(Service::Planner, &database, &with(planner.as_str())).await?;
        let mut deployment = Deployment::of(database, planner, gate)?;
        for _ in 0..executors {
            deployment.add_executor(&with(executor.as_str())).await?;
        }
        Ok(deployment)
    }

    /// A planner, a gate and an executor whose runs a model at this address decides.
    pub(crate) async fn deploy_with_model(&self, url: &str) -> Result<Deployment> {
        let model = [("SURETY_MODEL_URL", url), ("SURETY_MODEL_NAME", "test-model")];
        let environment = [self.environment().as_slice(), &model].concat();
        let mut deployment = Deployment::start_idle(self.database().await?, &environment).await?;
        deployment.add_executor(&environment).await?;
        Ok(deployment)
    }

    pub(crate) async fn database(&self) -> Result<Database> {
        Database::create_on(&self.postgres.url()).await
    }

    /// The environment variables of every service.
    pub(crate) fn environment(&self) -> Vec<(&str, &str)> {
        let data_dir = self.data_dir.path().to_str().unwrap_or("/tmp");
        vec![("SURETY_LOG", QUIET_LOG), ("SURETY_EXECUTOR_DATA_DIR", data_dir)]
    }

    /// The same of services that sign what they store.
    pub(crate) fn signing_environment(&self) -> Vec<(&str, &str)> {
        let keys = self.keys.iter().map(|(name, file)| (*name, file.as_str()));
        self.environment().into_iter().chain(keys).collect()
    }

    /// The same of services that also check signatures before they decide or show anything.
    pub(crate) fn checking_environment(&self) -> Vec<(&str, &str)> {
        let mut environment = self.signing_environment();
        environment.push(("SURETY_TRUSTED_KEYS_FILE", &self.trusted_keys));
        environment
    }

    pub(crate) async fn postgres_version(&self) -> Result<String> {
        let version: String = sqlx::query_scalar("select current_setting('server_version')")
            .fetch_one(&self.observer)
            .await?;
        Ok(format!("Postgres {version}"))
    }

    pub(crate) fn settings_shown(&self) -> String {
        let profile = if self.options.profile { ", every statement counted" } else { "" };
        let own = self.options.setting.iter().map(|setting| format!(", {setting}"));
        let own: String = own.collect();
        format!("fsync and synchronous_commit on, {}{own}{profile}", SETTINGS.join(", "))
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.observer.close().await;
        Ok(self.postgres.stop().await?)
    }
}
