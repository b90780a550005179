//! What a plan consists of: its texts, and its checks with their places.

use super::{Plan, PlanStep};
use crate::domain::check::{AcceptCheck, CheckKind, PATHS, changed_paths};
use crate::domain::problem::{Code, Problem};
use crate::domain::scope::glob_set;
use crate::domain::todo::Todo;
use std::fmt;

/// The place of a check in a plan. Its path is written where the check is refused only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckPlace {
    /// The index of the step whose check it is; none for a check of the plan.
    step: Option<usize>,
    at: usize,
}

impl fmt::Display for CheckPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "steps[{step}].verify[{}]", self.at),
            None => write!(f, "verify[{}]", self.at),
        }
    }
}

impl Plan {
    /// The checks of the plan and of its steps.
    pub fn all_checks(&self) -> impl Iterator<Item = &AcceptCheck> {
        self.verify.iter().chain(self.steps.iter().flat_map(|step| &step.verify))
    }

    /// As [`Plan::all_checks`], each with its place.
    pub fn placed_checks(&self) -> impl Iterator<Item = (CheckPlace, &AcceptCheck)> {
        let of_steps = self.steps.iter().enumerate().flat_map(|(step, PlanStep { verify, .. })| {
            let placed = verify.iter().enumerate();
            placed.map(move |(at, check)| (CheckPlace { step: Some(step), at }, check))
        });
        let own = self.verify.iter().enumerate();
        own.map(|(at, check)| (CheckPlace { step: None, at }, check)).chain(of_steps)
    }

    /// Refuses globs of checks that do not read: such a check would fail only after everything has run.
    ///
    /// # Errors
    /// `type_mismatch`, with the path of the globs.
    pub fn check_globs(&self) -> Result<(), Problem> {
        let is_asking = |check: &AcceptCheck| check.kind == CheckKind::WorkspaceChange;
        for (place, check) in self.placed_checks().filter(|(_, check)| is_asking(check)) {
            glob_set(&changed_paths(check)).map_err(|error| {
                let glob = error.glob().unwrap_or_default();
                let message = format!("{glob:?} is not a valid glob: {}", error.kind());
                Problem::at(Code::TypeMismatch, format!("{place}.params.{PATHS}"), message)
            })?;
        }
        Ok(())
    }

    /// Refuses checks of steps that only the gate decides, at the end of a run: no step with one could be done.
    ///
    /// # Errors
    /// `type_mismatch`, with the path of the kind.
    pub fn check_kinds(&self) -> Result<(), Problem> {
        let is_of_gate = |(place, check): &(CheckPlace, &AcceptCheck)| {
            let kinds = [CheckKind::ActionReport, CheckKind::Expression, CheckKind::HttpProbe];
            place.step.is_some() && kinds.contains(&check.kind)
        };
        self.placed_checks().find(is_of_gate).map_or(Ok(()), |(place, check)| {
            let kind = check.kind.as_str();
            let message = format!(
                "the gate decides {kind} at the end of the run; put it among the checks of the plan"
            );
            Err(Problem::at(Code::TypeMismatch, format!("{place}.kind"), message))
        })
    }

    /// Whether one of its texts is of the given kind. What the arguments of scripted calls hold is no text of the plan.
    pub fn has_text(&self, is_meant: impl Fn(&str) -> bool + Copy) -> bool {
        let Self { title, goal, steps, verify, todos } = self;
        is_meant(title)
            || is_meant(goal)
            || steps.iter().any(|step| step_has_text(step, is_meant))
            || verify.iter().any(|check| check_has_text(check, is_meant))
            || todos.iter().any(|todo| todo_has_text(todo, is_meant))
    }
}

fn step_has_text(step: &PlanStep, is_meant: impl Fn(&str) -> bool + Copy) -> bool {
    let PlanStep {
        id,
        description,
        dependencies,
        tools_expected,
        outputs_expected,
        verify,
        done_when,
        evidence: _,
        script,
        write_scope,
        confirm_tools,
    } = step;
    let lists = [dependencies, tools_expected, outputs_expected, write_scope, confirm_tools];
    [id, description, done_when].into_iter().any(|text| is_meant(text))
        || lists.into_iter().flatten().any(|text| is_meant(text))
        || script.iter().any(|call| is_meant(&call.name))
        || verify.iter().any(|check| check_has_text(check, is_meant))
}

fn check_has_text(check: &AcceptCheck, is_meant: impl Fn(&str) -> bool + Copy) -> bool {
    let AcceptCheck { id, kind, target, r#match: _, required: _, params, owner: _, overlay } =
        check;
    [id.as_str(), kind.as_str(), target, overlay.digest()].into_iter().any(is_meant)
        || params.iter().any(|(key, text)| is_meant(key) || is_meant(text))
}

fn todo_has_text(todo: &Todo, is_meant: impl Fn(&str) -> bool + Copy) -> bool {
    let Todo { id, content, required: _, status: _, dependencies, replaces, created_at: _ } = todo;
    is_meant(id)
        || is_meant(content)
        || dependencies.iter().chain(replaces).any(|text| is_meant(text))
}
