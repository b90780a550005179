//! The settings of anchors, by which a time-stamp authority attests when verdicts existed.

use super::{Accepts, Group, Setting};

pub(in crate::config) const GATE_ANCHOR_URL: Setting = Setting {
    group: Group::Gate,
    flag: "gate-anchor-url",
    env: "SURETY_GATE_ANCHOR_URL",
    default: "",
    accepts: Accepts::Url(&["http", "https"]),
    meaning: "The time-stamp authority (RFC 3161) that anchors verdicts; off without one. The gate sends it a digest \
              over the signatures of new verdicts and nothing else, in the background: no verdict waits for it. \
              Needs --gate-anchor-certificate-file and --gate-key-file.",
    secret: false,
};

pub(in crate::config) const GATE_ANCHOR_CERTIFICATE_FILE: Setting = Setting {
    group: Group::Gate,
    flag: "gate-anchor-certificate-file",
    env: "SURETY_GATE_ANCHOR_CERTIFICATE_FILE",
    default: "",
    accepts: Accepts::Path,
    meaning: "The authority's own certificate, PEM. A time stamp that its key did not sign is refused. Replace the \
              file and restart the gate when the authority changes its certificate.",
    secret: false,
};

pub(in crate::config) const GATE_ANCHOR_INTERVAL_S: Setting = Setting {
    group: Group::Gate,
    flag: "gate-anchor-interval-s",
    env: "SURETY_GATE_ANCHOR_INTERVAL_S",
    default: "60",
    accepts: Accepts::Whole { min: 1, max: 86_400, unit: "seconds" },
    meaning: "How often the gate anchors the verdicts since the last anchor. Without new verdicts nothing is sent. After \
              a failure it doubles the wait, up to an hour.",
    secret: false,
};

pub(in crate::config) const GATE_ANCHOR_DIR: Setting = Setting {
    group: Group::Gate,
    flag: "gate-anchor-dir",
    env: "SURETY_GATE_ANCHOR_DIR",
    default: "",
    accepts: Accepts::Path,
    meaning: "The folder in which each anchor is kept as a file too, outside the database: `surety receipts verify \
              --since FILE` finds by it that a run was rolled back. Without one, anchors are in the database only.",
    secret: false,
};
