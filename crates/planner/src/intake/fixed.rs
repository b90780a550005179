//! The checks that came with a goal, until its first plan gets them.

use surety_common::domain::check::{AcceptCheck, Author, read_checks};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json;
use surety_common::domain::planning::Planning;

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
