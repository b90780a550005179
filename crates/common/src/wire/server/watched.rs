//! A connection that ends itself: between two requests after its idle time, when its client does not read an answer for
//! so long, and when it is closed in favour of another.

use super::bounds::Slot;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// A connection whose beginning was read already.
pub(super) struct Watched<C> {
    inner: C,
    /// The bytes that were read, and how many of them were handed on.
    opening: (Vec<u8>, usize),
    slot: Arc<Slot>,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Only HTTP/1 has an idle time: an HTTP/2 client keeps its connection.
    idle: Option<Pin<Box<Sleep>>>,
    /// Until when the client has to take bytes of an answer; none while it does.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<C> Watched<C> {
    pub(super) fn new(inner: C, opening: Vec<u8>, slot: Arc<Slot>, is_http1: bool) -> Self {
        let evicted = Box::pin(slot.evicted.clone().cancelled_owned());
        let idle = is_http1.then(|| Box::pin(sleep_until(Instant::now() + slot.bounds().idle)));
        Self { inner, opening: (opening, 0), slot, evicted, idle, stalled: None }
    }

    /// Whether the connection has to end while it waits for bytes.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed in favour of another connection",
            ));
        }
        let Some(idle) = &mut self.idle else { return Poll::Pending };
        // The idle time does not move when bytes arrive: the next header has to be whole by then. The HTTP server does
        // not poll again when an answer is written, so the timer also runs while a request is served.
        while idle.as_mut().poll(context).is_ready() {
            let (now, since) = (Instant::now(), self.slot.waits_since());
            let end = since.unwrap_or(now) + self.slot.bounds().idle;
            if end <= now {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "idle for too long"));
            }
            idle.as_mut().reset(end);
        }
        Poll::Pending
    }

    /// What a write comes to: it ends the connection where the client takes no bytes for too long.
    fn poll_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        if self.evicted.as_mut().poll(context).is_ready() {
            let message = "closed in favour of another connection";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, message)));
        }
        let limit = self.slot.bounds().idle;
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        stalled.as_mut().poll(context).map(|()| {
            let message = "the client does not read the answer";
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Watched<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (bytes, at) = &mut this.opening;
        let left = bytes.get(*at..).unwrap_or_default();
        if !left.is_empty() {
            let count = left.len().min(buffer.remaining());
            buffer.put_slice(left.get(..count).unwrap_or_default());
            *at += count;
            if *at == bytes.len() {
                this.opening = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        match Pin::new(&mut this.inner).poll_read(context, buffer) {
            Poll::Pending => this.poll_end(context).map(Err),
            ready => ready,
        }
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Watched<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.poll_stalled(context, write)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.inner).poll_flush(context);
        self.poll_stalled(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.poll_stalled(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bounds::{Bounds, Connections};
    use super::*;
    use std::net::IpAddr;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_client_that_does_not_read_its_answer_loses_the_connection() {
        let bounds = Bounds { idle: Duration::from_millis(200), ..Bounds::default() };
        let connections = Connections::new(bounds, 1_000);
        let slot = connections.admit(IpAddr::from([192, 0, 2, 1])).expect("a slot");
        slot.serve();
        let (near, mut far) = duplex(16);
        let mut connection = Watched::new(near, Vec::new(), slot, true);
        let reading =
            tokio::spawn(async move { far.read_exact(&mut [0; 1000]).await.map(|_| far) });
        connection.write_all(&[1; 1000]).await.expect("a client that reads");
        let unread = reading.await.expect("a task").expect("an answer");
        let writing = timeout(Duration::from_secs(30), connection.write_all(&[1; 1000]));
        let stalled = writing.await.expect("the connection was kept").expect_err("it was written");
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
        drop(unread);
    }
}
