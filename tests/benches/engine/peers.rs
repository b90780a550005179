//! The figures of other engines: published ones, each measured with its best settings on the same
//! kind of machine, with Postgres, engine and client on the same two cores. The method is in
//! `docs/benchmarks.md`.

/// An engine that stores every step of a run.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Steps a second of runs of ten steps that do nothing.
    pub(crate) steps_per_second: f64,
    /// One run of ten steps alone, milliseconds.
    pub(crate) run_p50_ms: f64,
    pub(crate) run_p99_ms: f64,
}

pub(crate) const PEERS: [Peer; 4] = [
    Peer { name: "Restate", steps_per_second: 6699.0, run_p50_ms: 12.6, run_p99_ms: 23.2 },
    Peer { name: "Graphile chain", steps_per_second: 1432.0, run_p50_ms: 22.8, run_p99_ms: 34.8 },
    Peer { name: "DBOS", steps_per_second: 1409.0, run_p50_ms: 15.8, run_p99_ms: 30.4 },
    Peer { name: "LangGraph", steps_per_second: 742.0, run_p50_ms: 15.2, run_p99_ms: 49.4 },
];

/// Steps a second that Postgres alone makes of the same writes on that machine, one transaction a
/// step, one journal row and one update: the ceiling without batches.
pub(crate) const POSTGRES_ALONE_UNBATCHED: f64 = 16_561.0;

/// The ratio to each peer, as in `Restate x0.50, DBOS x2.1`.
pub(crate) fn ratios(ours: f64, of: impl Fn(&Peer) -> f64) -> String {
    PEERS
        .iter()
        .map(|peer| format!("{} x{}", peer.name, short(ours / of(peer))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A ratio with as many digits as it deserves.
pub(crate) fn short(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.0}"),
        ratio if ratio >= 1.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

/// One run without steps alone, p50 in milliseconds.
pub(crate) const DBOS_EMPTY_P50_MS: f64 = 2.2;
/// As [`DBOS_EMPTY_P50_MS`].
pub(crate) const RESTATE_EMPTY_P50_MS: f64 = 3.9;
