//! Server-sent events, as the WHATWG's living standard reads them, with bounds.

/// The most bytes of one event.
const MAX_EVENT: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    /// Its type; empty where it names none.
    pub(crate) name: String,
    /// Its data; several lines are joined by line breaks.
    pub(crate) data: String,
}

/// Takes bytes as they arrive and gives events.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    /// The bytes of a line that is not whole.
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    began: bool,
}

impl EventReader {
    /// The events that became whole with these bytes.
    ///
    /// # Errors
    /// What breaks the format.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, &'static str> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_line(&line)?);
                }
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT {
                return Err("an event has more than 4 MiB");
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, line: &[u8]) -> Result<Option<Event>, &'static str> {
        let line = std::str::from_utf8(line).map_err(|_| "an event is not UTF-8")?;
        let line = if std::mem::replace(&mut self.began, true) {
            line
        } else {
            line.trim_start_matches('\u{feff}')
        };
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.name),
            // Comments, `id`, `retry`, and what the standard says to pass over.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &str = "\u{feff}: ping\n\nevent: a\ndata: one\ndata:two\n\nid: 7\r\ndata: {\"ä\": 1}\r\n\r\n\
                          data\n\nevent: b\n\ndata:  x\rretry: 5\r\rdata: not whole";

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn wrong_bytes_and_endless_events_are_refused() {
        assert!(EventReader::default().push(b"data: \xff\n\n").is_err());
        let mut reader = EventReader::default();
        let line = vec![b'x'; 1024 * 1024];
        let refused = (0..8).map(|_| reader.push(&line)).filter(Result::is_err).count();
        assert!(refused > 0);
    }

    proptest! {
        #[test]
        fn events_are_the_same_however_their_bytes_are_cut(cuts in prop::collection::vec(0..STREAM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.push(STREAM.len());
            cuts.sort_unstable();
            let (mut reader, mut events, mut from) = (EventReader::default(), Vec::new(), 0);
            for cut in cuts {
                events.extend(reader.push(&STREAM.as_bytes()[from..cut]).expect("events"));
                from = cut;
            }
            let expected = vec![event("a", "one\ntwo"), event("", "{\"ä\": 1}"), event("", ""), event("", " x")];
            // The name of an event without data is passed over with it.
            prop_assert_eq!(events, expected);
        }
    }
}
