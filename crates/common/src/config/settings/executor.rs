//! The settings of the executor and of its sandbox.

use super::{Accepts, Group, Setting};

pub(in crate::config) const EXECUTOR_LISTEN: Setting = Setting {
    group: Group::Executor,
    flag: "executor-listen",
    env: "SURETY_EXECUTOR_LISTEN",
    default: "127.0.0.1:7402",
    accepts: Accepts::Address,
    meaning: "The address where the executor serves gRPC, /healthz and /metrics.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_GATE_URL: Setting = Setting {
    group: Group::Executor,
    flag: "gate-url",
    env: "SURETY_GATE_URL",
    default: "http://127.0.0.1:7403",
    accepts: Accepts::Url(&["http", "https"]),
    meaning: "The acceptgate that decides about the runs that this executor finishes.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_SLOTS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-slots",
    env: "SURETY_EXECUTOR_SLOTS",
    default: "64",
    accepts: Accepts::Whole { min: 1, max: 4096, unit: "runs" },
    meaning: "The most runs that this executor works on at a time. A blocked run takes no slot; \
              the same number may additionally wait for the gate's verdict. Each running command needs four \
              open files: the process raises its limit to 65,536 or its hard limit (`ulimit -Hn`), and a \
              command waits while none are free.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_HEARTBEAT_INTERVAL_MS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-heartbeat-interval-ms",
    env: "SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS",
    default: "",
    accepts: Accepts::Whole { min: 100, max: 60_000, unit: "milliseconds" },
    meaning: "How often the executor sends a heartbeat and checks those of others. By default \
              a third of the age limit, and at most a second.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_HEARTBEAT_AGE_LIMIT_MS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-heartbeat-age-limit-ms",
    env: "SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS",
    default: "10000",
    accepts: Accepts::Whole { min: 2_000, max: 600_000, unit: "milliseconds" },
    meaning: "The age of its last heartbeat at which an executor is declared dead and loses its \
              leases. Set the same value on every executor of one database, at least twice \
              the heartbeat interval.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_MAX_DEATHS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-max-deaths",
    env: "SURETY_EXECUTOR_MAX_DEATHS",
    default: "3",
    accepts: Accepts::Whole { min: 1, max: 1_000_000, unit: "executors" },
    meaning: "How many executors may die in the middle of the same turn or verification of a run before it waits \
              for an operator (`poison`) instead of being taken over again. All runs of a dead executor are counted.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_HTTP_ALLOW: Setting = Setting {
    group: Group::Executor,
    flag: "executor-http-allow",
    env: "SURETY_EXECUTOR_HTTP_ALLOW",
    default: "",
    accepts: Accepts::Addresses,
    meaning: "The hosts that the tool `http_get` may read, each with its port, redirects included. A name that \
              leads to a private address is refused; a private address itself may be listed.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_COMMAND_TIMEOUT_S: Setting = Setting {
    group: Group::Executor,
    flag: "executor-command-timeout-s",
    env: "SURETY_EXECUTOR_COMMAND_TIMEOUT_S",
    default: "20",
    accepts: Accepts::Whole { min: 1, max: 3_600, unit: "seconds" },
    meaning: "How long a call of `run_command` may take that names no `timeout_s`. The limit `command_timeout` of \
              a run bounds both.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_TOOL_ALIASES: Setting = Setting {
    group: Group::Executor,
    flag: "executor-tool-aliases",
    env: "SURETY_EXECUTOR_TOOL_ALIASES",
    default: "",
    accepts: Accepts::Aliases,
    meaning: "Other names that drivers may use for tools, besides the built-in ones of [tools.md](tools.md). The \
              journal and receipts show the tool's own name.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_SECRETS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-secrets",
    env: "SURETY_EXECUTOR_SECRETS",
    default: "",
    accepts: Accepts::Secrets,
    meaning: "The secrets that tools may use as `secret:NAME`, each with the namespaces whose runs may ask for it \
              (`policy.secrets`) and a file or a variable of the executor's environment. Values are read once at the \
              start, have 8 to 65,536 bytes, and are replaced by `[secret:NAME]` in everything that this executor \
              writes. Set the same on every executor of a namespace. See [security.md](security.md#secrets-of-tools).",
    secret: true,
};

pub(in crate::config) const EXECUTOR_MCP: Setting = Setting {
    group: Group::Executor,
    flag: "executor-mcp",
    env: "SURETY_EXECUTOR_MCP",
    default: "",
    accepts: Accepts::Path,
    meaning: "The TOML file with the MCP servers whose tools runs may call, each with its command or address, its \
              namespaces and the annotations that count. Read once at the start. See [mcp-tools.md](mcp-tools.md).",
    secret: false,
};

pub(in crate::config) const EXECUTOR_REPOSITORIES: Setting = Setting {
    group: Group::Executor,
    flag: "executor-repositories",
    env: "SURETY_EXECUTOR_REPOSITORIES",
    default: "",
    accepts: Accepts::Repositories,
    meaning: "The git repositories that runs may work on, by the beginnings of their addresses up to the end of a part \
              of the path, such as `https://git.example.org/team`. Without it every run on a repository ends with \
              `repository_refused`. Set the same on every executor of a namespace. See \
              [git-workspaces.md](git-workspaces.md).",
    secret: false,
};

pub(in crate::config) const EXECUTOR_REPOSITORY_MIB: Setting = Setting {
    group: Group::Executor,
    flag: "executor-repository-mib",
    env: "SURETY_EXECUTOR_REPOSITORY_MIB",
    default: "2048",
    accepts: Accepts::Whole { min: 1, max: 1_048_576, unit: "MiB" },
    meaning: "The disk that git may write for one run at a time, for the files of a revision and for their objects. A \
              run whose repository needs more ends with `repository_too_large`.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_DRIVER_LEASE_MS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-driver-lease-ms",
    env: "SURETY_EXECUTOR_DRIVER_LEASE_MS",
    default: "30000",
    accepts: Accepts::Whole { min: 500, max: 3_600_000, unit: "milliseconds" },
    meaning: "How long a remote driver keeps a leased step without a heartbeat or a decision. Afterwards another \
              driver can lease it.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_TURN_WAIT_MS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-turn-wait-ms",
    env: "SURETY_EXECUTOR_TURN_WAIT_MS",
    default: "30000",
    accepts: Accepts::Whole { min: 100, max: 30_000, unit: "milliseconds" },
    meaning: "How long SubmitDecision waits for the outcome of its turn. Afterwards it answers `TURN_OUTCOME_PENDING`, \
              and the remote driver submits the same turn again.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_RECORD_RECEIPTS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-record-receipts",
    env: "SURETY_EXECUTOR_RECORD_RECEIPTS",
    default: "*",
    accepts: Accepts::Name,
    meaning: "Which identities with the role worker have the right to report receipts (RecordReceipt): their names, \
              separated by commas, or `*` for every one. A driver never has it.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_WORKER_LEASE_MS: Setting = Setting {
    group: Group::Executor,
    flag: "executor-worker-lease-ms",
    env: "SURETY_EXECUTOR_WORKER_LEASE_MS",
    default: "30000",
    accepts: Accepts::Whole { min: 600, max: 3_600_000, unit: "milliseconds" },
    meaning: "How long the calls of a tool worker stay its own after its stream ended. A worker sends a message in \
              each third of this time; one that sends none for all of it is cut off. Set the same value on every \
              executor of one database.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_WORKER_CALL_TIMEOUT_S: Setting = Setting {
    group: Group::Executor,
    flag: "executor-worker-call-timeout-s",
    env: "SURETY_EXECUTOR_WORKER_CALL_TIMEOUT_S",
    default: "3600",
    accepts: Accepts::Whole { min: 1, max: 2_592_000, unit: "seconds" },
    meaning: "How long a call of a tool of workers may take, its attempts and its wait for a worker included, where \
              the worker names no timeout of the tool.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_WORKER_TOOL_TTL_S: Setting = Setting {
    group: Group::Executor,
    flag: "executor-worker-tool-ttl-s",
    env: "SURETY_EXECUTOR_WORKER_TOOL_TTL_S",
    default: "86400",
    accepts: Accepts::Whole { min: 1, max: 2_592_000, unit: "seconds" },
    meaning: "How long a tool of workers stays listed after its last worker left. Calls of it wait for a worker. Set \
              the same value on every executor of one database.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_DATA_DIR: Setting = Setting {
    group: Group::Executor,
    flag: "executor-data-dir",
    env: "SURETY_EXECUTOR_DATA_DIR",
    default: ".surety",
    accepts: Accepts::Path,
    meaning: "The folder in which the executor creates the workspaces of runs that name none, as \
              `workspaces/RUN`.",
    secret: false,
};

pub(in crate::config) const SANDBOX: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox",
    env: "SURETY_SANDBOX",
    default: "auto",
    accepts: Accepts::Word(&["auto", "full", "partial", "none"]),
    meaning: "What confines commands: the strongest level that the machine has, or exactly one. A level \
              that the machine lacks is an error at start. See [sandbox.md](sandbox.md).",
    secret: false,
};

pub(in crate::config) const SANDBOX_ALLOW_NONE: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-allow-none",
    env: "SURETY_SANDBOX_ALLOW_NONE",
    default: "false",
    accepts: Accepts::Switch,
    meaning: "Let a run's policy ask for commands without a sandbox, as checks that start containers \
              need.",
    secret: false,
};

pub(in crate::config) const SANDBOX_READ_ONLY: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-read-only",
    env: "SURETY_SANDBOX_READ_ONLY",
    default: "",
    accepts: Accepts::Paths,
    meaning: "Files and folders that commands may read and run besides the system's, the toolchains of \
              `PATH` and the workspace.",
    secret: false,
};

pub(in crate::config) const SANDBOX_WRITABLE: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-writable",
    env: "SURETY_SANDBOX_WRITABLE",
    default: "",
    accepts: Accepts::Paths,
    meaning: "Files and folders that commands of every run may write besides their workspace, such as a \
              shared compiler cache. What one command writes there, all later ones read.",
    secret: false,
};

pub(in crate::config) const SANDBOX_PROCESSES: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-processes",
    env: "SURETY_SANDBOX_PROCESSES",
    default: "",
    accepts: Accepts::Whole { min: 16, max: 100_000, unit: "processes" },
    meaning: "How many processes and threads one command may have at a time. Without it 24 for each \
              processor, and 192 at least.",
    secret: false,
};

pub(in crate::config) const SANDBOX_MEMORY_MIB: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-memory-mib",
    env: "SURETY_SANDBOX_MEMORY_MIB",
    default: "",
    accepts: Accepts::Whole { min: 64, max: 16_777_216, unit: "MiB" },
    meaning: "How much memory one command may use. Without it three quarters of the machine's.",
    secret: false,
};

pub(in crate::config) const SANDBOX_DISK_MIB: Setting = Setting {
    group: Group::Executor,
    flag: "sandbox-disk-mib",
    env: "SURETY_SANDBOX_DISK_MIB",
    default: "16384",
    accepts: Accepts::Whole { min: 16, max: 16_777_216, unit: "MiB" },
    meaning: "How much one command may write to disk. It is looked at once a second, so a command can \
              write as much more as the disk takes in a second.",
    secret: false,
};
