//! Log lines and exported texts without the secrets of tools.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use crate::domain::redact::Redactor;

static SECRETS: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Takes secrets out of each log line and each exported span of this process from now on. The first call of a process
/// counts.
pub fn redact_logs(redactor: Arc<Redactor>) {
    SECRETS.get_or_init(|| redactor);
}

/// A text without secrets; none where it has none.
pub(super) fn redacted_text(text: &str) -> Option<String> {
    let redacted = SECRETS.get()?.redacted(text.as_bytes())?;
    Some(String::from_utf8_lossy(&redacted).into_owned())
}

/// Standard error. A line arrives in one write.
#[derive(Debug, Default)]
pub(super) struct RedactedStderr;

impl Write for RedactedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match SECRETS.get().and_then(|secrets| secrets.redacted(line)) {
            Some(redacted) => io::stderr().write_all(&redacted).map(|()| line.len()),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
