//! The models of cases: one server, which tells runs apart by the mark in their goals.

use super::base::Base;
use super::calls::replies;
use super::case::Case;
use crate::model_server::{Asked, ModelServer, Reply, Script, Settings};
use anyhow::{Context, Result};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// The model's name at its server.
pub const MODEL: &str = "test-model";

/// What the models of runs have still to say, by the marks of their goals.
type Lines = Arc<Mutex<HashMap<String, VecDeque<String>>>>;

/// The models of all cases, until it is dropped.
pub struct Models {
    server: ModelServer,
    lines: Lines,
}

impl Models {
    /// Serves on a free port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self> {
        let lines = Lines::default();
        let of_server = Arc::clone(&lines);
        let script = Script::function(move |asked| match next(&of_server, asked) {
            Some(text) => Reply::text(text),
            None => Reply::status(400).saying("no case has a model for this goal"),
        });
        let server = ModelServer::start(Settings::default(), script).await?;
        Ok(Self { server, lines })
    }

    /// The address, for `SURETY_MODEL_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A mark for the goal of a case's run; from now on the model answers for it.
    pub(super) fn mark(&self, case: &Case) -> Result<String> {
        let base = Base::of(&case.base)?;
        let mut said = VecDeque::new();
        for action in &case.model {
            match action.get("plan") {
                Some(plan) => said.push_back(plan.to_string()),
                None => said.extend(replies(&base, action)?.with_context(|| action.to_string())?),
            }
        }
        let mark = format!("run-{}", Uuid::now_v7().simple());
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).insert(mark.clone(), said);
        Ok(mark)
    }
}

/// The next reply. A model whose case says nothing more claims that it is done.
fn next(lines: &Lines, asked: &Asked) -> Option<String> {
    let text = asked.body.to_string();
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, said) = lines.iter_mut().find(|(mark, _)| text.contains(mark.as_str()))?;
    let claim =
        json!({"action": "done", "speak": "All of it is done.", "goal_check": "all tests pass"});
    Some(said.pop_front().unwrap_or_else(|| claim.to_string()))
}
