//! The settings of sessions that `surety mcp` serves over HTTP.

use super::{Accepts, Group, Setting};

pub(in crate::config) const MCP_SESSIONS: Setting = Setting {
    group: Group::Client,
    flag: "mcp-sessions",
    env: "SURETY_MCP_SESSIONS",
    default: "32",
    accepts: Accepts::Whole { min: 1, max: 10_000, unit: "sessions" },
    meaning: "The most sessions that `surety mcp --listen` keeps at a time. Another one is refused with the status \
              503 until one ends.",
    secret: false,
};

pub(in crate::config) const MCP_SESSION_IDLE_S: Setting = Setting {
    group: Group::Client,
    flag: "mcp-session-idle-s",
    env: "SURETY_MCP_SESSION_IDLE_S",
    default: "14400",
    accepts: Accepts::Whole { min: 1, max: 604_800, unit: "s" },
    meaning: "How long a session of `surety mcp --listen` stays without a message. An agent works between two of \
              them; a request to an expired session is answered with the status 404.",
    secret: false,
};
