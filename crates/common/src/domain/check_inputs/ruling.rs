//! What the runs of one check come to: with the original check inputs, with the ignored files of the steps,
//! and on the workspace as the steps left it.
//!
//! ```text
//!   original   with ignored   as left     result
//!   holds      -              not run     holds
//!   holds      -              holds       holds; check_inputs_differ
//!   holds      -              holds with  ignored_inputs_changed; check_inputs_differ
//!   holds      -              fails       fails
//!   fails      holds          holds       ignored_inputs_changed; holds with what was installed for a dependency
//!   fails      holds          holds with  ignored_inputs_changed
//!   fails      fails          holds       check_inputs_changed
//!   fails      fails          holds with  check_inputs_changed; ignored_inputs_changed
//!   fails      fails          fails       fails
//! ```
//!
//! The run as left has no ignored files of the steps where no earlier run holds with them. `holds with`: it failed so, and
//! holds with them.

use super::Exam;
use crate::domain::manifest::Aspect;
use crate::domain::problem::WarningCode;
use crate::domain::receipt::{EvidenceReceipt, Fact, Inputs};

/// The caution and the reason of a check that only the changed check inputs let hold.
const CHECK_INPUTS_CHANGED: &str = "check_inputs_changed";
/// The caution of a check that holds with the original and with the changed check inputs.
const CHECK_INPUTS_DIFFER: &str = "check_inputs_differ";
/// The caution and the reason of a check that holds only with ignored files that steps wrote.
const IGNORED_INPUTS_CHANGED: &str = "ignored_inputs_changed";
/// The caution where ignored files of the start cannot be told from later ones.
const IGNORED_INPUTS_AS_LEFT: &str = "ignored_inputs_as_left";
/// The caution where a check ran without original check inputs.
pub const ORIGINALS_NOT_RUN: &str = "originals_not_run";
/// The caution where steps changed the program that a check starts, and no convention makes it a check input.
const PROGRAM_FROM_WORKSPACE: &str = "program_from_workspace";
/// The name of the output with a manifest of a package manager that the run changed.
const DEPENDENCY_CHANGED: &str = "dependency_changed";
/// Paths that are listed; the rest is counted.
const MAX_LISTED: usize = 20;
/// Paths that a reason names.
const MAX_NAMED: usize = 3;

/// What a round knows of one check, for its receipts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes<'n> {
    /// What the run did to the check inputs.
    pub exam: Option<&'n Exam>,
    /// What the run did to parts of files: keys about tests, and tests inside source files.
    pub merged: Vec<String>,
    /// Originals that were not kept.
    pub not_kept: Vec<String>,
    /// Ignored paths that steps wrote.
    pub ignored: Vec<String>,
    /// Whether ignored files could not be told apart.
    pub ignored_unknown: bool,
    /// Manifests of package managers that the run changed.
    pub dependencies: &'n [String],
    /// Programs of the line that steps changed and that are no check inputs.
    pub programs: Vec<String>,
    /// Scripts of the line that are taken for products because other files import them.
    pub imported: Vec<String>,
}

impl Notes<'_> {
    /// The facts that a receipt with these inputs carries.
    pub fn facts(&self, inputs: Inputs) -> Vec<Fact> {
        let differences = self.exam.map(Exam::differences).unwrap_or_default();
        let differences = differences.iter().map(|difference| {
            let path = String::from_utf8_lossy(&difference.path);
            format!("{} {path} ({})", word(difference.aspect), difference.kind.as_str())
        });
        match inputs {
            Inputs::Original => {
                let merged = self.merged.iter().cloned();
                let mut facts = listed(CHECK_INPUTS_DIFFER, differences.chain(merged).collect());
                facts.extend(listed(ORIGINALS_NOT_RUN, self.not_kept.clone()));
                facts.extend(listed(PROGRAM_FROM_WORKSPACE, self.programs.clone()));
                let imported = self.imported.iter().map(|path| {
                    format!("{path}: other files import it; policy.protect: [{path:?}] protects it")
                });
                facts.extend(listed(WarningCode::CheckNamesProduct.as_str(), imported.collect()));
                if self.ignored_unknown {
                    facts.extend(listed(IGNORED_INPUTS_AS_LEFT, vec!["all".to_owned()]));
                }
                facts
            }
            Inputs::OriginalWithIgnored => {
                let mut facts = facts_of_ignored(self.ignored.clone());
                facts.extend(listed(DEPENDENCY_CHANGED, self.dependencies.to_vec()));
                facts
            }
            Inputs::AsLeft
            | Inputs::Unstated
            | Inputs::Canary
            | Inputs::CanaryAtStart
            | Inputs::TestsAtStart
            | Inputs::AtStart => Vec::new(),
        }
    }
}

/// The facts of a run that has ignored files that steps wrote.
pub fn facts_of_ignored(paths: Vec<String>) -> Vec<Fact> {
    listed(IGNORED_INPUTS_CHANGED, paths)
}

/// Whether the facts of a run say that it has ignored files that steps wrote.
pub fn names_ignored(facts: &[Fact]) -> bool {
    let is_named =
        |fact: &Fact| matches!(fact, Fact::Output { key, .. } if key == IGNORED_INPUTS_CHANGED);
    facts.iter().any(is_named)
}

const fn word(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Added => "added",
        Aspect::Removed => "removed",
        Aspect::Kind => "replaced",
        Aspect::Content => "changed",
        Aspect::Mode => "mode",
    }
}

fn listed(key: &str, mut values: Vec<String>) -> Vec<Fact> {
    if values.len() > MAX_LISTED {
        let more = values.len() - MAX_LISTED;
        values.truncate(MAX_LISTED);
        values.push(format!("and {more} more"));
    }
    values.into_iter().map(|value| Fact::of_output(key, value)).collect()
}

/// One run of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckRun<'r, E> {
    /// The last receipt of this run.
    pub receipt: &'r EvidenceReceipt,
    /// Whether the check holds by it.
    pub result: Result<(), E>,
}

/// What the runs of a check come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling<E> {
    /// Whether the check holds.
    pub result: Result<(), Failure<E>>,
    /// Codes and what was observed.
    pub cautions: Vec<(&'static str, String)>,
}

/// Why a check does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure<E> {
    /// By a run of it.
    OfRun(E),
    /// It holds only with what steps made.
    OfInputs {
        /// The caution.
        code: &'static str,
        /// The caution and the first paths.
        reason: String,
    },
}

/// Rules over the runs of a check. `original` is the run that decides where there is no other.
pub fn rule<E: Copy>(
    original: CheckRun<'_, E>,
    with_ignored: Option<CheckRun<'_, E>>,
    as_left: Option<CheckRun<'_, E>>,
) -> Ruling<E> {
    let failed_as_left = as_left.and_then(|run| run.result.err());
    let mut ruling = Ruling { result: Ok(()), cautions: Vec::new() };
    // None where the run observed nothing of the kind.
    let mut caution = |code, key, run: CheckRun<'_, E>| {
        let values: Vec<&str> = run.receipt.outputs(key).collect();
        if values.is_empty() {
            return None;
        }
        ruling.cautions.push((code, values.join(", ")));
        let first: Vec<&str> = values.into_iter().take(MAX_NAMED).collect();
        Some(format!("{code}: {}", first.join(", ")))
    };
    // A run that names no inputs, such as one that could not be started, says nothing of them: then it failed by itself.
    let of_inputs = |code, reason: Option<String>, error: E| match reason {
        Some(reason) => Failure::OfInputs { code, reason },
        None => Failure::OfRun(error),
    };
    for code in [ORIGINALS_NOT_RUN, PROGRAM_FROM_WORKSPACE, IGNORED_INPUTS_AS_LEFT] {
        caution(code, code, original);
    }
    let held_with_ignored = with_ignored.filter(|run| run.result.is_ok());
    let held_as_left = as_left.is_some_and(|run| run.result.is_ok());
    ruling.result = match (original.result, held_with_ignored, failed_as_left) {
        (Ok(()), _, None) => {
            caution(CHECK_INPUTS_DIFFER, CHECK_INPUTS_DIFFER, original);
            let code = IGNORED_INPUTS_CHANGED;
            let named = as_left.filter(|run| names_ignored(&run.receipt.facts));
            match named.and_then(|run| caution(code, code, run)) {
                Some(reason) => Err(Failure::OfInputs { code, reason }),
                None => Ok(()),
            }
        }
        (Ok(()), _, Some(error)) | (Err(_), Some(_), Some(error)) => Err(Failure::OfRun(error)),
        (Err(error), Some(run), None) => {
            let code = IGNORED_INPUTS_CHANGED;
            let named = as_left.filter(|run| names_ignored(&run.receipt.facts));
            let reason = caution(code, code, named.unwrap_or(run));
            // The cause may be either: with the ignored files a check may do without what its recipe makes.
            let differ = caution(CHECK_INPUTS_DIFFER, CHECK_INPUTS_DIFFER, original);
            let differ = differ.as_deref().and_then(|it| it.strip_prefix(CHECK_INPUTS_DIFFER));
            let reason = reason.map(|reason| match differ {
                None => reason,
                Some(differ) => format!("{reason}; check inputs{differ}"),
            });
            // What was installed is excused, and not what else steps wrote there.
            let is_installed = run.receipt.outputs(DEPENDENCY_CHANGED).next().is_some();
            if is_installed && named.is_none() {
                Ok(())
            } else {
                Err(of_inputs(code, reason, error))
            }
        }
        (Err(error), None, _) if held_as_left => {
            let code = CHECK_INPUTS_CHANGED;
            let reason = caution(code, CHECK_INPUTS_DIFFER, original);
            if let Some(run) = as_left.filter(|run| names_ignored(&run.receipt.facts)) {
                caution(IGNORED_INPUTS_CHANGED, IGNORED_INPUTS_CHANGED, run);
            }
            Err(of_inputs(code, reason, error))
        }
        (Err(error), None, _) => Err(Failure::OfRun(error)),
    };
    ruling
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    fn receipt(facts: &[(&str, &str)]) -> EvidenceReceipt {
        let text = r#"{"step_index": 0, "source": "probe", "success": true}"#;
        let receipt = read_receipt(&json::parse(text).unwrap().value).unwrap();
        let output = |(key, value): &(&str, &str)| Fact::Output {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        EvidenceReceipt { facts: facts.iter().map(output).collect(), ..receipt }
    }

    /// The reason why a check does not hold, and the codes of its cautions.
    fn said<'r>(ruling: &'r Ruling<&'static str>) -> (&'r str, Vec<&'static str>) {
        let reason = match &ruling.result {
            Ok(()) => "",
            Err(Failure::OfRun(reason)) => reason,
            Err(Failure::OfInputs { reason, .. }) => reason.as_str(),
        };
        (reason, ruling.cautions.iter().map(|(code, _)| *code).collect())
    }

    #[test]
    fn the_runs_of_a_check_come_to_one_result() {
        let original = receipt(&[(CHECK_INPUTS_DIFFER, "changed t (test)")]);
        let ignored = receipt(&[(IGNORED_INPUTS_CHANGED, "target")]);
        let installed =
            receipt(&[(IGNORED_INPUTS_CHANGED, "m"), (DEPENDENCY_CHANGED, "package.json")]);
        let plain = receipt(&[]);
        let holds = Some(Ok(()));
        let fails = Some(Err("failed"));
        let cases = [
            (Ok(()), &plain, None, None, "", vec![]),
            (Ok(()), &original, None, holds, "", vec![CHECK_INPUTS_DIFFER]),
            (Ok(()), &original, None, fails, "failed", vec![]),
            (
                Err("o"),
                &original,
                None,
                holds,
                "check_inputs_changed: changed t (test)",
                vec![CHECK_INPUTS_CHANGED],
            ),
            (Err("o"), &original, None, fails, "o", vec![]),
            (
                Err("o"),
                &original,
                Some((&ignored, fails)),
                holds,
                "check_inputs_changed: changed t (test)",
                vec![CHECK_INPUTS_CHANGED],
            ),
            (
                Err("o"),
                &original,
                Some((&installed, fails)),
                holds,
                "check_inputs_changed: changed t (test)",
                vec![CHECK_INPUTS_CHANGED],
            ),
            (
                Err("o"),
                &plain,
                Some((&ignored, holds)),
                None,
                "ignored_inputs_changed: target",
                vec![IGNORED_INPUTS_CHANGED],
            ),
            (Err("o"), &plain, Some((&installed, holds)), None, "", vec![IGNORED_INPUTS_CHANGED]),
            (Err("o"), &plain, Some((&installed, fails)), None, "o", vec![]),
            (Err("o"), &plain, Some((&installed, holds)), fails, "failed", vec![]),
            (Err("o"), &plain, None, None, "o", vec![]),
            // No run says which inputs those are.
            (Err("o"), &plain, None, holds, "o", vec![]),
            (Err("o"), &plain, Some((&plain, holds)), None, "o", vec![]),
        ];
        for (result, receipt, with_ignored, as_left, reason, codes) in cases {
            let run = |result: Option<Result<(), &'static str>>, receipt| {
                result.map(|result| CheckRun { receipt, result })
            };
            let with_ignored = with_ignored.and_then(|(receipt, result)| run(result, receipt));
            let ruling = rule(CheckRun { receipt, result }, with_ignored, run(as_left, &plain));
            assert_eq!(said(&ruling), (reason, codes));
        }
        let held = CheckRun { receipt: &original, result: Ok::<(), &str>(()) };
        let left = |result| Some(CheckRun { receipt: &ignored, result });
        let codes = vec![CHECK_INPUTS_DIFFER, IGNORED_INPUTS_CHANGED];
        let expected = ("ignored_inputs_changed: target", codes);
        assert_eq!(said(&rule(held, None, left(Ok(())))), expected, "only with what steps built");
        assert_eq!(said(&rule(held, None, left(Err("failed")))), ("failed", vec![]));
        let failed = CheckRun { receipt: &original, result: Err("o") };
        let with_ignored = Some(CheckRun { receipt: &ignored, result: Err("failed") });
        let codes = vec![CHECK_INPUTS_CHANGED, IGNORED_INPUTS_CHANGED];
        let expected = ("check_inputs_changed: changed t (test)", codes);
        assert_eq!(said(&rule(failed, with_ignored, left(Ok(())))), expected);
    }
}
