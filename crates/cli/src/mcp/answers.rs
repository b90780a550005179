//! Answers of tools in the form of the protocol.

use rmcp::model::{CallToolResult, ContentBlock};

use super::observer::{Answer, bounded};
use crate::failure::Failure;

/// The result of a tool.
pub(super) fn answer_of(answer: Answer) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    result.structured_content = Some(answer.value);
    result
}

/// The result of a tool that may have failed, which the agent reads.
pub(super) fn answered(answer: Result<Answer, Failure>) -> CallToolResult {
    match answer {
        Ok(answer) => answer_of(answer),
        Err(failure) => {
            let mut result =
                CallToolResult::error(vec![ContentBlock::text(bounded(failure.to_text()))]);
            result.structured_content = Some(failure.to_json().to_serde());
            result
        }
    }
}
