//! What cautions do to the results that hold, and what a person is asked.
//!
//! ```text
//!   a caution that nothing may accept -> the result fails
//!   cautions that a person may accept -> in_doubt  allow:  it holds
//!                                                  refuse: it fails
//!                                                  ask:    it holds where this very doubt was approved, fails
//!                                                          where it was denied; else a person is asked
//! ```
//!
//! Nothing is asked while anything else fails, because the answer would decide nothing.

use super::evaluation::Evaluation;
use surety_common::domain::acceptance::{Acceptance, Difference, Resolution};
use surety_common::domain::caution::{Acceptable, CautionRules, acceptable};
use surety_common::domain::check::Owner;
use surety_common::domain::run::InDoubt;
use surety_common::domain::verdict::{Approval, Caution, CheckResult};

/// A result, and what was observed about it, before its cautions have an effect.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Whether it holds but for its cautions.
    pub(super) result: CheckResult,
    /// Whose check it is; of a rule of the gate the operator's.
    pub(super) owner: Owner,
    /// What was observed.
    pub(super) noted: Vec<Noted>,
}

/// An observation that weakens a result.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    /// The caution.
    pub(super) code: &'static str,
    /// What was observed.
    pub(super) detail: String,
    /// The reason of the result, where it fails for this.
    pub(super) reason: String,
    /// Whether it has an explanation, so that no default refuses it.
    pub(super) only_shown: bool,
}

impl Noted {
    /// An observation whose whole detail is the reason.
    pub(super) fn new(code: &'static str, detail: String) -> Self {
        let reason = format!("{code}: {detail}");
        Self { code, detail, reason, only_shown: false }
    }
}

impl Standing {
    /// A result of a rule of the gate.
    pub(super) fn of_rule(name: &str, reason: String) -> Self {
        let result = CheckResult {
            name: name.to_owned(),
            passed: reason.is_empty(),
            reason,
            optional: false,
        };
        Self { result, owner: Owner::Operator, noted: Vec::new() }
    }

    /// The cautions that refuse it; none where it fails anyway.
    fn refusing<'s>(&'s self, rules: &'s CautionRules<'_>) -> impl Iterator<Item = &'s Noted> {
        let refuses = |noted: &&Noted| {
            self.result.passed && rules.refuses(noted.code, self.owner, noted.only_shown)
        };
        self.noted.iter().filter(refuses)
    }

    fn fail(&mut self, reason: String) {
        self.result.passed = false;
        self.result.reason = reason;
    }

    fn caution(&self, noted: &Noted) -> Caution {
        Caution {
            code: noted.code.to_owned(),
            check: self.result.name.clone(),
            detail: noted.detail.clone(),
        }
    }
}

/// Results with the effect of their cautions.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) results: Vec<CheckResult>,
    pub(super) cautions: Vec<Caution>,
    pub(super) approvals: Vec<Approval>,
    /// What a person is to be asked; the results are then as if it was denied.
    pub(super) question: Option<Question>,
}

/// What a person is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is to be accepted.
    pub acceptance: Acceptance,
    /// Whether an earlier approval was about another state of the workspace.
    pub is_void: bool,
}

/// What became of the doubt.
enum Ruling {
    Holds(Option<Approval>),
    Fails(String),
    Asks(Question),
}

/// Applies the rules to the results. `others_hold` says whether everything beside them holds.
pub(super) fn settle(
    input: &Evaluation<'_>,
    mut standings: Vec<Standing>,
    others_hold: bool,
) -> Settled {
    let rules = input.cautions;
    for standing in &mut standings {
        let never = |noted: &&Noted| acceptable(noted.code) != Acceptable::ByPerson;
        let reason = standing.refusing(&rules).find(never).map(|noted| noted.reason.clone());
        if let Some(reason) = reason {
            standing.fail(reason);
        }
    }
    let fails = |standing: &Standing| !standing.result.passed && !standing.result.optional;
    let decides = others_hold && !standings.iter().any(fails);
    let mut settled = Settled::default();
    let mut suffix = String::new();
    let holds = match rule(input, &rules, &standings, decides) {
        Ruling::Holds(approval) => {
            settled.approvals.extend(approval);
            true
        }
        Ruling::Fails(why) => {
            suffix = why;
            false
        }
        Ruling::Asks(question) => {
            settled.question = Some(question);
            false
        }
    };
    for mut standing in standings {
        let reason = standing.refusing(&rules).next().map(|noted| noted.reason.clone());
        if let Some(reason) = reason.filter(|_| !holds) {
            standing.fail(format!("{reason}{suffix}"));
        }
        let cautions = standing.noted.iter().map(|noted| standing.caution(noted));
        settled.cautions.extend(cautions);
        settled.results.push(standing.result);
    }
    settled
}

fn rule(
    input: &Evaluation<'_>,
    rules: &CautionRules<'_>,
    standings: &[Standing],
    decides: bool,
) -> Ruling {
    let required = standings.iter().filter(|standing| !standing.result.optional);
    let cautions: Vec<Caution> = required
        .flat_map(|standing| standing.refusing(rules).map(|noted| standing.caution(noted)))
        .collect();
    let nothing = || Ruling::Fails(String::new());
    match rules.in_doubt {
        InDoubt::Allow => Ruling::Holds(None),
        InDoubt::Refuse => nothing(),
        InDoubt::Ask if cautions.is_empty() || !decides => nothing(),
        InDoubt::Ask => ask(input, cautions),
    }
}

/// The answer to this very doubt, or the question.
fn ask(input: &Evaluation<'_>, cautions: Vec<Caution>) -> Ruling {
    let difference = input.round.and_then(|round| Difference::of(input.receipts, round));
    let Some(difference) = difference else {
        return Ruling::Fails("; there was no person to ask".to_owned());
    };
    let acceptance = Acceptance::new(difference, cautions);
    let answers: Vec<Resolution> = input.receipts.iter().filter_map(Resolution::of).collect();
    match answers.iter().rfind(|answer| answer.digest == acceptance.digest) {
        Some(Resolution { by, digest, approved: true, .. }) => {
            Ruling::Holds(Some(Approval { by: by.clone(), digest: digest.clone() }))
        }
        Some(Resolution { by, comment, .. }) => {
            let comment = if comment.is_empty() { "" } else { &format!(": {comment}") };
            Ruling::Fails(format!("; denied by {by}{comment}"))
        }
        None => {
            let is_void = answers.iter().any(|answer| answer.approved);
            Ruling::Asks(Question { acceptance, is_void })
        }
    }
}

#[cfg(test)]
mod tests;
