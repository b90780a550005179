//! The settings of hooks, at which forges deliver events.

use super::{Accepts, Group, Setting};

pub(in crate::config) const HOOK_SECRETS: Setting = Setting {
    group: Group::Planner,
    flag: "hook-secrets",
    env: "SURETY_HOOK_SECRETS",
    default: "",
    accepts: Accepts::Secrets,
    meaning: "The secrets that hooks of forges may name, for the namespace `_toolchain`. Files are read again every \
              ten seconds, so a secret is replaced without a restart.",
    secret: true,
};

pub(in crate::config) const UNSIGNED_HOOKS: Setting = Setting {
    group: Group::Planner,
    flag: "unsigned-hooks",
    env: "SURETY_UNSIGNED_HOOKS",
    default: "false",
    accepts: Accepts::Switch,
    meaning: "Take deliveries of hooks without a secret, from this machine and on a port of loopback only. A proxy on \
              this machine makes every client one of this machine.",
    secret: false,
};

pub(in crate::config) const DELIVERY_RETENTION_DAYS: Setting = Setting {
    group: Group::Planner,
    flag: "delivery-retention-days",
    env: "SURETY_DELIVERY_RETENTION_DAYS",
    default: "30",
    accepts: Accepts::Whole { min: 1, max: 36_500, unit: "days" },
    meaning: "How long a forge's delivery is kept after it arrived, once it is processed. A repetition is recognised \
              for so long.",
    secret: false,
};
