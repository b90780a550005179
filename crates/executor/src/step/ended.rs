//! Why the work on a run ends in this process.

use surety_common::domain::fault::Fault;
use surety_common::domain::machine::Refusal;
use surety_common::domain::run::DriverKind;
use surety_common::store::StoreError;

/// Why work on a run ends here.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Another process holds the lease, or the run has ended.
    #[error("the run is no longer leased by this executor")]
    NotHeld,
    /// Another process changed the row under writes that were on their way. Those writes are lost, and
    /// the work continues from the row.
    #[error("another process changed the run")]
    Overtaken,
    /// This process drains.
    #[error("the executor drains")]
    Draining,
    /// The state machine refuses a move: the work here and the row disagree.
    #[error("a move was refused: {0}")]
    Refused(#[from] Refusal),
    /// The gate refused to decide, and a retry does not help.
    #[error("the gate did not decide: {0}")]
    Gate(Fault),
    /// The work on a step panicked: a defect of the executor.
    #[error("the work on a step panicked")]
    Panicked,
    /// This executor has no driver of the run's kind.
    #[error("this executor serves no driver of the kind {}", .0.as_str())]
    DriverNotServed(DriverKind),
    /// The rows could not be read or written, and a retry does not help.
    #[error(transparent)]
    Store(#[from] StoreError),
}
