//! What programs of a line say, where the line sends their output elsewhere.
//!
//! ```text
//!   python3 -m unittest 2> /dev/null     the line says nothing of its tests
//!   sh -c listen.sh                      the same line; what `python3` wrote and that failed stands behind its output
//! ```

use super::Round;
use super::command::{ensure_startable, run_argv};
use super::view::Prepared;
use crate::blocking::blocking;
use crate::tool::{Environment, ToolError, ToolOutcome};
use std::sync::Arc;
use surety_common::domain::check::Owner;
use uuid::Uuid;

/// Takes a line, a mark, and which programs are heard.
const SCRIPT: &str = include_str!("listen.sh");

/// Which programs of a line are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeardPrograms {
    /// All.
    All,
    /// Those that failed.
    Failed,
}

/// A line that ran, and what programs of it said.
pub(super) struct Listened {
    pub(super) ran: ToolOutcome,
    pub(super) said: Vec<u8>,
}

impl Round {
    /// Runs a line as `run_in_view` does, and keeps what programs of it said. A program that a line names by a path is not
    /// heard.
    pub(super) async fn listen_in_view(
        self: &Arc<Self>,
        prepared: Prepared,
        (line, which): (&str, HeardPrograms),
        owner: Owner,
    ) -> Result<Listened, ToolError> {
        ensure_startable(line, owner)?;
        let mark = format!("surety-{}", Uuid::now_v7().simple());
        let which = match which {
            HeardPrograms::All => "all",
            HeardPrograms::Failed => "failed",
        };
        let argv = ["sh", "-c", SCRIPT, "listen", line, &mark, which].map(str::to_owned).to_vec();
        let environment = Environment::clone(&prepared.context.environment);
        let ran = run_argv(&prepared.context, line, argv, environment).await;
        let round = Arc::clone(self);
        let collected = blocking(move || round.collect(&prepared)).await?;
        let mut ran = ran?;
        collected?;
        let (output, said) = parted(&ran.output, mark.as_bytes());
        ran.output = output;
        Ok(Listened { ran, said })
    }
}

/// The output of the line itself, and what stands between the two marks.
fn parted(output: &[u8], mark: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut lines = output.split_inclusive(|byte| *byte == b'\n');
    let is_mark = |line: &&[u8]| line.trim_ascii_end() == mark;
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for part in &mut parts {
        *part = lines.by_ref().take_while(|line| !is_mark(line)).collect::<Vec<_>>().concat();
    }
    let [before, said, after] = parts;
    ([before, after].concat(), said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_said_stands_between_the_marks() {
        let output = b"1\n2\nmark\nFAIL: a\n\nmark\nerror\n";
        assert_eq!(parted(output, b"mark"), (b"1\n2\nerror\n".to_vec(), b"FAIL: a\n\n".to_vec()));
        assert_eq!(parted(b"1\n2", b"mark"), (b"1\n2".to_vec(), Vec::new()));
    }
}
