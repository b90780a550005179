//! Lines of a server's standard output, each one message, within bounds of size and number.

use std::ops::Range;

/// The most messages between two replies: a server that sends more has no end.
const MOST_BETWEEN_REPLIES: u32 = 20_000;
/// The most lines that are no JSON objects, which some servers print at their start.
const MOST_OTHER_LINES: u32 = 1_000;
/// How much of a line that is too long is looked through for the id of its request, from both ends.
const EDGE: usize = 512;
/// How many times the largest message a line without an end may have before the connection is given up.
const ENDLESS: usize = 4;

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message, without its end of line.
    Message(Vec<u8>),
    /// A message that is larger than the limit; the id of the request that it answers, where one shows.
    TooLarge(Option<i64>),
}

/// Why a connection is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken(pub(super) String);

/// Splits the output into lines. Bytes are pushed, lines are taken.
pub(super) struct Framer {
    limit: usize,
    line: Vec<u8>,
    /// Bytes of the present line so far, where it is too long.
    dropped: usize,
    tail: Vec<u8>,
    others: u32,
    since_reply: u32,
}

impl Framer {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), dropped: 0, tail: Vec::new(), others: 0, since_reply: 0 }
    }

    /// Takes bytes up to the end of a line. Returns how many it took, and the line where one ended.
    ///
    /// # Errors
    /// A line without an end, or too many lines that are no messages.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<Line>), Broken> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, taken) = match end {
            Some(end) => (bytes.get(..end).unwrap_or_default(), end + 1),
            None => (bytes, bytes.len()),
        };
        self.add(part)?;
        let line = if end.is_some() { self.finish()? } else { None };
        Ok((taken, line))
    }

    fn add(&mut self, part: &[u8]) -> Result<(), Broken> {
        if self.dropped == 0 && self.line.len() + part.len() <= self.limit {
            self.line.extend_from_slice(part);
            return Ok(());
        }
        if self.dropped == 0 {
            self.dropped = self.line.len();
            self.tail = edge(&self.line, self.line.len().saturating_sub(EDGE)..self.line.len());
            self.line.truncate(EDGE);
            let missing = (EDGE - self.line.len()).min(part.len());
            self.line.extend_from_slice(part.get(..missing).unwrap_or_default());
            self.line.shrink_to_fit();
        }
        self.dropped = self.dropped.saturating_add(part.len());
        self.tail
            .extend_from_slice(part.get(part.len().saturating_sub(EDGE)..).unwrap_or_default());
        let excess = self.tail.len().saturating_sub(EDGE);
        self.tail.drain(..excess);
        if self.dropped > self.limit.saturating_mul(ENDLESS) {
            let why = format!("it wrote {} bytes without an end of line", self.dropped);
            return Err(Broken(why));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Line>, Broken> {
        let line = std::mem::take(&mut self.line);
        if self.dropped > 0 {
            self.dropped = 0;
            let id = id_of(&line, &std::mem::take(&mut self.tail));
            return Ok(Some(Line::TooLarge(id)));
        }
        match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Ok(None),
            Some(b'{' | b'[') => Ok(Some(Line::Message(line))),
            Some(_) => {
                self.others += 1;
                if self.others > MOST_OTHER_LINES {
                    let why = format!(
                        "more than {MOST_OTHER_LINES} of its lines are no JSON-RPC messages"
                    );
                    return Err(Broken(why));
                }
                Ok(None)
            }
        }
    }

    /// Counts a message of the server.
    ///
    /// # Errors
    /// It sends messages without end.
    pub(super) fn count(&mut self, is_reply: bool) -> Result<(), Broken> {
        if is_reply {
            self.since_reply = 0;
            return Ok(());
        }
        self.since_reply += 1;
        if self.since_reply > MOST_BETWEEN_REPLIES {
            let why =
                format!("it sent more than {MOST_BETWEEN_REPLIES} messages between two replies");
            return Err(Broken(why));
        }
        Ok(())
    }
}

fn edge(bytes: &[u8], range: Range<usize>) -> Vec<u8> {
    bytes.get(range).unwrap_or_default().to_vec()
}

/// The number behind the first `"id":` of a head, or the last one of a tail.
fn id_of(head: &[u8], tail: &[u8]) -> Option<i64> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let number = |text: &str| {
        let text = text.trim_start().strip_prefix(':')?.trim_start();
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end)?.parse().ok()
    };
    const KEY: &str = "\"id\"";
    // Before the result only: inside it any text may stand.
    let before = head.split("\"result\"").next().unwrap_or_default();
    let first = before.find(KEY).and_then(|at| number(before.get(at + KEY.len()..)?));
    first.or_else(|| {
        let at = tail.rfind(KEY)?;
        let rest = tail.get(at + KEY.len()..)?;
        // The id is the last member of the message.
        let closes =
            rest.trim_end().strip_suffix('}').is_some_and(|rest| !rest.contains(['{', '}', ',']));
        if closes { number(rest) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, chunks: &[&[u8]]) -> Result<Vec<Line>, Broken> {
        let (mut framer, mut lines) = (Framer::new(limit), Vec::new());
        for chunk in chunks {
            let mut rest = *chunk;
            while !rest.is_empty() {
                let (taken, line) = framer.push(rest)?;
                lines.extend(line);
                rest = rest.get(taken..).unwrap_or_default();
            }
        }
        Ok(lines)
    }

    fn message(text: &str) -> Line {
        Line::Message(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_whole_whatever_the_chunks_are() {
        let found = lines(64, &[b"{\"a\":", b"1}\n\n{", b"}\n", b"banner\n[]\n{"]).unwrap();
        assert_eq!(found, [message("{\"a\":1}"), message("{}"), message("[]")]);
    }

    #[test]
    fn a_message_that_is_too_large_is_dropped_and_its_request_named() {
        let long = "x".repeat(2_000);
        for (text, id) in [
            (
                format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"t\":\"{long}\"}}}}\n"),
                Some(7),
            ),
            (
                format!("{{\"result\":{{\"t\":\"{long}\"}},\"jsonrpc\":\"2.0\",\"id\": 8}}\n"),
                Some(8),
            ),
            (format!("{{\"method\":\"x\",\"params\":{{\"t\":\"{long}\"}}}}\n"), None),
            (format!("{{\"result\":{{\"id\":9,\"t\":\"{long}\"}}}}\n"), None),
            (format!("{{\"result\":{{\"t\":\"{long}\",\"x\":{{\"id\":9}}}}}}\n"), None),
        ] {
            let found = lines(1_000, &[text.as_bytes(), b"{}\n"]).unwrap();
            assert_eq!(found, [Line::TooLarge(id), message("{}")], "{}", &text[..60]);
            let halves = text.as_bytes().split_at(900);
            assert_eq!(lines(1_000, &[halves.0, halves.1]).unwrap(), [Line::TooLarge(id)]);
        }
    }

    #[test]
    fn a_server_without_an_end_is_given_up() {
        let endless = vec![b'x'; 5_000];
        assert!(lines(1_000, &[&endless]).unwrap_err().0.contains("without an end of line"));
        let banner = b"hello\n".repeat(1_001);
        assert!(lines(1_000, &[&banner]).unwrap_err().0.contains("no JSON-RPC"));
        let mut framer = Framer::new(10);
        assert!((0..MOST_BETWEEN_REPLIES).all(|_| framer.count(false).is_ok()));
        assert!(framer.count(false).is_err());
        framer.count(true).unwrap();
        assert!(framer.count(false).is_ok());
    }
}
