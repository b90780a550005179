//! The settings of runs that a model of the service drives.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::models::ModelConfig;
use super::settings as s;

/// Which models plan and decide, and how long a run waits for them.
#[derive(Debug, Clone, Args)]
pub struct ModelDriverConfig {
    /// Where models answer.
    #[command(flatten)]
    pub models: ModelConfig,

    /// Seconds that a run waits for an endpoint that does not answer, 1..2592000; read it with
    /// [`ModelDriverConfig::model_wait`].
    #[arg(long = s::MODEL_WAIT_S.flag, env = s::MODEL_WAIT_S.env, default_value = s::MODEL_WAIT_S.default,
          help = s::MODEL_WAIT_S.meaning, value_parser = s::MODEL_WAIT_S.reads::<u64>())]
    pub model_wait_s: u64,

    /// The most steps, or plans, at a time, 1..4096.
    #[arg(long = s::MODEL_TURNS.flag, env = s::MODEL_TURNS.env, default_value = s::MODEL_TURNS.default,
          help = s::MODEL_TURNS.meaning, value_parser = s::MODEL_TURNS.reads::<u32>())]
    pub model_turns: u32,

    /// The folder with prompts that replace the built-in ones.
    #[arg(long = s::MODEL_PROMPTS_DIR.flag, env = s::MODEL_PROMPTS_DIR.env,
          help = s::MODEL_PROMPTS_DIR.meaning, value_parser = s::MODEL_PROMPTS_DIR.reads::<PathBuf>())]
    pub model_prompts_dir: Option<PathBuf>,
}

impl ModelDriverConfig {
    /// How long a run waits for an endpoint that does not answer.
    #[must_use]
    pub const fn model_wait(&self) -> Duration {
        Duration::from_secs(self.model_wait_s)
    }

    /// How many steps, or plans, the models work on at a time.
    #[must_use]
    pub fn turns(&self) -> usize {
        usize::try_from(self.model_turns).unwrap_or(usize::MAX)
    }
}
