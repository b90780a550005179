//! Overlays of hidden checks: that a plan names no content that is not there, and who sees what of them.

use surety_common::domain::check::AcceptCheck;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Role;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::{Policy, VerifyCommands};
use surety_common::domain::verification::Sight;
use surety_common::wire::caller::Caller;

/// Refuses an overlay that nothing would run with, and a digest whose content neither the request has nor
/// the run's plan before it.
///
/// # Errors
/// `overlay_not_allowed`, `overlay_unknown`.
pub(super) fn check(plan: &Plan, before: Option<&Plan>, policy: &Policy) -> Result<(), Problem> {
    let known = |check: &AcceptCheck| {
        let mut stored = before.iter().flat_map(|plan| plan.all_checks());
        stored.any(|stored| stored.overlay == check.overlay)
    };
    for (place, check) in plan.placed_checks().filter(|(_, check)| check.is_hidden()) {
        let field = format!("{place}.overlay");
        if policy.verify_commands == VerifyCommands::ReceiptsOnly {
            let message =
                "with verify_commands receipts_only no check is run; leave one of both out";
            return Err(Problem::at(Code::OverlayNotAllowed, field, message));
        }
        if check.overlay.files().is_none() && !known(check) {
            let message = "the run has no overlay with this digest; send the files";
            return Err(Problem::at(Code::OverlayUnknown, field, message));
        }
    }
    Ok(())
}

/// Which hidden checks of a run a caller sees whole: an operator all, the submitter of the run its own. A
/// participant sees none, whatever other role its identity has.
pub(super) fn sight(caller: &Caller, submitter: &str) -> Sight {
    let roles = &caller.identity().roles;
    if [Role::Driver, Role::Worker].iter().any(|role| roles.contains(role)) {
        return Sight::Nothing;
    }
    if roles.contains(&Role::Operator) {
        return Sight::All;
    }
    let owns = roles.contains(&Role::Submitter) && caller.name() == submitter;
    if owns { Sight::OfUser } else { Sight::Nothing }
}

/// The refusal of what only owners of a hidden check may read.
pub(super) fn hidden(what: &str) -> Fault {
    let message =
        format!("{what} belongs to a hidden check, which only its owner and operators may read");
    Fault::new(FaultCode::PermissionDenied, message)
}
