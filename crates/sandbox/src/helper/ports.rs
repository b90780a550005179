//! TCP ports that a command with the host's network may not connect to.

use crate::spec::NotStarted;
use landlock::{
    AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
};
use std::io;

/// Lets this process, and all that it starts, connect to every port but these. Landlock has no rule that refuses, so
/// all others are allowed one by one, which takes some ten milliseconds. A kernel without rules for ports changes nothing.
pub(super) fn close(closed: &[u16]) -> Result<(), NotStarted> {
    if closed.is_empty() {
        return Ok(());
    }
    let failed = |error: landlock::RulesetError| {
        NotStarted::setup("Landlock", &io::Error::other(error.to_string()))
    };
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::ConnectTcp)
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let open = (0..=u16::MAX).filter(|port| !closed.contains(port));
    let rules = open.map(|port| Ok(NetPort::new(port, AccessNet::ConnectTcp)));
    ruleset.add_rules(rules).and_then(|ruleset| ruleset.restrict_self()).map(drop).map_err(failed)
}
