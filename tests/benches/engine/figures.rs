//! Statistics over several measurements of one figure.

use crate::meter::{Spent, Usage};
use std::time::Duration;

/// The median; for an even number the mean of the two middle values.
pub(crate) fn middle<T>(samples: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// The median with this number of decimals, and the range of several measurements.
pub(crate) fn spread<T>(samples: &[T], digits: usize, of: impl Fn(&T) -> f64) -> String {
    let middle = middle(samples, &of);
    let least = samples.iter().map(&of).fold(f64::INFINITY, f64::min);
    let most = samples.iter().map(&of).fold(f64::NEG_INFINITY, f64::max);
    match samples.len() {
        1 => format!("**{middle:.digits$}**"),
        _ => format!("**{middle:.digits$}** ({least:.digits$}..{most:.digits$})"),
    }
}

/// The most cores that other processes used during any of them.
pub(crate) fn most_foreign<T>(samples: &[T], of: impl Fn(&T) -> &Usage) -> f64 {
    samples.iter().map(|sample| of(sample).foreign_cores).fold(0.0, f64::max)
}

/// Milliseconds of processor time per step, in all and by process.
pub(crate) fn cpu(spent: &Spent, steps: f64) -> String {
    let per_step = |spent: Duration| spent.as_secs_f64() * 1000.0 / steps;
    format!(
        "{:.3} = Postgres {:.3} + planner {:.3} + executors {:.3} + gate {:.3} + client {:.3}",
        per_step(spent.total()),
        per_step(spent.postgres),
        per_step(spent.planner),
        per_step(spent.executors),
        per_step(spent.gate),
        per_step(spent.client),
    )
}

/// [`cpu`] of the median measurement; `of` also returns its steps.
pub(crate) fn middle_cpu<T>(samples: &[T], of: impl Fn(&T) -> (&Spent, f64)) -> String {
    let mut sorted: Vec<(&Spent, f64)> = samples.iter().map(of).collect();
    sorted.sort_by(|(a, of_a), (b, of_b)| {
        (a.total().as_secs_f64() / of_a).total_cmp(&(b.total().as_secs_f64() / of_b))
    });
    let (spent, steps) = sorted[(sorted.len() - 1) / 2];
    cpu(spent, steps)
}
