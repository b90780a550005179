//! The verdict over one plan and all receipts of its run: the same rules for a stored run and for a
//! verification without a database.

use crate::check::expression::Allowance;
use crate::check::{Answer, Shortage};
use crate::verdict::{Evaluation, Judgement, decide};
use std::collections::BTreeMap;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::plan::Plan;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::{Policy, VerifyCommands};
use surety_common::domain::todo::Todo;
use surety_common::domain::verification::{ProjectTests, wants_project_tests, wrote_files};

/// What a verdict over a plan rests on.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// The folder that the run worked in.
    pub workspace: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// The todos that the verdict depends on.
    pub todos: &'a [Todo],
    /// What the run allows, and who runs the commands in its checks.
    pub policy: &'a Policy,
    /// The run's receipts in the order of their chain, already verified.
    pub receipts: &'a [EvidenceReceipt],
    /// Whether files were written for the plan before the run, in one that it is a fork of.
    pub wrote_before: bool,
    /// The last verification round, from 1.
    pub round: u32,
    /// The run's final text.
    pub final_text: &'a str,
    /// The part of the final text that the runner did not write itself, where it wrote some.
    pub authored_text: Option<&'a str>,
    /// Results of checks that receipts cannot decide, by the check's index.
    pub answers: &'a BTreeMap<usize, Answer>,
}

impl RunEvidence<'_> {
    /// The verdict, or what a person is to be asked. Blocks the calling thread, as [`decide`] does.
    ///
    /// # Errors
    /// [`Shortage`] when the gate had no capacity for a check; then there is no verdict.
    pub fn judge(&self) -> Result<Judgement, Shortage> {
        let Self { plan, policy, receipts, round, .. } = *self;
        let wrote = self.wrote_before || wrote_files(receipts);
        let held_to_tests = wants_project_tests(&plan.verify, policy.verify_commands, wrote);
        let verified = policy.verify_commands == VerifyCommands::Runner;
        let input = Evaluation {
            project_tests: held_to_tests.then(|| ProjectTests::of(receipts, round)),
            round: verified.then_some(round),
            require_independent: policy.require_independent,
            authored_text: self.authored_text,
            workspace_root: self.workspace,
            checks: &plan.verify,
            receipts,
            final_text: self.final_text,
            todos: self.todos,
            plan_made_at: None,
            answers: self.answers,
            cautions: CautionRules::of(policy),
        };
        decide(&input, Allowance::default())
    }
}
