//! The dependencies of a plan's steps, and which of them must not run together.

use crate::domain::plan::Plan;
use crate::domain::scope::Writes;

/// The dependencies of a plan's steps by index, and, for the start of steps, which of them must not
/// run together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    ids: Vec<String>,
    dependencies: Vec<Vec<usize>>,
    writes: Vec<Writes>,
}

impl Graph {
    /// The graph of a validated plan.
    pub fn of(plan: &Plan) -> Self {
        let ids: Vec<String> = plan.steps.iter().map(|step| step.id.clone()).collect();
        let place = |id: &String| ids.iter().position(|other| other == id);
        let dependencies = plan
            .steps
            .iter()
            .map(|step| step.dependencies.iter().filter_map(place).collect())
            .collect();
        Self { ids, dependencies, writes: Vec::new() }
    }

    /// The same graph with each step's write scope, in the plan's order. Without it steps count as
    /// writing nothing, which suffices for all changes except the start of a step.
    #[must_use]
    pub fn with_writes(mut self, writes: Vec<Writes>) -> Self {
        self.writes = writes;
        self
    }

    /// Whether two steps could write the same file, so that they must not run together.
    pub fn collide(&self, one: usize, other: usize) -> bool {
        match (self.writes.get(one), self.writes.get(other)) {
            (Some(one), Some(other)) => one.overlap(other),
            (None, _) | (_, None) => false,
        }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The id of the step at an index; empty without one.
    pub fn id(&self, index: usize) -> &str {
        self.ids.get(index).map_or("", String::as_str)
    }

    /// The index of the step with an id.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|other| other == id)
    }

    /// The indexes of the steps that a step depends on.
    pub fn dependencies(&self, index: usize) -> &[usize] {
        self.dependencies.get(index).map_or(&[], Vec::as_slice)
    }
}
