//! How a process is set up: flags, environment variables and files.
//!
//! ```text
//!   settings (the one table)  ->  the clap structs (one per concern, flattened by each binary)
//!                             ->  document (docs/configuration.md)
//!                             ->  effective (what `surety config check` prints)
//! ```
//!
//! A setting is declared once, in [`settings`]. The structs take flag, variable, default, range
//! and meaning from that declaration, so the table, the help and the documentation cannot differ.

mod addresses;
mod anchor;
mod client;
mod common;
mod document;
mod effective;
mod error;
mod forges;
mod key_files;
mod mcp;
mod model_driver;
mod models;
mod namespaces;
mod prompts;
mod secret;
mod secrets;
mod services;
mod settings;
mod tls;
mod token;
mod toolchain;
mod value;
mod webhooks;

pub use addresses::AllowedAddresses;
pub use anchor::{AnchorAuthority, GateAnchorConfig};
pub use client::{AddressConfig, ClientConfig, DataDirConfig, McpSessionsConfig, PostgresConfig};
pub use common::{CommonConfig, ConnectionsConfig, TelemetryConfig};
pub use document::document;
#[cfg(feature = "telemetry")]
pub(crate) use effective::without_password;
pub use effective::{Effective, Source, effective};
pub use error::ConfigError;
pub use forges::{ForgeCredential, ForgeSettings, ForgesFile};
pub use key_files::KeyFilesConfig;
pub use mcp::{McpAnnotations, McpCommand, McpServer, McpTransport, McpUrl, SEPARATOR, WORKSPACE};
pub use model_driver::ModelDriverConfig;
pub use models::ModelConfig;
pub use namespaces::NamespaceDatabase;
pub use prompts::{BuiltinPrompt, PROMPTS, Prompt, check_prompts};
pub use secret::Secret;
pub use secrets::{NamedSecret, NamedSecrets, SecretSource};
pub use services::{
    ExecutorConfig, GateConfig, GateProbeConfig, HooksConfig, PlannerConfig, RetentionConfig,
    SandboxConfig,
};
pub use settings::{Accepts, Group, Setting, settings};
pub use tls::{ClientTlsConfig, TlsConfig};
pub use token::{FileToken, open_to_all, read_client_token, read_token_file};
pub use toolchain::{
    AddedStepConfig, DEFAULT_REMINDER, MAX_REMINDER_HOURS, REMINDER_HOURS, RiskConfig, StepsConfig,
    ToolchainConfig,
};
pub use value::LogFormat;
pub use webhooks::{SECRET_PREFIX, Webhook};
