//! The settings of runs that a model of the service drives.

use super::{Accepts, Group, Setting};

pub(in crate::config) const MODEL_WAIT_S: Setting = Setting {
    group: Group::Model,
    flag: "model-wait-s",
    env: "SURETY_MODEL_WAIT_S",
    default: "3600",
    accepts: Accepts::Whole { min: 1, max: 2_592_000, unit: "seconds" },
    meaning: "How long a run waits for a model's endpoint that does not answer. Then it ends with model_unavailable.",
    secret: false,
};

pub(in crate::config) const MODEL_TURNS: Setting = Setting {
    group: Group::Model,
    flag: "model-turns",
    env: "SURETY_MODEL_TURNS",
    default: "32",
    accepts: Accepts::Whole { min: 1, max: 4096, unit: "turns" },
    meaning: "How many steps (executor) or plans (planner) the models of one process work on at a time.",
    secret: false,
};

pub(in crate::config) const MODEL_PROMPTS_DIR: Setting = Setting {
    group: Group::Model,
    flag: "model-prompts-dir",
    env: "SURETY_MODEL_PROMPTS_DIR",
    default: "",
    accepts: Accepts::Path,
    meaning: "The folder with prompts that replace the built-in ones, such as step/v1.md ([model-driver.md](model-driver.md)).",
    secret: false,
};
