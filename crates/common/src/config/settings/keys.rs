//! The settings of signatures.

use super::{Accepts, Group, Setting};

pub(in crate::config) const TRUSTED_KEYS_FILE: Setting = Setting {
    group: Group::Common,
    flag: "trusted-keys-file",
    env: "SURETY_TRUSTED_KEYS_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the public keys whose signatures count, as `surety keys export` writes it. The gate refuses a \
              run whose evidence they did not sign as it is stored, and the executor makes no approved and repeats no lost call of \
              it; the planner and the command line show it. \
              With its private Postgres, \
              `surety up` keeps one in its data folder. Without one, no signature is checked.",
    secret: false,
};

pub(in crate::config) const PLANNER_KEY_FILE: Setting = Setting {
    group: Group::Planner,
    flag: "planner-key-file",
    env: "SURETY_PLANNER_KEY_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the Ed25519 key that the planner signs runs, plans, approvals and answers with, as `openssl genpkey -algorithm ed25519` writes it. It is made at the \
              first start where it is missing, and must be readable by its owner only. Without one, `surety up` uses \
              a file in its data folder, and a single service signs nothing.",
    secret: false,
};

pub(in crate::config) const EXECUTOR_KEY_FILE: Setting = Setting {
    group: Group::Executor,
    flag: "executor-key-file",
    env: "SURETY_EXECUTOR_KEY_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the Ed25519 key that the executor signs receipts with, as `openssl genpkey -algorithm ed25519` writes it. It is made at the \
              first start where it is missing, and must be readable by its owner only. Without one, `surety up` uses \
              a file in its data folder, and a single service signs nothing.",
    secret: false,
};

pub(in crate::config) const GATE_KEY_FILE: Setting = Setting {
    group: Group::Gate,
    flag: "gate-key-file",
    env: "SURETY_GATE_KEY_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The file with the Ed25519 key that the gate signs verdicts with, as `openssl genpkey -algorithm ed25519` writes it. It is made at the \
              first start where it is missing, and must be readable by its owner only. Without one, `surety up` uses \
              a file in its data folder, and a single service signs nothing.",
    secret: false,
};
