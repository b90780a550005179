//! What the calls of a run may use.

use super::engine::Engine;
use super::forge_of_run::forge_of_run;
use crate::tool::{RunForge, RunSecrets, Sandbox, VerifyTools};
use std::sync::Arc;
use surety_common::domain::run::RunSpec;

/// What every call of a run may use, by its policy.
pub(super) struct CallRights {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) verify_tools: Arc<VerifyTools>,
    pub(super) secrets: Arc<RunSecrets>,
    pub(super) forge: RunForge,
}

impl CallRights {
    pub(super) fn new(engine: &Engine, spec: &RunSpec) -> Self {
        let RunSpec { namespace, policy, .. } = spec;
        let verify_tools = policy.verify_tools().map(|(owner, tool)| (owner, tool.clone()));
        Self {
            sandbox: Arc::new(engine.sandbox.under(policy)),
            verify_tools: verify_tools.collect(),
            secrets: Arc::new(engine.secrets.of_run(namespace, &policy.secrets)),
            forge: forge_of_run(engine, spec),
        }
    }
}
