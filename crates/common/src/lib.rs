//! The shared code of Surety's three services.
//!
//! ```text
//!   domain  <-  wire   (feature: generated protobuf code, conversions, gRPC errors)
//!           <-  store  (feature: Postgres rows, migrations, apply)
//!   telemetry, config, schema  (features: logs, traces, metrics; settings; JSON Schemas)
//! ```
//!
//! `domain` is pure: it uses no wire, no store, no runtime, no clock and no randomness. `cargo
//! check -p surety-common --no-default-features` builds it alone, which proves that.

#[cfg(feature = "store")]
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "store")]
pub mod crash;
pub mod domain;
#[cfg(all(feature = "config", feature = "store", feature = "wire"))]
pub mod keys;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "telemetry")]
pub mod telemetry;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "wire")]
pub mod wire;
