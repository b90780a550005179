//! The roles of agents.

use super::words::words;
use std::fmt;

words! {
    /// What an agent can be asked for without being named.
    Role {
        /// Reviews pull requests.
        Reviewer = "reviewer",
        /// Writes code.
        Developer = "developer",
        /// Gets what no other agent can take.
        Coordinator = "coordinator",
        /// Runs builds and deployments.
        Infra = "infra",
    }
}
