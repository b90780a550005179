//! What people answered to the questions of a run's drivers: later steps and attempts are shown it.

use super::Execution;
use crate::domain::journal::Answer;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The answers that are kept; the earliest is left out first.
const KEPT: usize = 20;
/// The longest question and the longest answer that are kept, in bytes.
const QUESTION_BYTES: usize = 500;
const ANSWER_BYTES: usize = 2_000;

/// A person's answer to a question of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The wait that it ended.
    pub wait_id: Uuid,
    /// The step whose driver asked.
    pub step_id: String,
    /// The question, shortened.
    pub question: String,
    /// The answer, shortened; the journal has all of it.
    pub answer: String,
    /// Who answered.
    pub by: String,
}

impl Execution {
    /// Keeps an answer to a question of a step's driver. An answer about a call whose outcome is unknown is none.
    pub(super) fn keep_answer(&mut self, index: usize, step_id: &str, answer: &Answer) {
        let Some(step) = self.step(index).filter(|step| step.open_call.is_none()) else { return };
        let Some(wait) = step.wait.as_deref().filter(|wait| wait.id == answer.wait_id) else {
            return;
        };
        let given = GivenAnswer {
            wait_id: answer.wait_id,
            step_id: step_id.to_owned(),
            question: shortened(&wait.question, QUESTION_BYTES),
            answer: shortened(&answer.text, ANSWER_BYTES),
            by: answer.by.0.to_string(),
        };
        let answers = &mut self.counters.answers;
        answers.push(given);
        let before = answers.len().saturating_sub(KEPT);
        answers.drain(..before);
    }
}

fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{} [shortened]", text.get(..end).unwrap_or_default())
}
