//! What an agent proposes: a plan whose checks belong to the plan.

use std::collections::{BTreeMap, BTreeSet};

use surety_common::domain::check::{AcceptCheck, Author};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::problem::Warning;
use surety_planner::plan::parse_plan;

use super::file::{Contract, Outcome, Proposal, Report, What};
use crate::failure::{Code, Failure};
use crate::verify::VerifyPlan;

impl Contract {
    /// What is verified: the user's checks, then those that the agent proposed.
    ///
    /// # Errors
    /// `checks_missing` without any; the contract's file was changed.
    pub fn plan(&self) -> Result<VerifyPlan, Failure> {
        let plan = self.users()?;
        let plan = match self.proposed()? {
            Some(proposed) => plan.with_proposed(&proposed)?,
            None => plan,
        };
        if plan.plan.verify.is_empty() {
            let mut message = "the contract has no check yet".to_owned();
            if let Some(why) = self.unused_checks() {
                message = format!("{message}: {why}");
            }
            let advice = "Propose a plan with checks (surety_propose_plan).";
            return Err(Failure::new(Code::ChecksMissing, message, advice));
        }
        Ok(plan)
    }

    /// The user's checks alone.
    ///
    /// # Errors
    /// The contract's file was changed.
    pub fn users(&self) -> Result<VerifyPlan, Failure> {
        self.checks.as_ref().map_or_else(|| Ok(VerifyPlan::without_checks()), super::Checks::plan)
    }

    /// The plan that the agent proposed.
    ///
    /// # Errors
    /// The contract's file was changed.
    pub fn proposed(&self) -> Result<Option<Plan>, Failure> {
        let read = |proposal: &Proposal| read(&proposal.plan).map(|(plan, _)| plan);
        self.proposal.as_ref().map(read).transpose()
    }

    /// Takes a proposed plan, as text of one JSON object. After the first round a check that was proposed before
    /// stays: the agent may add checks only.
    ///
    /// # Errors
    /// Those of the reader of plans; `plan_weakened`; a check that the user's rule out.
    pub fn propose(&mut self, text: &str) -> Result<(VerifyPlan, Vec<Warning>), Failure> {
        let (plan, warnings) = read(text)?;
        let merged = self.users()?.with_proposed(&plan)?;
        if self.rounds > 0
            && let Some(before) = self.proposed()?
        {
            keeps(&before.verify, &plan.verify)?;
        }
        let ids: BTreeSet<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
        self.reports.retain(|id, _| ids.contains(id.as_str()));
        let revision = self.proposal.as_ref().map_or(0, |proposal| proposal.revision) + 1;
        self.proposal = Some(Proposal { revision, plan: plan.to_json().to_compact() });
        let (steps, checks) = (plan.steps.len(), plan.verify.len());
        self.note(What::Proposed, format!("revision {revision}: {steps} steps, {checks} checks"));
        Ok((merged, warnings))
    }

    /// Records what the agent says about a step.
    ///
    /// # Errors
    /// `value_invalid` for a step that the plan does not have.
    pub fn report(&mut self, step: &str, report: Report) -> Result<(), Failure> {
        let plan = self.proposed()?.unwrap_or_default();
        if !plan.steps.iter().any(|known| known.id == step) {
            let known: Vec<_> = plan.steps.iter().map(|step| step.id.as_str()).collect();
            let message = format!("the plan has no step {step:?}");
            let advice = match known.as_slice() {
                [] => "Propose a plan first (surety_propose_plan).".to_owned(),
                known => format!("Its steps are: {}.", known.join(", ")),
            };
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("step_id"));
        }
        self.reports.insert(step.to_owned(), report);
        Ok(())
    }
}

fn read(text: &str) -> Result<(Plan, Vec<Warning>), Failure> {
    let (plan, warnings) = parse_plan(text, Author::Model, Limits::default().max_plan_steps)?;
    if let Some(index) = plan.steps.iter().position(|step| !step.verify.is_empty()) {
        let field = format!("steps[{index}].verify");
        let message = format!("`{field}` has checks, and an observed plan carries out no steps");
        return Err(Failure::new(Code::ValueInvalid, message, "Move them to `checks`.").at(field));
    }
    Ok((plan, warnings))
}

/// Refuses a proposal that lacks a required check of the one before.
fn keeps(before: &[AcceptCheck], after: &[AcceptCheck]) -> Result<(), Failure> {
    let lost = |check: &&AcceptCheck| check.required && !after.contains(check);
    let Some(lost) = before.iter().find(lost) else { return Ok(()) };
    let message = format!(
        "the proposal drops or changes the check {:?} ({}), which a round has run",
        lost.name(),
        lost.target
    );
    let advice =
        "Repeat it as it was, and add others; a person starts anew with `surety contract new`.";
    Err(Failure::new(Code::PlanWeakened, message, advice).at("checks"))
}

/// What an agent does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// There is no plan and there are no checks.
    Propose,
    /// A step whose dependencies are reported as done.
    Work(Box<PlanStep>),
    /// Every step is reported.
    Verdict,
}

/// What an agent does next, by its own reports.
#[must_use]
pub fn next_step(plan: Option<&Plan>, reports: &BTreeMap<String, Report>) -> Next {
    let Some(plan) = plan else { return Next::Propose };
    let is_done = |id: &str| reports.get(id).is_some_and(|it| it.outcome == Outcome::Done);
    let open = plan.steps.iter().filter(|step| !is_done(&step.id));
    let mut ready = open.filter(|step| step.dependencies.iter().all(|id| is_done(id)));
    ready.next().map_or(Next::Verdict, |step| Next::Work(Box::new(step.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::fixture::contract;

    fn plan(checks: &str) -> String {
        format!(
            r#"{{"title":"t","steps":[{{"id":"a","description":"d"}},{{"id":"b","description":"e","dependencies":["a"]}}],"verify":[{checks}]}}"#
        )
    }

    #[test]
    fn a_proposal_may_add_checks_after_a_round_and_drop_none() {
        let mut contract = contract();
        let (make, test) = (r#"{"kind":"command_success","target":"make"}"#, "\"README.md\"");
        contract.propose(&plan(make)).unwrap();
        contract.propose(&plan(test)).unwrap();
        contract.rounds = 1;
        let both = format!("{make},{test}");
        contract.propose(&plan(&both)).unwrap();
        let weaker = [make, r#"{"kind":"file_exists","target":"README.md","required":false}"#, ""];
        for weaker in weaker {
            let failure = contract.propose(&plan(weaker)).unwrap_err().to_text();
            assert!(failure.contains("error[plan_weakened]"), "{weaker}: {failure}");
        }
        assert_eq!(contract.proposal.unwrap().revision, 3);
    }

    #[test]
    fn the_next_step_is_the_first_whose_dependencies_are_reported_done() {
        let mut contract = contract();
        let next = |contract: &Contract| {
            next_step(contract.proposed().unwrap().as_ref(), &contract.reports)
        };
        assert_eq!(next(&contract), Next::Propose);
        contract.propose(&plan("\"README.md\"")).unwrap();
        for (step, outcome, then) in [
            ("a", Outcome::Failed, Some("a")),
            ("a", Outcome::Done, Some("b")),
            ("b", Outcome::Started, Some("b")),
            ("b", Outcome::Done, None),
        ] {
            let report = Report { outcome, note: String::new(), at: "t".to_owned() };
            contract.report(step, report).unwrap();
            let found = match next(&contract) {
                Next::Work(step) => Some(step.id),
                Next::Propose | Next::Verdict => None,
            };
            assert_eq!(found.as_deref(), then);
        }
        let report = Report { outcome: Outcome::Done, note: String::new(), at: "t".to_owned() };
        assert!(contract.report("c", report).unwrap_err().to_text().contains("a, b"));
    }

    #[test]
    fn a_plan_decides_no_owner_and_no_reserved_name() {
        let mut contract = contract();
        let users = r#"{"kind":"command_success","target":"make","owner":"user"}"#;
        let (merged, _) = contract.propose(&plan(users)).unwrap();
        let owners: Vec<_> = merged.plan.verify.iter().map(|check| check.owner.as_str()).collect();
        assert_eq!(owners, ["plan"]);
        let reserved = r#"{"id":"system.x","kind":"command_success","target":"make"}"#;
        assert!(contract.propose(&plan(reserved)).is_err());
    }
}
