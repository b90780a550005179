//! The risk of a change, by the files that it changes.

use super::words::words;
use crate::domain::problem::{Code, Problem};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::fmt;

words! {
    /// How much a change can break.
    RiskLevel {
        /// No rule of a higher level matches.
        Low = "low",
        /// A file matches a rule of this level.
        Medium = "medium",
        /// A file matches a rule of this level.
        High = "high",
    }
}

/// The operator's rules: globs of files by level.
#[derive(Debug, Clone, Default)]
pub struct RiskRules {
    medium: GlobSet,
    high: GlobSet,
}

impl RiskRules {
    /// Rules of these globs.
    ///
    /// # Errors
    /// `type_mismatch` with the list and the position of a glob that does not compile.
    pub fn new(medium: &[String], high: &[String]) -> Result<Self, Problem> {
        Ok(Self { medium: globs("medium", medium)?, high: globs("high", high)? })
    }

    /// The level of a change of these files.
    pub fn level<'a>(&self, files: impl IntoIterator<Item = &'a str>) -> RiskLevel {
        let of_file = |file: &str| match () {
            () if self.high.is_match(file) => RiskLevel::High,
            () if self.medium.is_match(file) => RiskLevel::Medium,
            () => RiskLevel::Low,
        };
        files.into_iter().map(of_file).max().unwrap_or(RiskLevel::Low)
    }
}

fn globs(level: &str, globs: &[String]) -> Result<GlobSet, Problem> {
    let mut set = GlobSetBuilder::new();
    for (index, text) in globs.iter().enumerate() {
        let at = |error: globset::Error| {
            let field = format!("risk.{level}[{index}]");
            Problem::at(Code::TypeMismatch, field, format!("no glob: {error}"))
        };
        set.add(Glob::new(text).map_err(at)?);
    }
    set.build().map_err(|error| {
        Problem::at(Code::TypeMismatch, format!("risk.{level}"), format!("no globs: {error}"))
    })
}
