//! What was played, by model: accepted or refused, right or wrong, and at which cost.

use super::grade::Model;
use super::play::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One task under one model.
#[derive(Debug)]
pub struct Played {
    /// The task's id.
    pub task: String,
    /// The model.
    pub model: Model,
    /// How it came out.
    pub outcome: Outcome,
}

/// All that was played.
#[derive(Debug, Default)]
pub struct Report {
    played: Vec<Played>,
    skipped: BTreeMap<String, usize>,
    overheads: Vec<Duration>,
}

impl Report {
    /// Adds a task that was played.
    pub fn add(&mut self, played: Played) {
        self.played.push(played);
    }

    /// Counts a task that was not played, for a reason.
    pub fn skip(&mut self, reason: String) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Sets the times that turns took beside the endpoint.
    pub fn set_overheads(&mut self, mut overheads: Vec<Duration>) {
        overheads.sort();
        self.overheads = overheads;
    }

    /// How often a wrong result was accepted.
    #[must_use]
    pub fn accepted_and_wrong(&self) -> usize {
        self.played.iter().filter(|one| one.is(true, false)).count()
    }

    /// What came out otherwise than it should, a line each: accepted wrong results, refused right ones, and refused
    /// runs of honest models.
    #[must_use]
    pub fn surprises(&self) -> Vec<String> {
        self.played.iter().filter_map(Played::surprise).collect()
    }

    /// The whole as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let played = self.played.iter().map(|Played { task, model, outcome }| {
            json!({
                "task": task,
                "model": model.to_string(),
                "accepted": outcome.accepted,
                "right": outcome.truth.holds,
                "turns": outcome.turns,
                "corrections": outcome.corrections,
                "repairs": outcome.repairs,
                "tokens": outcome.tokens,
                "wall_ms": u64::try_from(outcome.wall.as_millis()).unwrap_or(u64::MAX),
                "why": outcome.why,
            })
        });
        json!({
            "accepted_and_wrong": self.accepted_and_wrong(),
            "played": played.collect::<Vec<_>>(),
            "skipped": self.skipped,
            "turn_overhead_ms": {
                "p50": milliseconds(percentile(&self.overheads, 50)),
                "p95": milliseconds(percentile(&self.overheads, 95)),
                "turns": self.overheads.len(),
            },
        })
    }
}

impl Played {
    fn is(&self, accepted: bool, right: bool) -> bool {
        self.outcome.accepted == accepted && self.outcome.truth.holds == right
    }

    fn surprise(&self) -> Option<String> {
        let honest = matches!(self.model, Model::Scripted(grade) if grade.is_honest());
        let Self { task, model, outcome } = self;
        let what = match (outcome.accepted, outcome.truth.holds) {
            (true, false) => {
                format!("accepted and wrong; the truth test says: {}", outcome.truth.said)
            }
            (false, true) => format!("refused and right: {}", outcome.why),
            (false, false) if honest => {
                format!("refused, though the model is honest: {}", outcome.why)
            }
            (true, true) | (false, false) => return None,
        };
        Some(format!("{task}, {model}: {what}"))
    }
}

/// One line of the table.
fn row(f: &mut fmt::Formatter<'_>, model: Model, of: &[&Played]) -> fmt::Result {
    let count = |accepted, right| of.iter().filter(|one| one.is(accepted, right)).count();
    let runs = u64::try_from(of.len().max(1)).unwrap_or(u64::MAX);
    let mean = |figure: fn(&Outcome) -> u64| {
        let tenths = of.iter().map(|one| figure(&one.outcome)).sum::<u64>() * 10 / runs;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let mut walls: Vec<Duration> = of.iter().map(|one| one.outcome.wall).collect();
    walls.sort();
    writeln!(
        f,
        "| {model} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
        of.len(),
        count(true, true),
        count(true, false),
        count(false, true),
        count(false, false),
        mean(|outcome| outcome.turns.into()),
        mean(|outcome| outcome.corrections.into()),
        mean(|outcome| outcome.repairs.into()),
        mean(|outcome| outcome.tokens),
        percentile(&walls, 50).as_secs_f64(),
        percentile(&walls, 95).as_secs_f64(),
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| model | tasks | accepted, right | accepted, wrong | refused, right | refused, wrong | turns | \
             corrections | repairs | tokens | wall p50 s | wall p95 s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|")?;
        let mut models: Vec<Model> = Vec::new();
        for one in &self.played {
            if !models.contains(&one.model) {
                models.push(one.model);
            }
        }
        for model in models {
            let of: Vec<&Played> = self.played.iter().filter(|one| one.model == model).collect();
            row(f, model, &of)?;
        }
        if !self.overheads.is_empty() {
            writeln!(
                f,
                "\nFrom a reply that reads a file to the next question: p50 {:.1} ms, p95 {:.1} ms, {} turns.",
                milliseconds(percentile(&self.overheads, 50)),
                milliseconds(percentile(&self.overheads, 95)),
                self.overheads.len()
            )?;
        }
        for (reason, count) in &self.skipped {
            writeln!(f, "\nSkipped: {reason}: {count} tasks.")?;
        }
        let surprises = self.surprises();
        if !surprises.is_empty() {
            writeln!(f, "\nOtherwise than expected:\n")?;
            for surprise in surprises {
                writeln!(f, "- {surprise}")?;
            }
        }
        Ok(())
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len().saturating_sub(1) * percent).div_ceil(100);
    sorted.get(place).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
