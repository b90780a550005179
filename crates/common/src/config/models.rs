//! The settings of models. The profiles themselves are read by the crate `surety-model`.

use std::path::PathBuf;

use clap::Args;

use super::settings as s;

/// Where models answer.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelConfig {
    /// The file with the profiles.
    #[arg(long = s::MODEL_PROFILES_FILE.flag, env = s::MODEL_PROFILES_FILE.env,
          help = s::MODEL_PROFILES_FILE.meaning,
          value_parser = s::MODEL_PROFILES_FILE.reads::<PathBuf>())]
    pub model_profiles_file: Option<PathBuf>,

    /// The base address of the profile `default`.
    #[arg(long = s::MODEL_URL.flag, env = s::MODEL_URL.env, help = s::MODEL_URL.meaning,
          value_parser = s::MODEL_URL.reads::<String>())]
    pub model_url: Option<String>,

    /// Its model.
    #[arg(long = s::MODEL_NAME.flag, env = s::MODEL_NAME.env, help = s::MODEL_NAME.meaning,
          value_parser = s::MODEL_NAME.reads::<String>())]
    pub model_name: Option<String>,

    /// Its form of requests: openai or anthropic.
    #[arg(long = s::MODEL_API.flag, env = s::MODEL_API.env, default_value = s::MODEL_API.default,
          help = s::MODEL_API.meaning, value_parser = s::MODEL_API.reads::<String>())]
    pub model_api: String,

    /// The file with its key.
    #[arg(long = s::MODEL_KEY_FILE.flag, env = s::MODEL_KEY_FILE.env, help = s::MODEL_KEY_FILE.meaning,
          value_parser = s::MODEL_KEY_FILE.reads::<PathBuf>())]
    pub model_key_file: Option<PathBuf>,
}
