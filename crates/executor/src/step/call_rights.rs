//! What the calls of a run may use.

use crate::tool::{RunSecrets, Sandbox, Secrets, VerifyTools};
use std::sync::Arc;
use surety_common::domain::run::RunSpec;

/// What every call of a run may use, by its policy.
pub(super) struct CallRights {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) verify_tools: Arc<VerifyTools>,
    pub(super) secrets: Arc<RunSecrets>,
}

impl CallRights {
    pub(super) fn new(sandbox: &Sandbox, secrets: &Secrets, spec: &RunSpec) -> Self {
        let RunSpec { namespace, policy, .. } = spec;
        let verify_tools = policy.verify_tools().map(|(owner, tool)| (owner, tool.clone()));
        Self {
            sandbox: Arc::new(sandbox.under(policy)),
            verify_tools: verify_tools.collect(),
            secrets: Arc::new(secrets.of_run(namespace, &policy.secrets)),
        }
    }
}
