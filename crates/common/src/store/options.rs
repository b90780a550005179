//! The options of every connection.

use crate::clock;
use sqlx::postgres::PgConnectOptions;

/// Every statement finds its rows by an index. By default the database's planner scans whole tables
/// that are small or were never analysed, and plans each statement again at every call. A scan that no
/// index replaces counts as expensive then: without `jit = off` it would be compiled at each call, for
/// 0.3 s of a processor.
const PINNED_PLANS: [(&str, &str); 5] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Begins a transaction whose one statement is planned for its values, where one plan for all values could not use the
/// index that fits: a filter that is not set, a label that most rows have.
pub(super) const PLAN_FOR_VALUES: &str =
    "begin read only; set local plan_cache_mode = force_custom_plan";

/// Lets the server end the session of a client that the network disconnected. Otherwise that
/// session and its row locks would last for hours. No transaction here stays open for long.
const CUT_OFF: [(&str, &str); 5] = [
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "2"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "30000"),
];

/// The application name of these connections.
const NAME: &str = "surety";

/// The options of every connection to the database with this shard index.
pub(super) fn prepared(options: PgConnectOptions, shard_index: usize) -> PgConnectOptions {
    let name = match shard_index {
        clock::PRIMARY_SHARD => NAME.to_owned(),
        shard_index => format!("{NAME}-{shard_index}"),
    };
    options.application_name(&name).options(PINNED_PLANS).options(CUT_OFF)
}

/// The shard index that [`prepared`] wrote into the options.
pub(super) fn shard_index_of(options: &PgConnectOptions) -> usize {
    let shard_index = options.get_application_name().and_then(|name| name.strip_prefix(NAME));
    let shard_index = shard_index.and_then(|shard_index| shard_index.strip_prefix('-'));
    shard_index.and_then(|shard_index| shard_index.parse().ok()).unwrap_or(clock::PRIMARY_SHARD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_of_a_pool_knows_the_place_of_its_database() {
        for shard_index in [clock::PRIMARY_SHARD, 1, 12] {
            let options: PgConnectOptions = "postgres://h/d?application_name=x".parse().unwrap();
            assert_eq!(shard_index_of(&prepared(options, shard_index)), shard_index);
        }
        assert_eq!(shard_index_of(&PgConnectOptions::new()), clock::PRIMARY_SHARD);
    }
}
