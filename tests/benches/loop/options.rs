//! What is played.

use clap::Parser;
use std::time::Duration;
use surety_e2e::loop_bench::grade::{Grade, Quality};

/// Plays small repository tasks under models of graded quality, or under the endpoint of SURETY_MODEL_URL, and prints
/// what was accepted, what was right, and what it took.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Only tasks whose id, such as rust/bug-slug, contains this text; may be repeated.
    #[arg(long, value_name = "FILTER")]
    tasks: Vec<String>,
    /// Only scripted models of these qualities; by default all.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) grades: Vec<Quality>,
    /// Tasks played at a time.
    #[arg(long, default_value_t = 2)]
    pub(crate) at_once: usize,
    /// The deadline of one run, in seconds.
    #[arg(long, default_value_t = 900)]
    deadline_s: u64,
    /// One line of JSON in place of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Handed over by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub(crate) fn chooses(&self, id: &str) -> bool {
        self.tasks.is_empty() || self.tasks.iter().any(|filter| id.contains(filter))
    }

    pub(crate) fn plays(&self, grade: Grade) -> bool {
        self.grades.is_empty() || self.grades.contains(&grade.quality())
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_s)
    }
}
