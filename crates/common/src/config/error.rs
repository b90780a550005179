//! Errors of a configuration that concern more than the syntax of one value.

use std::path::PathBuf;

use thiserror::Error;

/// A setting that cannot be used; each message says what is wrong, where, and what to do.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A prompt of the operator's folder cannot be used.
    #[error("the prompt {path} (--model-prompts-dir, SURETY_MODEL_PROMPTS_DIR) {why}")]
    Prompt {
        /// The file, or the folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A private key cannot be made or read. Its text is not shown.
    #[error(
        "the key file {path} cannot be used: {why}. Name another one with the setting of its service: --planner-key-file \
         (SURETY_PLANNER_KEY_FILE), --executor-key-file (SURETY_EXECUTOR_KEY_FILE) or --gate-key-file \
         (SURETY_GATE_KEY_FILE)"
    )]
    KeyUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Other users can read a private key.
    #[error(
        "the key file {path} can be read by other users of this machine (mode {mode:03o}), so its key proves \
         nothing. Run: chmod 600 {path}, and rotate the key with `surety keys rotate`"
    )]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key that is to be replaced is none that the file of trusted keys has.
    #[error(
        "the key {key} of the {service} in {key_file} is not trusted in {trusted}, so no reader of that file would trust \
         its successor. Name the file that the services read with --trusted-keys-file (SURETY_TRUSTED_KEYS_FILE), and \
         the key file of the service with --key-file; or trust the key first: `surety keys make {service} \
         --key-file {key_file} --trusted-keys-file {trusted}`"
    )]
    KeyNotTrusted {
        /// The id of the key.
        key: String,
        /// Its service.
        service: &'static str,
        /// Its file.
        key_file: PathBuf,
        /// The file of trusted keys.
        trusted: PathBuf,
    },
    /// The file of trusted keys cannot be used.
    #[error(
        "the file {path} with the trusted keys {why}. `surety up` and `surety keys pin` write such a file; name another \
         one with --trusted-keys-file (SURETY_TRUSTED_KEYS_FILE)"
    )]
    TrustedKeysUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Anchors are on, and something that they need is not set.
    #[error(
        "--{flag} is set, and --{needed} is not. Set it, or remove --{flag} to turn anchors off"
    )]
    AnchorNeeds {
        /// What turned anchors on.
        flag: &'static str,
        /// What is missing.
        needed: &'static str,
    },
    /// A file or folder of anchors cannot be used.
    #[error("{path} of --{flag} cannot be used: {why}")]
    AnchorUnusable {
        /// The setting.
        flag: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file with the forges could not be read.
    #[error(
        "the file {path} with the forges cannot be read: {source}. Point --forges-file \
         (SURETY_FORGES_FILE) at the right file"
    )]
    ForgesUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A key of the file with the forges cannot be used.
    #[error("{place} of {path} (--forges-file, SURETY_FORGES_FILE) {why}")]
    ForgesInvalid {
        /// The file as it was given.
        path: PathBuf,
        /// The key or the line.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A setting without a default was not given.
    #[error("--{flag} ({env}) is missing. Set it, for example to {example}")]
    Missing {
        /// The flag.
        flag: &'static str,
        /// The environment variable.
        env: &'static str,
        /// An example of a value.
        example: &'static str,
    },
    /// The token file could not be read.
    #[error(
        "the token file {path} cannot be read: {source}. This user must be able to read it, and it \
         has a line for each token, `<token> <name> <roles> <namespaces>`; or point --token-file (SURETY_TOKEN_FILE) at the \
         right file"
    )]
    TokenUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The token file is blank.
    #[error(
        "the token file {path} is empty. Write the token into it, or do not set --token-file \
         (SURETY_TOKEN_FILE)"
    )]
    TokenEmpty {
        /// The file as it was given.
        path: PathBuf,
    },
    /// A line of the token file does not read. The line is not shown, for it holds a secret.
    #[error("line {line} of the token file {path} (--token-file, SURETY_TOKEN_FILE) {why}")]
    TokenLine {
        /// The file as it was given.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to do.
        why: String,
    },
    /// An executor could not ask the gate for a verdict.
    #[error(
        "the executor has no token with the role service, which it shows to the acceptgate. Name a \
         file that holds one with --token-file (SURETY_TOKEN_FILE), or set a certificate that the \
         acceptgate maps to that role with --tls-cert-file (SURETY_TLS_CERT_FILE)"
    )]
    ServiceTokenMissing,
    /// Every user of the machine can read the token.
    #[error(
        "the token file {path} can be read by every user of this machine (mode {mode:03o}). \
         Run: chmod 600 {path}"
    )]
    TokenExposed {
        /// The file as it was given.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file with the webhooks could not be read.
    #[error(
        "the file {path} with the webhooks cannot be read: {source}. Point --webhooks-file \
         (SURETY_WEBHOOKS_FILE) at the right file"
    )]
    WebhooksUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Every user of the machine can read the secrets in the file.
    #[error(
        "the file {path} of --webhooks-file (SURETY_WEBHOOKS_FILE) can be read by every user of this \
         machine (mode {mode:03o}). Run: chmod 600 {path}"
    )]
    WebhooksExposed {
        /// The file as it was given.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line of it does not read. The line is not shown, for it holds a secret.
    #[error("line {line} of {path} (--webhooks-file, SURETY_WEBHOOKS_FILE) {why}")]
    WebhooksLine {
        /// The file as it was given.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// The file that names the databases of namespaces could not be read.
    #[error(
        "the file {path} that names the databases of namespaces cannot be read: {source}. Create \
         it with a line for each, `<namespace> <postgres url>`, or point \
         --namespace-databases-file (SURETY_NAMESPACE_DATABASES_FILE) at the right file"
    )]
    NamespacesUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file names no namespace.
    #[error(
        "the file {path} names no namespace. Write a line for each into it, `<namespace> \
         <postgres url>`, or do not set --namespace-databases-file (SURETY_NAMESPACE_DATABASES_FILE)"
    )]
    NamespacesEmpty {
        /// The file as it was given.
        path: PathBuf,
    },
    /// Every user of the machine can read the passwords in the file.
    #[error(
        "the file {path} of --namespace-databases-file (SURETY_NAMESPACE_DATABASES_FILE) can be \
         read by every user of this machine (mode {mode:03o}). Run: chmod 600 {path}"
    )]
    NamespacesExposed {
        /// The file as it was given.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line of it does not read. The line is not shown, for it may hold a password.
    #[error(
        "line {line} of {path} (--namespace-databases-file, SURETY_NAMESPACE_DATABASES_FILE) {why}"
    )]
    NamespacesLine {
        /// The file as it was given.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// The file with the MCP servers could not be read.
    #[error(
        "the file {path} with the MCP servers cannot be read: {source}. Point --executor-mcp \
         (SURETY_EXECUTOR_MCP) at the right file"
    )]
    McpUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A key of it cannot be used.
    #[error("{place} of {path} (--executor-mcp, SURETY_EXECUTOR_MCP) {why}")]
    McpInvalid {
        /// The file as it was given.
        path: PathBuf,
        /// The key or the line.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The file with the rules for tasks cannot be read.
    #[error(
        "the file {path} with the rules for tasks cannot be read: {source}. Point --toolchain-file \
         (SURETY_TOOLCHAIN_FILE) at the right file"
    )]
    ToolchainUnreadable {
        /// The file as it was given.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A key of it cannot be used.
    #[error("{place} of {path} (--toolchain-file, SURETY_TOOLCHAIN_FILE) {why}")]
    ToolchainInvalid {
        /// The file as it was given.
        path: PathBuf,
        /// The key.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// An executor would be declared dead between two of its heartbeats.
    #[error(
        "--executor-heartbeat-interval-ms (SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS) is \
         {interval_ms} and --executor-heartbeat-age-limit-ms \
         (SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS) is {limit_ms}: one late heartbeat would cost a \
         running executor its leases. Set the limit to at least twice the interval"
    )]
    HeartbeatTooSlow {
        /// The time between two heartbeats, in milliseconds.
        interval_ms: u64,
        /// The age at which an executor is declared dead, in milliseconds.
        limit_ms: u64,
    },
}
