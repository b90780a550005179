//! The rules for reading a delivery.

use crate::planner::Planner;
use futures::future::join_all;
use surety_common::domain::toolchain::{Forge, Rules, may_be_own};
use surety_forge::ServiceAccount;

/// The rules for reading a delivery: whose marked comments and issues are the service's own. The accounts are those of
/// the rules file and of the configured forges, which are asked only where the delivery may have such a mark, each by itself.
pub(crate) async fn reading(planner: &Planner, forge: Forge, body: &[u8]) -> Rules {
    let mut own = planner.rules.own_accounts().to_vec();
    let mut to_ask = Vec::new();
    for account in planner.escalations.own_accounts(forge) {
        match account {
            ServiceAccount::Known(account) => own.push(account.to_owned()),
            ServiceAccount::Asked(name, answer) => to_ask.push((name, answer)),
        }
    }
    if may_be_own(body) {
        let asking = to_ask.into_iter().map(async |(name, answer)| {
            let answer = planner.circuits.ask(name, answer).await;
            if answer.is_none() {
                tracing::warn!(
                    forge = name,
                    "planner: the forge did not say in time which account the service has; set `account` of the forge, so \
                     that its own comments are ignored"
                );
            }
            answer.flatten()
        });
        own.extend(join_all(asking).await.into_iter().flatten());
    }
    Rules { own, servers: planner.escalations.servers(forge) }
}
