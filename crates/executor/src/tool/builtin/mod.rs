//! The built-in tools of every executor.

pub mod apply_patch;
pub mod edit_file;
pub mod find_symbol;
pub mod forge;
pub mod forge_push;
pub mod glob;
pub mod grep;
pub mod http_get;
pub mod list_dir;
pub mod noop;
pub mod read_file;
pub mod read_output;
pub mod report;
pub mod run_command;
pub mod sleep;
mod support;
pub mod todo;
pub mod verify;
pub mod write_file;

use crate::fuse::timeout::DEFAULT_S;
use crate::tool::Tool;
use std::sync::Arc;
use std::time::Duration;

/// What the operator sets of the built-in tools.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinSettings<'a> {
    /// The addresses that `http_get` may read, `host:port` separated by commas; none for no address.
    pub http_allowed: Option<&'a str>,
    /// How long a command may take that asks for no time of its own.
    pub command_timeout: Duration,
    /// Other names of tools, `alias=tool` separated by commas.
    pub aliases: Option<&'a str>,
}

impl Default for BuiltinSettings<'_> {
    fn default() -> Self {
        let command_timeout = Duration::from_secs(DEFAULT_S);
        Self { http_allowed: None, command_timeout, aliases: None }
    }
}

/// One of each that works in the workspace or outside.
///
/// # Errors
/// The TLS provider cannot be used.
pub fn all(settings: &BuiltinSettings<'_>) -> Result<Vec<Arc<dyn Tool>>, reqwest::Error> {
    Ok(vec![
        Arc::new(apply_patch::ApplyPatch::new()),
        Arc::new(edit_file::EditFile::new()),
        Arc::new(find_symbol::FindSymbol::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(http_get::HttpGet::new(settings.http_allowed)?),
        Arc::new(list_dir::ListDir::new()),
        Arc::new(noop::Noop::new()),
        Arc::new(read_file::ReadFile::new()),
        Arc::new(run_command::RunCommand::new(settings.command_timeout)),
        Arc::new(verify::Verify::new(settings.command_timeout)),
        Arc::new(write_file::WriteFile::new()),
    ])
}
