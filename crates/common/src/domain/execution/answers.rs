//! What people answered to the questions of a run's drivers: later steps and attempts are shown it.

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

impl GivenAnswer {
    /// Keeps the answer to a question of a step, beside earlier ones.
    pub(super) fn keep(answers: &mut Vec<Self>, step_id: &str, question: &str, answer: &Answer) {
        answers.push(Self {
            wait_id: answer.wait_id,
            step_id: step_id.to_owned(),
            question: shortened(question, QUESTION_BYTES),
            answer: shortened(&answer.text, ANSWER_BYTES),
            by: answer.by.0.to_string(),
        });
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
