//! The transport over standard input and output: one message a line.
//!
//! The crate's own transport answers nothing to a line that is too long or does not read. Its sender would wait for
//! ever, so every line that cannot be taken has an error here.

use std::io::{Read, Write};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::server::{Role, Server};
use crate::failure::{Code, Failure};

/// The longest message in bytes.
const MOST_BYTES: usize = 4 << 20;
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// How long the last messages may take to be read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Chunks that wait to be read, and messages that wait to be written.
const WAITING: usize = 16;

type Sent = TxJsonRpcMessage<RoleServer>;
type Received = RxJsonRpcMessage<RoleServer>;

/// Serves the agent that started this process, until it closes the standard input.
///
/// # Errors
/// The agent speaks another protocol.
pub async fn serve_lines(role: Role) -> Result<(), Failure> {
    let ended = role.ended().clone();
    let lines = Lines::new(read_input(), write_output(), ended.clone());
    let served = Server::new(role.clone()).serve_with_ct(lines, ended.clone()).await;
    let served = match served {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        // A client that only looked whether the server starts.
        Err(_) if ended.is_cancelled() => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    ended.cancel();
    role.disconnected().await;
    served.map_err(|why| {
        let message = format!("the connection with the agent failed: {why}");
        Failure::new(Code::ConnectionLost, message, "The agent has to speak MCP.")
    })
}

/// The standard input. A thread of its own reads it: a read that is under way cannot be cancelled, and would hold the
/// end of the process.
fn read_input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = input.read(&mut chunk) {
            let read = chunk.get(..length).unwrap_or_default().to_vec();
            if sender.blocking_send(read).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The standard output. One thread writes, so that a cancelled sender leaves no half of a message. It says when it
/// has written everything.
fn write_output() -> (mpsc::Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(WAITING);
    let (written, writing) = oneshot::channel();
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        while let Some(line) = receiver.blocking_recv() {
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        // The connection may have ended by itself meanwhile.
        written.send(()).ok();
    });
    (sender, writing)
}

/// Messages as lines.
struct Lines {
    chunks: mpsc::Receiver<Vec<u8>>,
    /// What was read of the line under way.
    line: Vec<u8>,
    /// Whether the rest of a line that is too long is dropped.
    drops: bool,
    /// An error that was not sent yet.
    refusal: Option<Vec<u8>>,
    output: Option<mpsc::Sender<Vec<u8>>>,
    writing: Option<oneshot::Receiver<()>>,
    ended: CancellationToken,
}

/// What the input holds next.
enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

impl Lines {
    fn new(
        chunks: mpsc::Receiver<Vec<u8>>,
        (output, writing): (mpsc::Sender<Vec<u8>>, oneshot::Receiver<()>),
        ended: CancellationToken,
    ) -> Self {
        let (output, writing) = (Some(output), Some(writing));
        Self { chunks, line: Vec::new(), drops: false, refusal: None, output, writing, ended }
    }

    /// The next line.
    ///
    /// # Cancel safety
    /// What was read stays.
    async fn next(&mut self) -> Line {
        let mut searched = 0;
        loop {
            let rest = self.line.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.line.split_off(searched + end + 1);
                let whole = std::mem::replace(&mut self.line, rest);
                searched = 0;
                if std::mem::take(&mut self.drops) {
                    continue;
                }
                return if whole.len() > MOST_BYTES { Line::TooLong } else { Line::Whole(whole) };
            }
            searched = self.line.len();
            if searched > MOST_BYTES {
                self.line.clear();
                searched = 0;
                if !std::mem::replace(&mut self.drops, true) {
                    return Line::TooLong;
                }
            }
            match self.chunks.recv().await {
                Some(chunk) => self.line.extend(chunk),
                None => return Line::End,
            }
        }
    }

    async fn refuse(&mut self) -> Option<()> {
        if self.refusal.is_some() {
            let permit = self.output.as_ref()?.reserve().await.ok()?;
            permit.send(self.refusal.take()?);
        }
        Some(())
    }
}

impl Transport<RoleServer> for Lines {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: Sent,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let closed = || std::io::Error::from(std::io::ErrorKind::NotConnected);
            let line = encoded(&item)?;
            output.ok_or_else(closed)?.send(line).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<Received> {
        loop {
            self.refuse().await?;
            let line = match self.next().await {
                Line::Whole(line) => line,
                Line::TooLong => {
                    let why = format!("a message has more than {MOST_BYTES} bytes");
                    let error = ErrorData::invalid_request(why, None);
                    self.refusal = Some(refusal(&error, &Value::Null));
                    continue;
                }
                Line::End => {
                    // Rounds end with the connection, which nothing reads any more.
                    self.ended.cancel();
                    return None;
                }
            };
            match decoded(&line) {
                Ok(message) => return Some(message),
                Err(refusal) => self.refusal = refusal,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output = None;
        let Some(writing) = self.writing.take() else { return Ok(()) };
        // An agent that does not read is not waited for. A thread that is gone has nothing left to write.
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(_) => Ok(()),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

fn encoded(message: &Sent) -> Result<Vec<u8>, std::io::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The error to a message without a known id, whose id JSON-RPC asks to be null.
fn refusal(error: &ErrorData, id: &Value) -> Vec<u8> {
    let (code, message) = (error.code.0, &error.message);
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    format!("{error}\n").into_bytes()
}

/// A message, or the error to answer; none for a blank line or a notification that no one reads.
fn decoded(line: &[u8]) -> Result<Received, Option<Vec<u8>>> {
    if line.trim_ascii().is_empty() {
        return Err(None);
    }
    let error = match serde_json::from_slice::<Received>(line) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        let why = format!("the message is no JSON that can be read: {error}");
        return Err(Some(refusal(&ErrorData::parse_error(why, None), &Value::Null)));
    };
    let id = value.get("id").filter(|id| id.is_string() || id.is_number());
    if id.is_none() && value.get("method").is_some() {
        return Err(None);
    }
    let id = id.cloned().unwrap_or(Value::Null);
    let why = "the message is no request, answer or notification of JSON-RPC 2.0";
    Err(Some(refusal(&ErrorData::invalid_request(why, None), &id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Lines {
        let (sender, receiver) = mpsc::channel(chunks.len().max(1));
        chunks.iter().for_each(|chunk| sender.try_send(chunk.to_vec()).unwrap());
        let (output, _) = mpsc::channel(1);
        Lines::new(receiver, (output, oneshot::channel().1), CancellationToken::new())
    }

    #[tokio::test]
    async fn lines_are_cut_where_they_end_and_too_long_ones_are_dropped_whole() {
        let long = vec![b'x'; MOST_BYTES];
        let mut lines = lines(&[b"a\nb", b"c\n\n", &long, b"yy", &long, b"z\nlast\nrest"]);
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::Whole(line) => found.push(String::from_utf8(line).unwrap()),
                Line::TooLong => found.push("too long".to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(found, ["a\n", "bc\n", "\n", "too long", "last\n"]);
    }

    #[test]
    fn what_cannot_be_taken_has_an_error_with_its_id() {
        let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        let cases = [
            (b"nonsense".to_vec(), Some((-32700, Value::Null))),
            (deep.into_bytes(), Some((-32700, Value::Null))),
            (br#"{"jsonrpc":"2.0","id":7}"#.to_vec(), Some((-32600, Value::from(7)))),
            (b"[]".to_vec(), Some((-32600, Value::Null))),
            (b"  ".to_vec(), None),
        ];
        for (line, expected) in cases {
            let refusal = decoded(&line).err().unwrap();
            let found = refusal.map(|refusal| {
                let sent: Value = serde_json::from_slice(&refusal).unwrap();
                (sent["error"]["code"].as_i64().unwrap(), sent["id"].clone())
            });
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&line));
        }
    }
}
