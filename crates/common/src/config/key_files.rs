//! The key files of all services, for a command that is none of them.

use super::settings as s;
use crate::domain::signature::Service;
use clap::Args;
use std::path::{Path, PathBuf};

/// The key files of the services, where they are set.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyFilesConfig {
    /// The planner's.
    #[arg(long = s::PLANNER_KEY_FILE.flag, env = s::PLANNER_KEY_FILE.env, hide = true,
          value_parser = s::PLANNER_KEY_FILE.reads::<PathBuf>())]
    planner_key_file: Option<PathBuf>,

    /// The executor's.
    #[arg(long = s::EXECUTOR_KEY_FILE.flag, env = s::EXECUTOR_KEY_FILE.env, hide = true,
          value_parser = s::EXECUTOR_KEY_FILE.reads::<PathBuf>())]
    executor_key_file: Option<PathBuf>,

    /// The gate's.
    #[arg(long = s::GATE_KEY_FILE.flag, env = s::GATE_KEY_FILE.env, hide = true,
          value_parser = s::GATE_KEY_FILE.reads::<PathBuf>())]
    gate_key_file: Option<PathBuf>,
}

impl KeyFilesConfig {
    /// The key file of a service; none where it is not set, and for a user.
    pub fn of(&self, service: Service) -> Option<&Path> {
        let file = match service {
            Service::Planner => &self.planner_key_file,
            Service::Executor => &self.executor_key_file,
            Service::Gate => &self.gate_key_file,
            Service::User => &None,
        };
        file.as_deref()
    }
}
