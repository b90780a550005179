//! The table of all settings.

mod anchor;
mod connections;
mod executor;
mod hooks;
mod keys;
mod model_driver;
mod models;
mod sessions;
mod transport;

pub(super) use anchor::{
    GATE_ANCHOR_CERTIFICATE_FILE, GATE_ANCHOR_DIR, GATE_ANCHOR_INTERVAL_S, GATE_ANCHOR_URL,
};
pub(super) use connections::{
    IDLE_TIMEOUT_MS, REQUEST_TIMEOUT_MS, WAITING_CONNECTIONS, WAITING_CONNECTIONS_PER_PEER,
};
pub(super) use executor::{
    EXECUTOR_COMMAND_TIMEOUT_S, EXECUTOR_DATA_DIR, EXECUTOR_DRIVER_LEASE_MS, EXECUTOR_GATE_URL,
    EXECUTOR_HEARTBEAT_AGE_LIMIT_MS, EXECUTOR_HEARTBEAT_INTERVAL_MS, EXECUTOR_HTTP_ALLOW,
    EXECUTOR_LISTEN, EXECUTOR_MAX_DEATHS, EXECUTOR_MCP, EXECUTOR_RECORD_RECEIPTS,
    EXECUTOR_REPOSITORIES, EXECUTOR_REPOSITORY_MIB, EXECUTOR_SECRETS, EXECUTOR_SLOTS,
    EXECUTOR_TOOL_ALIASES, EXECUTOR_TURN_WAIT_MS, EXECUTOR_WORKER_CALL_TIMEOUT_S,
    EXECUTOR_WORKER_LEASE_MS, EXECUTOR_WORKER_TOOL_TTL_S, SANDBOX, SANDBOX_ALLOW_NONE,
    SANDBOX_DISK_MIB, SANDBOX_MEMORY_MIB, SANDBOX_PROCESSES, SANDBOX_READ_ONLY, SANDBOX_WRITABLE,
};
pub(super) use hooks::{DELIVERY_RETENTION_DAYS, HOOK_SECRETS, UNSIGNED_HOOKS};
pub(super) use keys::{EXECUTOR_KEY_FILE, GATE_KEY_FILE, PLANNER_KEY_FILE, TRUSTED_KEYS_FILE};
pub(super) use model_driver::{MODEL_PROMPTS_DIR, MODEL_TURNS, MODEL_WAIT_S};
pub(super) use models::{MODEL_API, MODEL_KEY_FILE, MODEL_NAME, MODEL_PROFILES_FILE, MODEL_URL};
pub(super) use sessions::{MCP_SESSION_IDLE_S, MCP_SESSIONS};
pub(super) use transport::{
    PLAINTEXT_PEERS, TLS_CA_FILE, TLS_CERT_FILE, TLS_CLIENT_CA_FILE, TLS_IDENTITIES_FILE,
    TLS_KEY_FILE, TLS_REQUIRE_CLIENT_CERTIFICATE,
};

use std::fmt;

/// One setting, the source for the command line, the environment, the help and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The group that it belongs to.
    pub group: Group,
    /// The long flag without its dashes; the unit is its last word.
    pub flag: &'static str,
    /// The environment variable; a flag wins over it.
    pub env: &'static str,
    /// The default; empty when there is none.
    pub default: &'static str,
    /// Which values are accepted, with range and unit.
    pub accepts: Accepts,
    /// What it sets, in one sentence.
    pub meaning: &'static str,
    /// Whether the value is or may contain a secret; error messages do not repeat it.
    pub secret: bool,
}

/// Which processes read a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Every process.
    Common,
    /// The planner, and `surety up`.
    Planner,
    /// The executor, and `surety up`.
    Executor,
    /// The acceptgate, and `surety up`.
    Gate,
    /// The planner, the executor and `surety up`: the models that they ask.
    Model,
    /// The command line.
    Client,
}

/// The values a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// A whole number, both ends included.
    Whole {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// The unit.
        unit: &'static str,
    },
    /// One of several words.
    Word(&'static [&'static str]),
    /// An address and port; port 0 selects a free port.
    Address,
    /// Hosts with their ports, separated by commas.
    Addresses,
    /// Hosts without ports, separated by commas.
    Hosts,
    /// Names of tools for other names of them, separated by commas.
    Aliases,
    /// Named secrets with their namespaces and sources, separated by semicolons.
    Secrets,
    /// Beginnings of addresses of git repositories, separated by commas.
    Repositories,
    /// A URL of one of these schemes.
    Url(&'static [&'static str]),
    /// Log directives.
    LogFilter,
    /// A name.
    Name,
    /// A file or folder.
    Path,
    /// Absolute files and folders, separated by colons.
    Paths,
    /// On when present.
    Switch,
}

impl Setting {
    /// The name in clap and in the Rust structs.
    #[must_use]
    pub fn id(&self) -> String {
        self.flag.replace('-', "_")
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Common => "Every process",
            Self::Planner => "Planner",
            Self::Executor => "Executor",
            Self::Gate => "Acceptgate",
            Self::Model => "Models",
            Self::Client => "Command line",
        })
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { min, max, unit } => {
                write!(f, "a whole number of {unit} from {min} to {max}")
            }
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Address => f.write_str("an IP address and a port, such as 127.0.0.1:7400"),
            Self::Addresses => f.write_str("host:port, separated by commas"),
            Self::Hosts => f.write_str("hosts without ports, separated by commas"),
            Self::Aliases => f.write_str("alias=tool, separated by commas"),
            Self::Secrets => f.write_str(
                "NAME@NAMESPACE,NAMESPACE=file:/PATH or NAME@*=env:VARIABLE, separated by semicolons",
            ),
            Self::Repositories => {
                f.write_str("beginnings of https://, http:// or file:/// addresses, separated by commas")
            }
            Self::Url(schemes) => {
                write!(f, "a URL that begins with {}://", schemes.join(":// or "))
            }
            Self::Name => f.write_str("1 to 255 characters without blanks"),
            Self::LogFilter => f.write_str(
                "off, error, warn, info, debug or trace, or directives such as \
                 info,surety::transition=warn",
            ),
            Self::Path => f.write_str("a path"),
            Self::Paths => f.write_str("absolute paths, separated by colons, and not `/`"),
            Self::Switch => f.write_str("true or false"),
        }
    }
}

/// Every setting, in the order of the documentation.
#[must_use]
#[expect(clippy::too_many_lines, reason = "a table with a line for each setting")]
pub const fn settings() -> &'static [Setting] {
    &[
        DATABASE_URL,
        REQUIRE_DATABASE,
        DATABASE_POOL_SIZE,
        DATABASE_ACQUIRE_TIMEOUT_MS,
        TOKEN_FILE,
        FORGES_FILE,
        TLS_CERT_FILE,
        TLS_KEY_FILE,
        TLS_CA_FILE,
        TLS_CLIENT_CA_FILE,
        TLS_REQUIRE_CLIENT_CERTIFICATE,
        TLS_IDENTITIES_FILE,
        PLAINTEXT_PEERS,
        TRUSTED_KEYS_FILE,
        MAX_MESSAGE_BYTES,
        REFLECTION,
        WAITING_CONNECTIONS,
        WAITING_CONNECTIONS_PER_PEER,
        REQUEST_TIMEOUT_MS,
        IDLE_TIMEOUT_MS,
        DRAIN_TIMEOUT_MS,
        WORKER_THREADS,
        HOST_LABEL,
        LOG,
        LOG_FORMAT,
        OTLP_ENDPOINT,
        PLANNER_LISTEN,
        NAMESPACE_DATABASES_FILE,
        WEBHOOKS_FILE,
        TOOLCHAIN_FILE,
        RETENTION_DAYS,
        HOOK_SECRETS,
        UNSIGNED_HOOKS,
        DELIVERY_RETENTION_DAYS,
        PLANNER_KEY_FILE,
        EXECUTOR_LISTEN,
        EXECUTOR_GATE_URL,
        EXECUTOR_SLOTS,
        EXECUTOR_HEARTBEAT_INTERVAL_MS,
        EXECUTOR_HEARTBEAT_AGE_LIMIT_MS,
        EXECUTOR_MAX_DEATHS,
        EXECUTOR_HTTP_ALLOW,
        EXECUTOR_COMMAND_TIMEOUT_S,
        EXECUTOR_TOOL_ALIASES,
        EXECUTOR_SECRETS,
        EXECUTOR_MCP,
        EXECUTOR_REPOSITORIES,
        EXECUTOR_REPOSITORY_MIB,
        EXECUTOR_DRIVER_LEASE_MS,
        EXECUTOR_TURN_WAIT_MS,
        EXECUTOR_RECORD_RECEIPTS,
        EXECUTOR_WORKER_LEASE_MS,
        EXECUTOR_WORKER_CALL_TIMEOUT_S,
        EXECUTOR_WORKER_TOOL_TTL_S,
        EXECUTOR_DATA_DIR,
        EXECUTOR_KEY_FILE,
        SANDBOX,
        SANDBOX_ALLOW_NONE,
        SANDBOX_READ_ONLY,
        SANDBOX_WRITABLE,
        SANDBOX_PROCESSES,
        SANDBOX_MEMORY_MIB,
        SANDBOX_DISK_MIB,
        GATE_LISTEN,
        GATE_PROBE_ALLOW,
        GATE_KEY_FILE,
        GATE_ANCHOR_URL,
        GATE_ANCHOR_CERTIFICATE_FILE,
        GATE_ANCHOR_INTERVAL_S,
        GATE_ANCHOR_DIR,
        MODEL_PROFILES_FILE,
        MODEL_URL,
        MODEL_NAME,
        MODEL_API,
        MODEL_KEY_FILE,
        MODEL_WAIT_S,
        MODEL_TURNS,
        MODEL_PROMPTS_DIR,
        URL,
        DATA_DIR,
        POSTGRES_BIN,
        MCP_SESSIONS,
        MCP_SESSION_IDLE_S,
    ]
}

pub(super) const DATABASE_URL: Setting = Setting {
    group: Group::Common,
    flag: "database-url",
    env: "DATABASE_URL",
    default: "",
    accepts: Accepts::Url(&["postgres", "postgresql"]),
    meaning: "The Postgres (15 or later) that stores all state. Without one, `surety up` starts a \
              private Postgres, and a single service runs in stateless mode: it serves only the \
              calls that store no state.",
    secret: true,
};

pub(super) const REQUIRE_DATABASE: Setting = Setting {
    group: Group::Common,
    flag: "require-database",
    env: "SURETY_REQUIRE_DATABASE",
    default: "false",
    accepts: Accepts::Switch,
    meaning: "Refuse to start without a Postgres, instead of starting in stateless mode, which \
              serves only the calls that store no state.",
    secret: false,
};

pub(super) const DATABASE_POOL_SIZE: Setting = Setting {
    group: Group::Common,
    flag: "database-pool-size",
    env: "SURETY_DATABASE_POOL_SIZE",
    default: "16",
    accepts: Accepts::Whole { min: 2, max: 500, unit: "connections" },
    meaning: "The most database connections of a service for its callers, including one that \
              listens for notifications. One that is unused for 10 s is closed, but the last one stays. Background tasks use up to four \
              more, and one more follows the primary when the URL has several hosts. `surety up` consists of three \
              services.",
    secret: false,
};

pub(super) const DATABASE_ACQUIRE_TIMEOUT_MS: Setting = Setting {
    group: Group::Common,
    flag: "database-acquire-timeout-ms",
    env: "SURETY_DATABASE_ACQUIRE_TIMEOUT_MS",
    default: "5000",
    accepts: Accepts::Whole { min: 100, max: 600_000, unit: "milliseconds" },
    meaning: "How long a request waits for a free database connection before it fails with UNAVAILABLE.",
    secret: false,
};

pub(super) const TOKEN_FILE: Setting = Setting {
    group: Group::Common,
    flag: "token-file",
    env: "SURETY_TOKEN_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with bearer tokens, a line each: token, name, roles, namespaces (commas inside a \
              column, `*` for every namespace). A service stores the digests of tokens that its database \
              does not know yet, and shows the first token with the role service to other services. A \
              command shows the first token of a person. One token alone in the file has the roles viewer, \
              submitter, operator, approver and service in every namespace. The file must not be readable by \
              every user of the machine.",
    secret: false,
};

pub(super) const FORGES_FILE: Setting = Setting {
    group: Group::Common,
    flag: "forges-file",
    env: "SURETY_FORGES_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the forges whose events become tasks: [forge.NAME] with kind (gitea, forgejo, github), \
              url, credential_file, account, repositories (globs of owner/name) and probe (required, recorded, \
              off), and [agents.ID.FORGE] with account and credential_file. It holds no token itself: those \
              stand in the credential files, which not every user of the machine may read.",
    secret: false,
};

pub(super) const MAX_MESSAGE_BYTES: Setting = Setting {
    group: Group::Common,
    flag: "max-message-bytes",
    env: "SURETY_MAX_MESSAGE_BYTES",
    default: "8388608",
    // The minimum fits the largest raw text of a request, 1 MiB.
    accepts: Accepts::Whole { min: 2_097_152, max: 268_435_456, unit: "bytes" },
    meaning: "The largest gRPC message that is accepted; sent messages have no limit.",
    secret: false,
};

pub(super) const REFLECTION: Setting = Setting {
    group: Group::Common,
    flag: "reflection",
    env: "SURETY_REFLECTION",
    default: "false",
    accepts: Accepts::Switch,
    meaning: "Serve gRPC reflection, so that tools such as grpcurl need no .proto files.",
    secret: false,
};

pub(super) const DRAIN_TIMEOUT_MS: Setting = Setting {
    group: Group::Common,
    flag: "drain-timeout-ms",
    env: "SURETY_DRAIN_TIMEOUT_MS",
    default: "15000",
    accepts: Accepts::Whole { min: 0, max: 3_600_000, unit: "milliseconds" },
    meaning: "How long a process that is shutting down waits for running requests and turns \
              before it releases its leases and exits.",
    secret: false,
};

pub(super) const WORKER_THREADS: Setting = Setting {
    group: Group::Common,
    flag: "worker-threads",
    env: "SURETY_WORKER_THREADS",
    default: "",
    accepts: Accepts::Whole { min: 1, max: 512, unit: "threads" },
    meaning: "The number of threads of this process, not counting those for file access. \
              By default half of the processors, and at least one; `surety up`, which is three \
              services, uses all of them.",
    secret: false,
};

pub(super) const HOST_LABEL: Setting = Setting {
    group: Group::Common,
    flag: "host-label",
    env: "SURETY_HOST_LABEL",
    default: "",
    accepts: Accepts::Name,
    meaning: "Names the machine on which workspace paths hold: two runs in one folder are known as such, and a \
              run on a folder goes on at executors with this label only. Executors that share a volume take one \
              label; set one where the host name changes. Without it the host name.",
    secret: false,
};

pub(super) const LOG: Setting = Setting {
    group: Group::Common,
    flag: "log",
    env: "SURETY_LOG",
    default: "info",
    accepts: Accepts::LogFilter,
    meaning: "The filter of the log lines on standard error.",
    secret: false,
};

pub(super) const LOG_FORMAT: Setting = Setting {
    group: Group::Common,
    flag: "log-format",
    env: "SURETY_LOG_FORMAT",
    default: "text",
    accepts: Accepts::Word(&["text", "json"]),
    meaning: "The format of log lines: text for people, or one JSON object per line.",
    secret: false,
};

pub(super) const OTLP_ENDPOINT: Setting = Setting {
    group: Group::Common,
    flag: "otlp-endpoint",
    env: "OTEL_EXPORTER_OTLP_ENDPOINT",
    default: "",
    accepts: Accepts::Url(&["http", "https"]),
    meaning: "The endpoint for traces, by OTLP over gRPC, such as http://127.0.0.1:4317. Without \
              it no trace is exported.",
    secret: false,
};

pub(super) const PLANNER_LISTEN: Setting = Setting {
    group: Group::Planner,
    flag: "planner-listen",
    env: "SURETY_PLANNER_LISTEN",
    default: "127.0.0.1:7401",
    accepts: Accepts::Address,
    meaning: "The address where the planner serves gRPC, /healthz and /metrics.",
    secret: false,
};

pub(super) const NAMESPACE_DATABASES_FILE: Setting = Setting {
    group: Group::Planner,
    flag: "namespace-databases-file",
    env: "SURETY_NAMESPACE_DATABASES_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file that names the Postgres of each namespace with a separate one: one line \
              for each, with the namespace, a blank, and a URL as in DATABASE_URL. All other namespaces \
              use DATABASE_URL. The file must not be readable by every user of the machine.",
    secret: false,
};

pub(super) const WEBHOOKS_FILE: Setting = Setting {
    group: Group::Planner,
    flag: "webhooks-file",
    env: "SURETY_WEBHOOKS_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the webhooks, one line for each: name, URL, namespaces, events \
              (wait.opened, run.ended), secret, with commas inside a column and `*` for every \
              namespace or event. No other address is told of events. The file must not be readable \
              by every user of the machine.",
    secret: false,
};

pub(super) const TOOLCHAIN_FILE: Setting = Setting {
    group: Group::Planner,
    flag: "toolchain-file",
    env: "SURETY_TOOLCHAIN_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the rules for tasks of the toolchain, TOML: templates, steps, reminders, risks, and \
              what counts as a report ([toolchain.md](toolchain.md)). Set the same one on every planner.",
    secret: false,
};

pub(super) const RETENTION_DAYS: Setting = Setting {
    group: Group::Planner,
    flag: "retention-days",
    env: "SURETY_RETENTION_DAYS",
    default: "0",
    accepts: Accepts::Whole { min: 0, max: 36_500, unit: "days" },
    meaning: "How long an ended run is kept, with its journal and its evidence, before \
              it is deleted; its request id can then be used again. 0 keeps everything \
              for ever. Set the same value on every planner of one database.",
    secret: false,
};

pub(super) const GATE_LISTEN: Setting = Setting {
    group: Group::Gate,
    flag: "gate-listen",
    env: "SURETY_GATE_LISTEN",
    default: "127.0.0.1:7403",
    accepts: Accepts::Address,
    meaning: "The address where the acceptgate serves gRPC, /healthz and /metrics.",
    secret: false,
};

pub(super) const GATE_PROBE_ALLOW: Setting = Setting {
    group: Group::Gate,
    flag: "gate-probe-allow",
    env: "SURETY_GATE_PROBE_ALLOW",
    default: "",
    accepts: Accepts::Addresses,
    meaning: "The hosts that `http_probe` checks may call, each with its port. No other address is \
              called, and no redirect is followed.",
    secret: false,
};

pub(super) const URL: Setting = Setting {
    group: Group::Client,
    flag: "url",
    env: "SURETY_URL",
    default: "",
    accepts: Accepts::Url(&["http", "https"]),
    meaning: "The planner that a command calls. By default the one that `surety up` wrote to \
              the file `endpoint` in its data folder; without that file, http://127.0.0.1:7401.",
    secret: false,
};

pub(super) const POSTGRES_BIN: Setting = Setting {
    group: Group::Client,
    flag: "postgres-bin",
    env: "SURETY_POSTGRES_BIN",
    default: "",
    accepts: Accepts::Path,
    meaning: "The folder with the programs of the Postgres that `surety up` and `surety dev-postgres` start. It is tried \
              before the search path and the folders of packages.",
    secret: false,
};

pub(super) const DATA_DIR: Setting = Setting {
    group: Group::Client,
    flag: "data-dir",
    env: "SURETY_DATA_DIR",
    default: "",
    accepts: Accepts::Path,
    meaning: "The folder where `surety up` keeps its database, its token, its address and the \
              workspaces that it creates. By default /var/lib/surety for root, else $XDG_DATA_HOME/surety or \
              ~/.local/share/surety.",
    secret: false,
};
