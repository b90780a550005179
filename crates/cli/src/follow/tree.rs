//! The steps of a plan as a tree. Pure.

use super::view::StepView;

/// One step in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch<'v> {
    pub(super) step: &'v StepView,
    /// The lines from the root, such as `│  ├─ `.
    pub(super) lines: String,
    /// The same for what stands below the step.
    pub(super) below: String,
    /// The steps that it needs, where the tree does not show them.
    pub(super) after: Vec<&'v str>,
}

/// The steps in the order of the tree. A step that is the only one to need another stands behind it, one of several
/// stands below it, and one that needs several stands at the root and names them.
pub(super) fn branches(steps: &[StepView]) -> Vec<Branch<'_>> {
    let parents: Vec<_> = (0..steps.len()).map(|at| parent(steps, at)).collect();
    let mut out = Vec::with_capacity(steps.len());
    grow(steps, &parents, None, "", &mut out);
    // No valid plan has a cycle, whose steps have no root.
    for step in steps {
        if !out.iter().any(|branch| std::ptr::eq(branch.step, step)) {
            let (lines, below) = ("└─ ".to_owned(), "   ".to_owned());
            out.push(Branch { step, lines, below, after: Vec::new() });
        }
    }
    out
}

/// The step below which this one stands; none for the root.
fn parent(steps: &[StepView], at: usize) -> Option<usize> {
    let mut at = at;
    // A chain is as long as the plan at most.
    for _ in 0..steps.len() {
        let needed = needed(steps, at)?;
        let dependents = steps.iter().filter(|step| step.dependencies.contains(&steps[needed].id));
        if dependents.count() > 1 {
            return Some(needed);
        }
        at = needed;
    }
    None
}

/// The only step that this one needs.
fn needed(steps: &[StepView], at: usize) -> Option<usize> {
    let [only] = steps.get(at)?.dependencies.as_slice() else { return None };
    steps.iter().position(|step| step.id == *only)
}

fn grow<'v>(
    steps: &'v [StepView],
    parents: &[Option<usize>],
    below: Option<usize>,
    lines: &str,
    out: &mut Vec<Branch<'v>>,
) {
    let here: Vec<_> = (0..steps.len()).filter(|at| parents.get(*at) == Some(&below)).collect();
    for (place, at) in here.iter().enumerate() {
        let Some(step) = steps.get(*at) else { continue };
        let (mark, under) =
            if place + 1 == here.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let after = match step.dependencies.as_slice() {
            [] | [_] => Vec::new(),
            several => several.iter().map(String::as_str).collect(),
        };
        let deeper = format!("{lines}{under}");
        out.push(Branch { step, lines: format!("{lines}{mark}"), below: deeper.clone(), after });
        grow(steps, parents, Some(*at), &deeper, out);
    }
}

#[cfg(test)]
mod tests {
    use surety_common::wire::v1;

    use super::super::view::RunView;
    use super::*;

    fn drawn(plan: &[(&str, &[&str])]) -> Vec<String> {
        let step = |(id, needs): &(&str, &[&str])| v1::PlanStep {
            id: (*id).to_owned(),
            dependencies: needs.iter().map(|it| (*it).to_owned()).collect(),
            ..v1::PlanStep::default()
        };
        let plan = v1::Plan { steps: plan.iter().map(step).collect(), ..v1::Plan::default() };
        let mut view = RunView::of(&v1::Run::default());
        view.read(v1::Run::default(), Some(plan), Vec::new());
        let line = |branch: Branch<'_>| {
            format!("{}{} {}", branch.lines, branch.step.id, branch.after.join(","))
        };
        branches(&view.steps).into_iter().map(|it| line(it).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_chain_is_flat_a_fork_is_deeper_and_a_join_names_what_it_needs() {
        let chain = drawn(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
        assert_eq!(chain, ["├─ a", "├─ b", "└─ c"]);
        let fork =
            drawn(&[("a", &[]), ("b", &["a"]), ("b2", &["b"]), ("c", &["a"]), ("d", &["b2", "c"])]);
        assert_eq!(fork, ["├─ a", "│  ├─ b", "│  ├─ b2", "│  └─ c", "└─ d b2,c"]);
    }

    #[test]
    fn every_step_stands_in_the_tree_once_whatever_it_needs() {
        for plan in [
            [("a", ["b"].as_slice()), ("b", &["a"])],
            [("a", &["gone"]), ("b", &["a"])],
            [("a", &["a"]), ("b", &["a"])],
        ] {
            assert_eq!(drawn(&plan).len(), 2, "{plan:?}");
        }
    }
}
