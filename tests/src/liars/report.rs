//! What was played, what was right, and both rates.

use super::case::{Case, Expected, Part};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The answer of one case.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Whether the run was accepted.
    pub accepted: bool,
    /// How the run came out.
    pub why: String,
    /// What is wrong with it; none when it is right.
    pub wrong: Option<String>,
}

/// The counts of one class of a part.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    accepted: u32,
    refused: u32,
    wrong: u32,
    skipped: u32,
}

/// The result of playing the cases.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cases each part has, played or not.
    pub known: BTreeMap<Part, usize>,
    classes: BTreeMap<(Part, String), Counts>,
    /// What is wrong, a line or more each.
    pub wrong: Vec<String>,
    /// How many cases were skipped for which reason.
    skipped: BTreeMap<String, Vec<String>>,
    false_accepts: u32,
    false_refusals: u32,
    held: Vec<String>,
    /// How each case came out, a line each.
    pub played: Vec<String>,
}

impl Report {
    pub(super) fn of(cases: &[Case]) -> Self {
        let mut report = Self::default();
        for case in cases {
            *report.known.entry(case.part()).or_default() += 1;
        }
        report
    }

    pub(super) fn skip(&mut self, case: &Case, reason: &str) {
        self.skipped.entry(reason.to_owned()).or_default().push(case.id.clone());
        self.counts(case).skipped += 1;
    }

    /// Whether the programs that a case needs are on this machine.
    pub(super) fn can_play(&mut self, case: &Case) -> bool {
        let missing = case.needs.iter().find(|program| !is_in_path(program));
        if let Some(program) = missing {
            self.skip(case, &format!("{program} is not on this machine"));
        }
        missing.is_none()
    }

    pub(super) fn add(&mut self, case: &Case, answer: Result<Answer>) {
        let answer = answer.unwrap_or_else(|error| Answer {
            accepted: false,
            why: "it could not be played".to_owned(),
            wrong: Some(format!("{error:#}")),
        });
        self.played.push(format!("{}: {}", case.id, answer.why));
        let counts = self.counts(case);
        *(if answer.accepted { &mut counts.accepted } else { &mut counts.refused }) += 1;
        let Some(wrong) = answer.wrong else {
            self.held.push(case.id.clone());
            return;
        };
        counts.wrong += 1;
        match case.expect {
            Expected::Refused | Expected::Weak if answer.accepted => self.false_accepts += 1,
            Expected::Accepted | Expected::Weak if !answer.accepted => self.false_refusals += 1,
            Expected::Refused | Expected::Accepted | Expected::Weak => {}
        }
        let lines = [
            format!("WRONG {}: {wrong}", case.id),
            format!("      {} (rule: {})", case.title, case.rule),
            format!("      {}", answer.why),
        ];
        self.wrong.push(lines.join("\n"));
    }

    /// The cases that were right.
    pub fn right(&self) -> &[String] {
        &self.held
    }

    fn counts(&mut self, case: &Case) -> &mut Counts {
        self.classes.entry((case.part(), case.class.clone())).or_default()
    }
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program)).any(|it| it.is_file())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wrong in &self.wrong {
            writeln!(f, "{wrong}")?;
        }
        writeln!(
            f,
            "{:<10} {:<34} {:>8} {:>8} {:>6} {:>6} {:>8}",
            "part", "class", "accepted", "refused", "right", "wrong", "skipped"
        )?;
        let mut played = 0;
        for ((part, class), counts) in &self.classes {
            let all = counts.accepted + counts.refused;
            played += all;
            writeln!(
                f,
                "{:<10} {class:<34} {:>8} {:>8} {:>6} {:>6} {:>8}",
                part.as_str(),
                counts.accepted,
                counts.refused,
                all - counts.wrong,
                counts.wrong,
                counts.skipped
            )?;
        }
        for (reason, cases) in &self.skipped {
            writeln!(f, "skipped, {reason}: {}", cases.join(", "))?;
        }
        write!(
            f,
            "liars: {played} played, {} wrong; false accepts {}, false refusals {}",
            self.wrong.len(),
            self.false_accepts,
            self.false_refusals
        )
    }
}
