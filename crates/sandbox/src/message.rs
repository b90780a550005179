//! Messages between a service and the stages of the helper: a length, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Bytes of the largest message.
pub const REPORT_LIMIT: usize = 16 << 20;

/// Asks for an end: SIGTERM to every process of the command.
pub(crate) const TERMINATE: u8 = b'T';
/// Ends every process of the command at once.
pub(crate) const KILL: u8 = b'K';

/// A message as bytes.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= REPORT_LIMIT);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// The message in the bytes of one frame.
pub(crate) fn unframe<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let mut bytes = bytes;
    receive(&mut bytes)
}

pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(message)?)
}

pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > REPORT_LIMIT {
        return Err(io::Error::other("the message is too long"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
