//! The settings of a port's connections.

use super::{Accepts, Group, Setting};

pub(in crate::config) const WAITING_CONNECTIONS: Setting = Setting {
    group: Group::Common,
    flag: "waiting-connections",
    env: "SURETY_WAITING_CONNECTIONS",
    default: "1024",
    accepts: Accepts::Whole { min: 16, max: 60_000, unit: "connections" },
    meaning: "The most connections of a port that wait for a request. For a further one the oldest that was never \
              served is closed. Connections with a request, and HTTP/2 connections after their first one, do not \
              count; all of them leave 128 open files free.",
    secret: false,
};

pub(in crate::config) const WAITING_CONNECTIONS_PER_PEER: Setting = Setting {
    group: Group::Common,
    flag: "waiting-connections-per-peer",
    env: "SURETY_WAITING_CONNECTIONS_PER_PEER",
    default: "256",
    accepts: Accepts::Whole { min: 4, max: 60_000, unit: "connections" },
    meaning: "The same for one address. Raise it where a proxy brings the connections of many clients.",
    secret: false,
};

pub(in crate::config) const REQUEST_TIMEOUT_MS: Setting = Setting {
    group: Group::Common,
    flag: "request-timeout-ms",
    env: "SURETY_REQUEST_TIMEOUT_MS",
    default: "10000",
    accepts: Accepts::Whole { min: 100, max: 600_000, unit: "milliseconds" },
    meaning: "How long a TLS handshake, the header of a connection's first request, and the body of a webhook's \
              delivery may take, each.",
    secret: false,
};

pub(in crate::config) const IDLE_TIMEOUT_MS: Setting = Setting {
    group: Group::Common,
    flag: "idle-timeout-ms",
    env: "SURETY_IDLE_TIMEOUT_MS",
    default: "60000",
    accepts: Accepts::Whole { min: 100, max: 3_600_000, unit: "milliseconds" },
    meaning: "How long an HTTP/1 connection is kept until the header of its next request has arrived.",
    secret: false,
};
