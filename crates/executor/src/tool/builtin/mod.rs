//! The built-in tools of every executor.

pub mod apply_patch;
pub mod edit_file;
pub mod glob;
pub mod grep;
pub mod http_get;
pub mod list_dir;
pub mod noop;
pub mod read_file;
pub mod run_command;
mod support;
pub mod write_file;

use crate::tool::Tool;
use std::sync::Arc;

/// One of each. `http_allowed` are the addresses that `http_get` may read, `host:port` separated by commas.
///
/// # Errors
/// The TLS provider cannot be used.
pub fn all(http_allowed: Option<&str>) -> Result<Vec<Arc<dyn Tool>>, reqwest::Error> {
    Ok(vec![
        Arc::new(apply_patch::ApplyPatch::new()),
        Arc::new(edit_file::EditFile::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(http_get::HttpGet::new(http_allowed)?),
        Arc::new(list_dir::ListDir::new()),
        Arc::new(noop::Noop::new()),
        Arc::new(read_file::ReadFile::new()),
        Arc::new(run_command::RunCommand::new()),
        Arc::new(write_file::WriteFile::new()),
    ])
}
