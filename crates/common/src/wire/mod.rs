//! The wire form: generated protobuf code, and its conversion to and from the domain.
//!
//! ```text
//!   v1 (generated)  --TryFrom-->  domain      one file for each family of messages
//!                   <---From----
//!   Fault  <--status-->  tonic::Status        the only place that converts errors
//!   server, client                            the only place that creates ports and channels
//!   caller                                    who makes a call, for the handlers
//! ```
//!
//! Conversions destructure every message, so the compiler refuses a new field until it is
//! converted.

pub mod admin;
pub mod caller;
mod check;
pub mod client;
mod decision;
pub mod error;
pub mod event;
pub mod hook;
mod limits;
pub mod mail;
mod plan;
pub mod problem;
pub mod receipt;
pub mod run;
pub mod selection;
pub mod server;
pub mod status;
mod todo;
pub mod token;
pub mod trace;
pub mod value;
pub mod verdict;
pub mod verify_tool;

#[cfg(test)]
mod tests;

/// Messages, clients and servers of package `surety.v1`; the `.proto` files document them.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::too_many_lines,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::let_underscore_must_use,
    rustdoc::all
)]
pub mod v1 {
    tonic::include_proto!("surety.v1");
}

/// Every file of package `surety.v1` and what it imports, with comments, as an encoded
/// `FileDescriptorSet`; for reflection and for the API docs.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("surety_descriptor");
