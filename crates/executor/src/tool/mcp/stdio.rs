//! The protocol over the standard input and output of a process: one JSON-RPC message a line.

use super::framing::{Broken, Framer, Line};
use rmcp::model::{
    ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::sync::Mutex;

/// The size of a read in bytes, the capacity of a pipe on Linux.
const READ: usize = 64 << 10;
/// The code of the error that stands for an answer that is too large. JSON-RPC leaves it to implementations.
pub(super) const TOO_LARGE: ErrorCode = ErrorCode(-32_099);

/// Why the connection was given up; none while it was not.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict(Arc<StdMutex<Option<String>>>);

impl Verdict {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

/// The two ends of a server's process.
pub(super) struct StdioTransport {
    output: ChildStdout,
    framer: Framer,
    buffer: Vec<u8>,
    /// The part of the buffer that was not pushed yet.
    rest: std::ops::Range<usize>,
    input: Arc<Mutex<Option<pipe::Sender>>>,
    /// The requests without an answer.
    waiting: Arc<StdMutex<HashSet<RequestId>>>,
    verdict: Verdict,
}

impl StdioTransport {
    pub(super) fn new(input: pipe::Sender, output: ChildStdout, limit: usize) -> Self {
        Self {
            output,
            framer: Framer::new(limit),
            buffer: vec![0; READ],
            rest: 0..0,
            input: Arc::new(Mutex::new(Some(input))),
            waiting: Arc::default(),
            verdict: Verdict::default(),
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// The next message; none at the end. Nothing is lost when it is dropped.
    async fn next(&mut self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Broken> {
        loop {
            while !self.rest.is_empty() {
                let bytes = self.buffer.get(self.rest.clone()).unwrap_or_default();
                let (taken, line) = self.framer.push(bytes)?;
                self.rest.start += taken;
                if let Some(line) = line
                    && let Some(message) = self.read(line)?
                {
                    return Ok(Some(message));
                }
            }
            match self.output.read(&mut self.buffer).await {
                Ok(0) => return Ok(None),
                Ok(read) => self.rest = 0..read,
                Err(error) => return Err(Broken(format!("its output cannot be read: {error}"))),
            }
        }
    }

    /// The message of a line; none for one that concerns no caller.
    fn read(&mut self, line: Line) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Broken> {
        let line = match line {
            Line::Message(line) => line,
            Line::TooLarge(id) => return self.too_large(id).map(Some),
        };
        let message: RxJsonRpcMessage<RoleClient> =
            serde_json::from_slice(&line).map_err(|error| {
                Broken(format!("it wrote a line that is no JSON-RPC message: {error}"))
            })?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reply = match &message {
            JsonRpcMessage::Response(response) => waiting.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().is_some_and(|id| waiting.remove(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        };
        drop(waiting);
        self.framer.count(is_reply)?;
        let matters = match &message {
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => is_reply,
            JsonRpcMessage::Request(_) => true,
            JsonRpcMessage::Notification(sent) => {
                matches!(sent.notification, ServerNotification::ToolListChangedNotification(_))
            }
        };
        Ok(matters.then_some(message))
    }

    /// An error in the place of an answer that is too large.
    fn too_large(&self, id: Option<i64>) -> Result<RxJsonRpcMessage<RoleClient>, Broken> {
        let id = id.map(RequestId::Number);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match id.filter(|id| waiting.remove(id)) {
            Some(id) => {
                let message = "its answer is larger than one message of it may be";
                let error = ErrorData::new(TOO_LARGE, message, None);
                Ok(JsonRpcMessage::Error(JsonRpcError::new(Some(id), error)))
            }
            None => {
                Err(Broken("it wrote a message that is larger than one of it may be".to_owned()))
            }
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.insert(request.id.clone());
        }
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(pipe) = input.as_mut() else {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            };
            pipe.write_all(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.next().await {
            Ok(message) => message,
            Err(Broken(why)) => {
                self.verdict.set(why);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A write that waits for a server that does not read holds the lock; the end of the process frees it.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
        Ok(())
    }
}
