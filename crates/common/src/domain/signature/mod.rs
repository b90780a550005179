//! Signatures over what a verdict rests on.
//!
//! ```text
//!   journal rows of one group commit --leaves--> Merkle root --statement--> one DSSE signature of the service
//!   each row keeps key, signature and the proof of its own leaves
//!   entry of a task's history --statement--> one DSSE signature of the service that stores it
//!   verdict --statement (SLSA VSA, test-result)--> one DSSE signature of the gate each
//!
//!   Verifier: a run's rows, or the lines of an export, against trusted keys -> signed | unsigned | broken(where)
//! ```
//!
//! Who signs: the executor its receipts, the planner runs, plans, approvals and answers, the gate verdicts. The
//! trusted keys come from a file of the reader, never from the database that is judged.

mod anchor;
mod columns;
mod commit;
mod entry;
mod envelope;
mod export;
mod history;
mod key;
mod merkle;
mod progress;
mod receipt_proof;
mod report;
mod row;
mod signers;
mod since;
mod summary;
mod trust;
mod user;
mod verifier;

pub use anchor::{AnchorTree, AnchoredVerdict, VerdictAnchor, anchored_line};
pub use columns::{FoundColumns, PlanColumns, RunColumns, SignedColumns, TaskColumns};
pub use commit::{Commit, CommitLine, Row};
pub use entry::{EntryLine, EntrySignature, SignedEntry, links_digest};
pub use envelope::{Envelope, PAYLOAD_TYPE, instant, message_of};
pub use export::{check_export, header_line, state_line, stored_line};
pub use key::{KEY_BYTES, KeyError, KeyId, PublicKey, SIGNATURE_BYTES, SecretKey};
pub use merkle::{Digest, RangeProof, Tree, leaf};
pub use progress::{SignedState, StateChange, StateName, initial_progress, progress_digest};
pub use receipt_proof::{PresentedLink, ReceiptProof, check_receipts};
pub use report::{EvidenceReport, SignatureStatus, StoredState};
pub use row::{RowLeaves, RowSignature, root_statement};
pub use since::{is_about_a_verdict, missing_since, verdicts_end_line};
pub use summary::{SignedVerdict, verdict_statements};
pub use trust::{Service, TrustError, TrustedKey, TrustedKeys};
pub use user::{DocumentFault, sign_document, verify_document};
pub use verifier::Verifier;

#[cfg(test)]
mod tests;
