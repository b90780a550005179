//! The rules of the steps of users and operators under the plan of a driver: they stay, and may be tightened.

use std::collections::HashMap;
use surety_common::domain::plan::{Evidence, Plan, PlanStep};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::scope::is_within;

/// Keeps the rules of the steps of the old plan that no driver planned. What the new plan leaves out stays as it was, and the
/// tools to confirm add up.
///
/// # Errors
/// `step_rule_protected` where the new plan loosens one.
pub fn keep_step_rules(old: &Plan, new: &mut Plan, planned: &[String]) -> Result<(), Problem> {
    let given = old.steps.iter().filter(|step| !planned.contains(&step.id));
    let given: HashMap<&str, &PlanStep> = given.map(|step| (step.id.as_str(), step)).collect();
    for (at, step) in new.steps.iter_mut().enumerate() {
        if let Some(was) = given.get(step.id.as_str()) {
            keep_rules(was, step, at)?;
        }
    }
    Ok(())
}

fn keep_rules(was: &PlanStep, step: &mut PlanStep, at: usize) -> Result<(), Problem> {
    let added = was.confirm_tools.iter().filter(|tool| !step.confirm_tools.contains(tool));
    let added: Vec<String> = added.cloned().collect();
    step.confirm_tools.extend(added);
    if step.write_scope.is_empty() {
        step.write_scope.clone_from(&was.write_scope);
    }
    if step.tools_expected.is_empty() {
        step.tools_expected.clone_from(&was.tools_expected);
    }
    let loosened = |field: &str, rule: &str| {
        let message = format!(
            "the step {:?} came from a user or an operator, {rule}; only they may loosen that",
            step.id
        );
        Err(Problem::at(Code::StepRuleProtected, format!("steps[{at}].{field}"), message))
    };
    if !was.write_scope.is_empty() && !is_within(&step.write_scope, &was.write_scope) {
        let rule = format!("who let it write {} and no more", was.write_scope.join(", "));
        return loosened("write_scope", &rule);
    }
    let is_expected = |tool: &String| was.tools_expected.contains(tool);
    if !was.tools_expected.is_empty() && !step.tools_expected.iter().all(is_expected) {
        let rule = format!("who let it call {} and no more", was.tools_expected.join(", "));
        return loosened("tools_expected", &rule);
    }
    if was.evidence == Evidence::Required && step.evidence == Evidence::None {
        return loosened("evidence", "who ask for evidence of it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    fn step(scope: &[&str], tools: &[&str], confirm: &[&str], evidence: Evidence) -> PlanStep {
        PlanStep {
            id: "s".to_owned(),
            write_scope: texts(scope),
            tools_expected: texts(tools),
            confirm_tools: texts(confirm),
            evidence,
            ..PlanStep::default()
        }
    }

    fn plan(step: PlanStep) -> Plan {
        Plan { steps: vec![step], ..Plan::default() }
    }

    #[test]
    fn a_driver_tightens_the_rules_of_a_given_step_and_never_loosens_them() {
        use Evidence::{None as NotAsked, Required};
        let was = step(&["src/**"], &["a", "b"], &["a"], Required);
        let bare = PlanStep { id: "s".to_owned(), ..PlanStep::default() };
        let other = PlanStep { id: "t".to_owned(), ..bare.clone() };
        for (new, expected) in [
            (was.clone(), Ok(was.clone())),
            (bare.clone(), Ok(was.clone())),
            (
                step(&["src/a/*"], &["b"], &["b"], Required),
                Ok(step(&["src/a/*"], &["b"], &["b", "a"], Required)),
            ),
            (other.clone(), Ok(other)),
            (step(&["**"], &[], &[], Required), Err("steps[0].write_scope")),
            (step(&[], &["a", "c"], &[], Required), Err("steps[0].tools_expected")),
            (step(&[], &[], &[], NotAsked), Err("steps[0].evidence")),
        ] {
            let mut changed = plan(new.clone());
            let kept = keep_step_rules(&plan(was.clone()), &mut changed, &[]);
            let found = kept.map(|()| changed).map_err(|problem| problem.field);
            let expected = expected.map(plan).map_err(|field| Some(field.to_owned()));
            assert_eq!(found, expected, "{new:?}");
            // A step that a driver planned is a driver's to change.
            let mut changed = plan(new.clone());
            keep_step_rules(&plan(was.clone()), &mut changed, &["s".to_owned()]).unwrap();
            assert_eq!(changed, plan(new));
        }
        let mut free = plan(step(&["x"], &["c"], &["d"], NotAsked));
        keep_step_rules(&plan(step(&[], &[], &[], NotAsked)), &mut free, &[]).unwrap();
        assert_eq!(free, plan(step(&["x"], &["c"], &["d"], NotAsked)));
    }
}
