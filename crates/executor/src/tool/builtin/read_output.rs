//! `read_output`: reads a part of the stored output of an earlier call.

use crate::context::WHOLE_BYTES;
use crate::tool::builtin::support::{read, returning, spec as describe};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, ToolOutcome, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use surety_common::domain::json::Value;
use surety_common::domain::receipt::READ_OUTPUT;
use uuid::Uuid;

/// The tool's name.
pub const NAME: &str = READ_OUTPUT;

/// The lines that are read where the call names no number.
const DEFAULT_LINES: u64 = 100;

#[derive(Debug, Deserialize)]
struct Args {
    handle: String,
    from_line: Option<u64>,
    lines: Option<u64>,
    from_byte: Option<u64>,
    bytes: Option<u64>,
}

/// Its description.
pub(in crate::tool) fn spec() -> ToolSpec {
    returning(
        "the lines, and where the next part begins",
        describe(
            NAME,
            &format!(
                "Reads a part of the stored output of an earlier call of this run, by the handle that its \
                 observation names: some lines, or some bytes. At most {WHOLE_BYTES} bytes a call. A call is no \
                 evidence for its step."
            ),
            Annotations::READS,
            json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "minLength": 1, "description": "From the observation of the call."},
                    "from_line": {"type": "integer", "minimum": 1, "description": "The first line to read, from 1; 1 by default."},
                    "lines": {"type": "integer", "minimum": 1, "description": format!("The number of lines; {DEFAULT_LINES} by default.")},
                    "from_byte": {"type": "integer", "minimum": 0, "description": "The first byte to read, from 0, instead of lines."},
                    "bytes": {"type": "integer", "minimum": 1, "description": format!("The number of bytes from `from_byte` on; {WHOLE_BYTES} by default.")}
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
        ),
    )
}

/// Which part of which output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The call of the output.
    pub(crate) call_id: Uuid,
    /// The part.
    pub(crate) range: Range,
}

/// A part of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// Lines, the first from 1, and their number.
    Lines(u64, u64),
    /// Bytes, the first from 0, and their number.
    Bytes(u64, u64),
}

/// What the arguments ask for.
///
/// # Errors
/// `output_not_found` for a handle that is none; `arguments_invalid` for lines and bytes together.
pub(crate) fn read_wanted(arguments: &Value) -> Result<Wanted, ToolError> {
    let Args { handle, from_line, lines, from_byte, bytes } = read(arguments)?;
    let call_id = handle.trim().parse().map_err(|_| unknown(&handle))?;
    let by_lines = from_line.is_some() || lines.is_some();
    let by_bytes = from_byte.is_some() || bytes.is_some();
    if by_lines && by_bytes {
        let message =
            "lines and bytes are both named; name from_line and lines, or from_byte and bytes";
        return Err(ToolError::new(ErrorCode::ArgumentsInvalid, message));
    }
    let range = if by_bytes {
        let most = WHOLE_BYTES as u64;
        Range::Bytes(from_byte.unwrap_or_default(), bytes.unwrap_or(most).min(most))
    } else {
        Range::Lines(from_line.unwrap_or(1), lines.unwrap_or(DEFAULT_LINES))
    };
    Ok(Wanted { call_id, range })
}

/// The failure for a handle without an output.
pub(crate) fn unknown(handle: &str) -> ToolError {
    let shown: String = handle.chars().take(60).collect();
    let message = format!(
        "no call of a step of this run has an output under the handle {shown:?}; use one from an observation"
    );
    ToolError::new(ErrorCode::OutputNotFound, message)
}

/// Picks a range out of an output that arrives in parts.
#[derive(Debug)]
pub(crate) struct Picker {
    range: Range,
    /// The number of the line that the next byte belongs to, from 1.
    line: u64,
    /// The place of the next byte.
    place: u64,
    /// The place of the first picked byte.
    first: u64,
    picked: Vec<u8>,
}

impl Picker {
    /// Nothing picked yet.
    pub(crate) fn new(range: Range) -> Self {
        Self { range, line: 1, place: 0, first: 0, picked: Vec::new() }
    }

    /// Where the first part begins that has to be read.
    pub(crate) fn begin(&mut self) -> u64 {
        if let Range::Bytes(from, _) = self.range {
            self.place = from;
        }
        self.place
    }

    /// Takes the next part. Returns whether more are wanted.
    pub(crate) fn take(&mut self, part: &[u8]) -> bool {
        for byte in part {
            if self.is_full() {
                return false;
            }
            let wanted = match self.range {
                Range::Lines(from, _) => self.line >= from,
                Range::Bytes(..) => true,
            };
            if wanted {
                if self.picked.is_empty() {
                    self.first = self.place;
                }
                self.picked.push(*byte);
            }
            self.place += 1;
            self.line += u64::from(*byte == b'\n');
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        let over = match self.range {
            Range::Lines(from, lines) => self.line >= from.saturating_add(lines),
            Range::Bytes(from, bytes) => self.place >= from.saturating_add(bytes),
        };
        over || self.picked.len() >= WHOLE_BYTES
    }

    /// The outcome of the call, for an output of `bytes` bytes.
    ///
    /// # Errors
    /// `range_empty` when the range begins after the end; `not_text`.
    pub(crate) fn finish(self, bytes: u64) -> Result<ToolOutcome, ToolError> {
        let Self { range, line, place, first, mut picked } = self;
        if picked.is_empty() {
            let (unit, from) = match range {
                Range::Lines(from, _) => ("line", from),
                Range::Bytes(from, _) => ("byte", from),
            };
            let message =
                format!("{unit} {from} is after the end of the output, which has {bytes} bytes");
            return Err(ToolError::new(ErrorCode::RangeEmpty, message));
        }
        let (begun, cut) = trim_characters(&mut picked)?;
        let (first, place) = (first + begun, place.saturating_sub(cut));
        let ended_line = picked.ends_with(b"\n");
        let last_line = if ended_line { line.saturating_sub(1) } else { line };
        let part = match range {
            Range::Lines(from, _) => format!("lines {from} to {last_line}"),
            Range::Bytes(..) => format!("bytes {first} to {}", place.saturating_sub(1)),
        };
        let next = match range {
            _ if place >= bytes => "; the output ends there".to_owned(),
            Range::Lines(..) if ended_line => format!("; go on with from_line {line}"),
            Range::Lines(..) | Range::Bytes(..) => format!("; go on with from_byte {place}"),
        };
        let summary = format!("read {part} of an output of {bytes} bytes{next}");
        Ok(ToolOutcome::done(summary, picked, Vec::new()))
    }
}

/// Drops the parts of characters at both ends. Returns how many bytes were dropped at each.
fn trim_characters(picked: &mut Vec<u8>) -> Result<(u64, u64), ToolError> {
    let begun = picked.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    picked.drain(..begun);
    let cut = match std::str::from_utf8(picked) {
        Ok(_) => 0,
        // Nothing but the beginning of a character at the end.
        Err(error) if error.error_len().is_none() => {
            picked.len().saturating_sub(error.valid_up_to())
        }
        Err(_) => {
            let message = "the output is no UTF-8 text; its bytes are stored for people only";
            return Err(ToolError::new(ErrorCode::NotText, message));
        }
    };
    picked.truncate(picked.len().saturating_sub(cut));
    Ok((begun as u64, cut as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(range: Range, text: &str, parts: usize) -> Result<(String, String), ErrorCode> {
        let mut picker = Picker::new(range);
        let from = usize::try_from(picker.begin()).unwrap().min(text.len());
        for part in text.as_bytes()[from..].chunks(parts) {
            if !picker.take(part) {
                break;
            }
        }
        let outcome = picker.finish(text.len() as u64).map_err(|error| error.code)?;
        Ok((String::from_utf8(outcome.output).unwrap(), outcome.summary))
    }

    #[test]
    fn a_range_is_the_same_however_the_output_arrives() {
        let text = "one\ntwo\n甲乙\nfour";
        for parts in [1, 3, 7, 100] {
            for (range, expected, said) in [
                (
                    Range::Lines(2, 1),
                    "two\n",
                    "read lines 2 to 2 of an output of 19 bytes; go on with from_line 3",
                ),
                (
                    Range::Lines(3, 9),
                    "甲乙\nfour",
                    "read lines 3 to 4 of an output of 19 bytes; the output ends there",
                ),
                (
                    Range::Bytes(4, 4),
                    "two\n",
                    "read bytes 4 to 7 of an output of 19 bytes; go on with from_byte 8",
                ),
                (
                    Range::Bytes(4, 6),
                    "two\n",
                    "read bytes 4 to 7 of an output of 19 bytes; go on with from_byte 8",
                ),
                (
                    Range::Bytes(9, 99),
                    "乙\nfour",
                    "read bytes 11 to 18 of an output of 19 bytes; the output ends there",
                ),
            ] {
                let picked = pick(range, text, parts);
                assert_eq!(picked, Ok((expected.to_owned(), said.to_owned())), "{range:?} {parts}");
            }
            assert_eq!(pick(Range::Lines(9, 1), text, parts), Err(ErrorCode::RangeEmpty));
            assert_eq!(pick(Range::Bytes(99, 1), text, parts), Err(ErrorCode::RangeEmpty));
        }
    }

    #[test]
    fn a_long_line_is_read_on_by_bytes() {
        let text = "x".repeat(WHOLE_BYTES + 10);
        let (picked, said) = pick(Range::Lines(1, 5), &text, 1000).unwrap();
        assert_eq!(picked.len(), WHOLE_BYTES);
        assert!(said.ends_with(&format!("go on with from_byte {WHOLE_BYTES}")), "{said}");
    }
}
