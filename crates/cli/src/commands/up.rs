//! `surety up`: the three services in one process, with a private database.
//!
//! ```text
//!   folder, token -> ports -> database -> services -> healthy: `endpoint` is written
//!   signal -> planner and executor drain -> gate drains -> database stops -> 0
//! ```
//!
//! The ports are opened first, so that a conflict is reported before the database starts. The gate
//! stops last, because runs that drain still call it. With several databases the planner serves
//! all; executor and gate use the primary one only.

mod services;
mod signals;

use std::iter::once;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use surety_common::config::{
    CommonConfig, DataDirConfig, ExecutorConfig, GateConfig, ModelDriverConfig, NamespaceDatabase,
    PlannerConfig, PostgresConfig, Webhook,
};
use surety_common::domain::identity::{Identity, IdentityError, Namespaces, Role};
use surety_common::domain::signature::{Service, instant};
use surety_common::keys::{KeyFile, trust_key};
use surety_common::telemetry::{self, Guard};
use surety_common::wire::client::Transport;
use surety_common::wire::server::{BindError, bind};
use surety_common::wire::token::{FileTokens, Token};
use tokio::net::TcpListener;

use self::services::{Plan, Ports, Services};
use self::signals::Signals;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::{Output, note};
use crate::postgres::EmbeddedPostgres;
use crate::wire_json::{object, text};

/// Starts planner, executor and acceptgate in one process, with a private Postgres.
#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    folder: DataDirConfig,
    #[command(flatten)]
    postgres: PostgresConfig,
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    planner: PlannerConfig,
    #[command(flatten)]
    executor: ExecutorConfig,
    #[command(flatten)]
    gate: GateConfig,
    #[command(flatten)]
    models: ModelDriverConfig,
}

impl Up {
    /// The number of threads of the process; none for the default.
    pub(super) fn worker_threads(&self) -> Option<u32> {
        self.common.worker_threads
    }

    pub(super) async fn run(
        mut self: Box<Self>,
        matches: &ArgMatches,
        output: Output,
    ) -> Result<Exit, Failure> {
        self.executor.check()?;
        let signals = Signals::listen()
            .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        let folder = DataFolder::choose(&self.folder)?;
        folder.make()?;
        if matches.value_source("executor_data_dir") == Some(ValueSource::DefaultValue) {
            self.executor.executor_data_dir = folder.executor();
        }
        self.use_keys(&folder)?;
        let token_file = self.common.token_file.clone().unwrap_or_else(|| folder.token());
        let tokens = self.tokens(&folder)?;
        let databases = self.planner.namespace_databases()?;
        let webhooks = self.planner.webhooks()?;
        let transport = Transport::of(&self.common.tls)?;
        let ports = self.bind().await?;
        let guard = telemetry::init("surety", &self.common.telemetry, &transport)
            .map_err(|error| Failure::new(Code::SettingInvalid, error.to_string(), ""))?;
        for database in &databases {
            tracing::warn!(
                namespaces = database.namespaces.join(", "),
                "up: runs in the databases of namespaces need executors of their own; this process executes none of them"
            );
        }
        let started =
            Started { folder, token_file, tokens, transport, databases, webhooks, ports, output };
        let ended = self.serve(started, signals, &guard).await;
        guard.end().await;
        ended
    }

    /// Makes the keys of the services where they are missing. With the private Postgres, all rows are those of this
    /// process, so its keys are trusted. Other processes write to a database that is named, with keys of their own:
    /// there the operator names the file of trusted keys.
    fn use_keys(&mut self, folder: &DataFolder) -> Result<(), Failure> {
        let files = [
            (Service::Planner, &mut self.planner.planner_key_file),
            (Service::Executor, &mut self.executor.executor_key_file),
            (Service::Gate, &mut self.gate.gate_key_file),
        ];
        let trusted = folder.trusted_keys();
        let is_private = self.common.database_url.is_none();
        let own = is_private && self.common.trusted_keys_file.is_none();
        for (service, file) in files {
            let path = file.get_or_insert_with(|| folder.key(service));
            let key = KeyFile::open_or_make(path)?.public();
            if own {
                let now = chrono::Utc::now();
                let until = trust_key(&trusted, (service, key), now)?;
                if let Some(until) = until.filter(|until| *until <= now) {
                    let (id, path, until) = (key.id(), path.display(), instant(until));
                    let message =
                        format!("the key {id} in {path} has ended for the {service} at {until}");
                    let advice = "Move the key file away, and start again: another key is made.";
                    return Err(Failure::new(Code::ValueInvalid, message, advice));
                }
            }
        }
        if own {
            self.common.trusted_keys_file = Some(trusted);
        }
        Ok(())
    }

    /// What commands must not see, besides the executor's own files: the data folder, and the files of planner and gate,
    /// which are on the same machine here.
    fn hidden(&self, folder: &DataFolder) -> Vec<PathBuf> {
        let files = [
            &self.planner.planner_key_file,
            &self.gate.gate_key_file,
            &self.common.trusted_keys_file,
            &self.planner.namespace_databases_file,
            &self.planner.webhooks_file,
        ];
        let named = files.into_iter().flatten().cloned();
        once(folder.path().to_owned()).chain(named).collect()
    }

    /// The tokens of the token file; without one those of the folder: a person's, a driver's and the
    /// services' own. The services need one of theirs in any case.
    fn tokens(&self, folder: &DataFolder) -> Result<FileTokens, Failure> {
        let mut tokens = FileTokens::of(&self.common.tokens()?)?;
        let mut made = Vec::new();
        if tokens.known.is_empty() {
            made.push((folder.token(), "person", &Role::PERSON[..]));
            made.push((folder.driver_token(), "driver", &[Role::Driver]));
        }
        if tokens.own.is_none() {
            made.push((folder.service_token(), "service", &[Role::Service]));
        }
        for (path, name, roles) in made {
            let token = Token::new(folder.token_made_if_missing(&path)?.expose())?;
            let identity = Identity::new(name, roles.iter().copied(), Namespaces::Every);
            let identity = identity.map_err(|error: IdentityError| {
                Failure::new(Code::Internal, error.to_string(), "")
            })?;
            tokens.known.push((token.hash(), identity));
            if tokens.own.is_none() && roles.contains(&Role::Service) {
                tokens.own = Some(token);
            }
        }
        Ok(tokens)
    }

    async fn bind(&self) -> Result<Ports, Failure> {
        Ok(Ports {
            planner: listen(self.planner.planner_listen, "planner-listen", "PLANNER").await?,
            executor: listen(self.executor.executor_listen, "executor-listen", "EXECUTOR").await?,
            gate: listen(self.gate.gate_listen, "gate-listen", "GATE").await?,
        })
    }

    async fn serve(
        self,
        started: Started,
        mut signals: Signals,
        guard: &Guard,
    ) -> Result<Exit, Failure> {
        let database = match &self.common.database_url {
            Some(url) => Database::Named(url.expose().to_owned()),
            None => match self.start_database(&started.folder.postgres(), &mut signals).await? {
                Some(postgres) => Database::Ours(postgres),
                None => return Ok(Exit::Done),
            },
        };
        let ended = self.serve_on(&database, started, signals, guard).await;
        if let Database::Ours(postgres) = database {
            postgres.stop().await?;
        }
        ended
    }

    /// None when a signal arrived. The start is completed and then undone, because Postgres's programs
    /// that create a cluster would otherwise continue without a parent. A second signal does not wait.
    async fn start_database(
        &self,
        cluster: &Path,
        signals: &mut Signals,
    ) -> Result<Option<EmbeddedPostgres>, Failure> {
        let bin = self.postgres.postgres_bin.as_deref();
        let mut starting = pin!(EmbeddedPostgres::start_from(bin, cluster));
        tokio::select! {
            started = &mut starting => return Ok(Some(started?)),
            () = signals.first() => note("surety: shutting down as soon as Postgres has started"),
        }
        tokio::select! {
            started = &mut starting => started?.stop().await?,
            () = signals.first() => {}
        }
        Ok(None)
    }

    async fn serve_on(
        self,
        database: &Database,
        started: Started,
        mut signals: Signals,
        guard: &Guard,
    ) -> Result<Exit, Failure> {
        let Started { folder, token_file, tokens, transport, databases, webhooks, ports, output } =
            started;
        let hidden = self.hidden(&folder);
        let plan = Plan {
            common: self.common,
            planner: self.planner,
            executor: self.executor,
            gate: self.gate,
            models: self.models,
            database_url: database.url(),
            databases,
            webhooks,
            tokens,
            transport,
            hidden,
            metrics: guard.metrics(),
        };
        folder.note_ports(&ports.numbers()?)?;
        let mut services = Services::start(plan, ports)?;
        let address = services.planner_url().to_owned();
        let ready = tokio::select! {
            ready = services.ready() => ready,
            lost = database.lost() => Err(lost),
            () = signals.first() => return services.stop(&mut signals).await,
        };
        if let Err(failure) = ready.and_then(|()| folder.note_endpoint(&address)) {
            services.stop(&mut signals).await?;
            return Err(failure);
        }
        let said = announce(&address, &token_file, folder.path(), output);
        let ended = match said {
            Ok(()) => tokio::select! {
                ended = services.any_ended() => Err(ended),
                lost = database.lost() => Err(lost),
                () = signals.first() => Ok(()),
            },
            Err(failure) => Err(failure),
        };
        folder.forget_endpoint(&address);
        let stopped = services.stop(&mut signals).await;
        ended.and(stopped)
    }
}

/// What is started before the database.
struct Started {
    folder: DataFolder,
    token_file: PathBuf,
    tokens: FileTokens,
    transport: Transport,
    databases: Vec<NamespaceDatabase>,
    webhooks: Vec<Webhook>,
    ports: Ports,
    output: Output,
}

enum Database {
    Named(String),
    Ours(EmbeddedPostgres),
}

impl Database {
    fn url(&self) -> String {
        match self {
            Self::Named(url) => url.clone(),
            Self::Ours(postgres) => postgres.url(),
        }
    }

    /// Completes when the private database ends by itself: no service can work without it, and a supervisor starts all again.
    async fn lost(&self) -> Failure {
        match self {
            Self::Named(_) => std::future::pending().await,
            Self::Ours(postgres) => postgres.ended().await.into(),
        }
    }
}

/// A token always exists, so a reachable address is protected.
async fn listen(addr: SocketAddr, flag: &str, name: &str) -> Result<TcpListener, Failure> {
    bind(addr, true).await.map_err(|error| {
        let cause = match &error {
            BindError::Refused { source, .. } => format!("{error}: {source}"),
            BindError::OpenToAll(_) | BindError::InUse(_) => error.to_string(),
        };
        Failure::new(
            Code::PortUnusable,
            cause,
            format!(
                "Choose another with --{flag} (SURETY_{name}_LISTEN); port 0 selects a free one."
            ),
        )
    })
}

fn announce(
    address: &str,
    token_file: &Path,
    folder: &Path,
    output: Output,
) -> Result<(), Failure> {
    let value = object([
        ("url", text(address)),
        ("token_file", text(token_file.display().to_string())),
        ("data_dir", text(folder.display().to_string())),
    ]);
    output.either(&value, || {
        format!(
            "surety is up at {address}\n  data   {}\n  token  {}\nCtrl-C stops it.",
            folder.display(),
            token_file.display()
        )
    })
}
