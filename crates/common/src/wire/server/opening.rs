//! The beginning of a connection: its first bytes decide the protocol, within the bounds of the port.
//!
//! ```text
//!   no byte in time, a header that does not end in time --> 408 request_timeout
//!   a header of more than 32 KiB ------------------------> 431 header_too_large
//!   closed in favour of another connection --------------> 503 too_many_connections
//! ```

use super::bounds::Slot;
use crate::domain::fault::FaultCode;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The largest header of an HTTP/1 request, in bytes.
pub(super) const MAX_HEADER: usize = 32 * 1024;
/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The bytes read at once.
const CHUNK: usize = 4 * 1024;

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The whole header of a request, or bytes that are none.
    Http1(Vec<u8>),
    /// The preface of HTTP/2, and what came with it.
    Http2(Vec<u8>),
}

/// Reads the beginning of a connection; none when it was answered, or its client closed it.
pub(super) async fn open<C: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut C,
    slot: &Slot,
) -> Option<Opening> {
    let reading = timeout(slot.bounds().request, read(connection));
    let refusal = tokio::select! {
        () = slot.evicted.cancelled() => Refusal::TooMany,
        read = reading => match read {
            Ok(Ok(opening)) => return opening,
            Ok(Err(refusal)) => refusal,
            Err(_) => Refusal::Slow,
        },
    };
    // The client may be gone, and reads its answer at most once.
    drop(timeout(slot.bounds().request, answer(connection, refusal)).await);
    None
}

/// Why a connection is answered before any router sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Slow,
    HeaderTooLarge,
    TooMany,
}

async fn read<C: AsyncRead + Unpin>(connection: &mut C) -> Result<Option<Opening>, Refusal> {
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        let seen = bytes.len();
        match connection.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
        if bytes.starts_with(PREFACE) {
            return Ok(Some(Opening::Http2(bytes)));
        }
        if PREFACE.starts_with(&bytes) {
            continue;
        }
        // What is no request is refused by the HTTP server itself.
        let is_request = bytes.first().is_some_and(u8::is_ascii_uppercase);
        if !is_request || has_end(&bytes, seen) {
            return Ok(Some(Opening::Http1(bytes)));
        }
        if bytes.len() > MAX_HEADER {
            return Err(Refusal::HeaderTooLarge);
        }
    }
}

/// Whether the header ends in `bytes`, of which `seen` were looked at before.
fn has_end(bytes: &[u8], seen: usize) -> bool {
    let fresh = bytes.get(seen.saturating_sub(3)..).unwrap_or_default();
    fresh.windows(4).any(|end| end == b"\r\n\r\n") || fresh.windows(2).any(|end| end == b"\n\n")
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::HeaderTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TooMany => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn body(self) -> String {
        let (code, message) = match self {
            Self::Slow => {
                (FaultCode::RequestTimeout, "no whole request arrived in time; send it at once")
            }
            Self::HeaderTooLarge => {
                (FaultCode::HeaderTooLarge, "the header has more than 32768 bytes; send less")
            }
            Self::TooMany => (
                FaultCode::TooManyConnections,
                "the port has no place for another waiting connection; retry",
            ),
        };
        format!("{{\"code\":\"{code}\",\"message\":\"{message}\"}}\n")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let headers = [(CONTENT_TYPE, "application/json"), (CONNECTION, "close")];
        (self.status(), headers, self.body()).into_response()
    }
}

/// Writes the whole answer and closes.
async fn answer<C: AsyncWrite + Unpin>(connection: &mut C, refusal: Refusal) -> io::Result<()> {
    let (status, body) = (refusal.status(), refusal.body());
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(text.as_bytes()).await?;
    connection.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_bytes_decide_the_protocol() {
        let get = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
        let garbage = b"\x16\x03\x01".to_vec();
        for (bytes, opening) in [
            (get.clone(), Ok(Some(Opening::Http1(get.clone())))),
            (PREFACE.to_vec(), Ok(Some(Opening::Http2(PREFACE.to_vec())))),
            (garbage.clone(), Ok(Some(Opening::Http1(garbage)))),
            (b"GET / HTTP/1.1\r\nhost:".to_vec(), Ok(None)),
            (Vec::new(), Ok(None)),
            (vec![b'A'; MAX_HEADER + CHUNK], Err(Refusal::HeaderTooLarge)),
        ] {
            assert_eq!(read(&mut bytes.as_slice()).await, opening);
        }
        // Byte by byte, with the end in two pieces.
        let (mut near, mut far) = tokio::io::duplex(1);
        let writing = tokio::spawn(async move { far.write_all(&get).await.map(|()| far) });
        assert!(matches!(read(&mut near).await, Ok(Some(Opening::Http1(_)))));
        drop(writing);
    }
}
