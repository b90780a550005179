//! Rules of a filter: calls, and what their arguments have to be.

use seccompiler::{
    BackendError, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompRule,
};
use std::collections::BTreeMap;

/// The rules of each call; one without rules is meant whatever its arguments are.
pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A rule that holds where all of these do: an argument, how much of it counts, and what it is compared with.
pub(super) fn rule(conditions: Vec<(u8, Len, Op, u64)>) -> Result<SeccompRule, BackendError> {
    let conditions = conditions
        .into_iter()
        .map(|(argument, length, op, value)| SeccompCondition::new(argument, length, op, value))
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}
