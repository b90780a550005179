//! The checks that came with a goal, until its first plan gets them.

use crate::planner::Planner;
use surety_common::domain::check::{AcceptCheck, Author, read_checks};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json;
use surety_common::domain::planning::Planning;
use surety_common::domain::run::RunRecord;

/// The checks that the next whole plan of a run gets: those that came with the goal, and for a first plan those of the
/// namespace.
///
/// # Errors
/// `database_unavailable`, `internal` for fixed checks that do not read.
pub(crate) async fn checks_to_add(
    planner: &Planner,
    record: &RunRecord,
) -> Result<Vec<AcceptCheck>, Fault> {
    let fixed = fixed_checks(&record.execution.planning())?;
    match record.plan {
        None => Ok(planner.policies.find(&record.spec.namespace).await?.with_checks(fixed)),
        Some(_) => Ok(fixed),
    }
}

/// The checks that came with the goal. They were valid when they were stored.
///
/// # Errors
/// `internal` for a row that was changed by hand: a plan must not begin without them.
pub fn fixed_checks(planning: &Planning) -> Result<Vec<AcceptCheck>, Fault> {
    if planning.checks.is_empty() {
        return Ok(Vec::new());
    }
    let parsed = json::parse(&planning.checks).ok();
    let read = parsed.and_then(|parsed| read_checks(&parsed.value, "verify", Author::Service).ok());
    read.map(|(checks, _)| checks).ok_or_else(|| {
        Fault::new(FaultCode::Internal, "the checks that came with the goal cannot be read")
    })
}
