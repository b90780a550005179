//! The settings of models.

use super::{Accepts, Group, Setting};

pub(in crate::config) const MODEL_PROFILES_FILE: Setting = Setting {
    group: Group::Model,
    flag: "model-profiles-file",
    env: "SURETY_MODEL_PROFILES_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The TOML file with the profiles of models, their prices and their uses ([models.md](models.md)). \
              The four settings below make or change its profile `default`.",
    secret: false,
};

pub(in crate::config) const MODEL_URL: Setting = Setting {
    group: Group::Model,
    flag: "model-url",
    env: "SURETY_MODEL_URL",
    default: "",
    accepts: Accepts::Url(&["http", "https"]),
    meaning: "The base address of the model profile `default`, such as http://127.0.0.1:8000/v1: what stands before \
              /chat/completions or /messages.",
    secret: false,
};

pub(in crate::config) const MODEL_NAME: Setting = Setting {
    group: Group::Model,
    flag: "model-name",
    env: "SURETY_MODEL_NAME",
    default: "",
    accepts: Accepts::Name,
    meaning: "The model of that profile, by the endpoint's name for it.",
    secret: false,
};

pub(in crate::config) const MODEL_API: Setting = Setting {
    group: Group::Model,
    flag: "model-api",
    env: "SURETY_MODEL_API",
    default: "openai",
    accepts: Accepts::Word(&["openai", "anthropic"]),
    meaning: "The form of that endpoint's requests: OpenAI's chat completions or Anthropic's Messages.",
    secret: false,
};

pub(in crate::config) const MODEL_KEY_FILE: Setting = Setting {
    group: Group::Model,
    flag: "model-key-file",
    env: "SURETY_MODEL_KEY_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file that holds the key for that endpoint. It must not be readable by every user of the machine.",
    secret: false,
};
