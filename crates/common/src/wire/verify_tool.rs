//! Named verification commands on the wire.

use super::error::MessageError;
use super::v1;
use super::value::{seconds, whole_seconds};
use crate::domain::verify_tool::VerifyTool;

impl From<VerifyTool> for v1::VerifyTool {
    fn from(tool: VerifyTool) -> Self {
        let VerifyTool { name, argv, timeout_s } = tool;
        Self { name, argv, timeout: timeout_s.map(whole_seconds) }
    }
}

/// The commands of a message; their rules are the domain's.
///
/// # Errors
/// A time limit that is no whole number of seconds.
pub fn read_verify_tools(
    field: &str,
    tools: Vec<v1::VerifyTool>,
) -> Result<Vec<VerifyTool>, MessageError> {
    let read = |(place, tool): (usize, v1::VerifyTool)| {
        let v1::VerifyTool { name, argv, timeout } = tool;
        let field = format!("{field}[{place}].timeout");
        let timeout_s = timeout.map(|timeout| seconds(&field, timeout)).transpose()?;
        Ok(VerifyTool { name, argv, timeout_s })
    };
    tools.into_iter().enumerate().map(read).collect()
}
