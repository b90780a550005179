//! The wire form: generated protobuf code, and what crosses between it and the domain.

pub mod status;

/// Messages, clients and servers of package `surety.v1`; the `.proto` files hold their docs.
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
