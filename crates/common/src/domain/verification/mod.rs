//! What the runner observes before the gate decides, and what the project's own tests came to. The
//! runner and the gate both go by these rules.
//!
//! ```text
//!   checks, policy --probes--> observations --the runner--> receipts --probed--> those of one check in a round
//!                                                                    --concealed--> those that participants see
//! ```

mod hidden;
mod named;
mod probe;
mod project_tests;
mod recorded;

pub use hidden::{HIDDEN_CHECK_FAILED, Sight, UNNAMED_HIDDEN_CHECK, concealed, is_hidden_name};
pub use named::{Verification, check_verifications};
pub use probe::{
    Observation, PREPARE_CHECK, Probe, is_commanded, is_probed, probes, wants_project_tests,
};
pub use project_tests::{PROJECT_TESTS, PROJECT_TESTS_CHECK, ProjectTests};
pub use recorded::{
    PREPARE_FAILED, WORKSPACE_CHANGED, WORKSPACE_UNKNOWN, caution_of_all, cautions_of_all,
    hosts_refused, network_refused, not_started, probed, probed_first, probed_with,
    weakest_sandbox, workspace_digest, wrote_files,
};

pub use crate::domain::receipt::{WORKSPACE_CHECK, WORKSPACE_DIGEST};

#[cfg(test)]
mod tests;
