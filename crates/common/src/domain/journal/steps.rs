//! What a journal says of the steps of a run.

use super::stored::StoredError;
use super::{Subject, Transition};
use crate::domain::step::StepState;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;

/// The state to which each step came last, by the id of the step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournaledSteps(HashMap<String, String>);

/// The part of a stored transition that is needed.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    transition: Moved<'a>,
}

#[derive(Deserialize)]
struct Moved<'a> {
    /// Absent for a transition of the run itself.
    #[serde(borrow, default)]
    step: Cow<'a, str>,
    #[serde(borrow)]
    to: Cow<'a, str>,
}

impl JournaledSteps {
    /// Takes a transition as it is stored.
    pub(super) fn read(&mut self, entry: &str) -> Result<(), StoredError> {
        let stored: Result<Stored<'_>, _> = serde_json::from_str(entry);
        let Moved { step, to } = stored.map_err(|error| StoredError(error.to_string()))?.transition;
        self.moved(&step, &to);
        Ok(())
    }

    /// Takes a transition.
    pub fn take(&mut self, transition: &Transition) {
        if let Subject::Step(id) = &transition.subject {
            self.moved(id, &transition.to);
        }
    }

    fn moved(&mut self, step: &str, to: &str) {
        if step.is_empty() {
            return;
        }
        match self.0.get_mut(step) {
            Some(last) => to.clone_into(last),
            None => drop(self.0.insert(step.to_owned(), to.to_owned())),
        }
    }

    /// Whether a step that has ended came to this state last. Of other steps nothing is said: a lease changes them.
    pub fn agree(&self, step: &str, state: StepState) -> bool {
        !state.is_settled() || self.0.get(step).is_some_and(|last| last == state.as_str())
    }
}
