//! The rules for reading a delivery.

use crate::planner::Planner;
use surety_common::domain::toolchain::{Forge, Rules, may_be_own};

/// The rules for reading a delivery: whose marked comments and issues are the service's own. The accounts are those of
/// the rules file and of the configured forges, which are asked only where the delivery may have such a mark.
pub(crate) async fn reading(planner: &Planner, forge: Forge, body: &[u8]) -> Rules {
    let mut own = planner.rules.own_accounts().to_vec();
    if may_be_own(body) {
        let all = format!("every {forge}");
        match planner.circuits.ask(&all, planner.escalations.own_accounts(forge)).await {
            Some(accounts) => own.extend(accounts),
            None => tracing::warn!(
                %forge,
                "planner: the forges did not say in time which account the service has; set `account` of the forge, so \
                 that its own comments are ignored"
            ),
        }
    }
    Rules { own }
}
