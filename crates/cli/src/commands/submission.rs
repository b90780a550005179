//! What `surety run` and `surety fork` share: a run is submitted once, shown, and followed.

use std::path::Path;
use std::time::Duration;

use surety_common::wire::v1;
use tonic::{Response, Status};

use crate::connection::{Connection, is_passing};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::follow::{Screen, follow};
use crate::output::{Output, note};
use crate::text::one_line;
use crate::wire_json;

/// The number of attempts to submit the run to an unavailable service, and the first pause.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The answer to a submitted run.
pub(super) struct Submission {
    pub(super) run: Option<v1::Run>,
    /// Whether the same request made the run before.
    pub(super) existed: bool,
    pub(super) warnings: Vec<v1::Warning>,
    /// Whether to follow the run to its end.
    pub(super) follow: bool,
}

impl Submission {
    /// Shows the run, and follows it where that is asked.
    pub(super) async fn end(
        self,
        connection: &Connection,
        output: Output,
    ) -> Result<Exit, Failure> {
        let Some(run) = self.run else {
            return Err(Failure::new(Code::Internal, "the service's answer contains no run", ""));
        };
        let created = wire_json::object([
            ("run_id", wire_json::text(&run.id)),
            ("existed", surety_common::domain::json::Value::Bool(self.existed)),
            ("warnings", wire_json::list("Warning", &self.warnings)),
        ]);
        output.either(&created, || run.id.clone())?;
        if !output.json {
            say_what_was_put_right(&self.warnings);
        }
        if !self.follow {
            return Ok(Exit::Done);
        }
        follow(connection, &run, 1, Screen::of(output, connection, &run)).await
    }
}

/// A retry is safe: the request has an id, so at most one run is created.
pub(super) async fn submitted<T>(
    connection: &Connection,
    submit: impl AsyncFn() -> Result<Response<T>, Status>,
) -> Result<T, Failure> {
    let mut pause = FIRST_PAUSE;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match submit().await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if left > 0 && is_passing(&status) => {
                note(&format!("surety: {}; retrying", one_line(status.message())));
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(status) => return Err(connection.failure(&status)),
        }
    }
}

/// A folder that does not exist here may exist on the executor's host, which needs an absolute
/// path.
pub(super) fn absolute(folder: &Path, base: &Path) -> Result<String, Failure> {
    let joined = base.join(folder);
    let whole = match std::fs::canonicalize(&joined) {
        Ok(whole) => whole,
        Err(_) if folder.is_absolute() => folder.to_owned(),
        Err(error) => return Err(Failure::file(&joined)(error)),
    };
    whole.into_os_string().into_string().map_err(|path| {
        let message = format!("the workspace {} is not a UTF-8 path", path.display());
        Failure::new(Code::FileUnusable, message, "Rename the folder.")
    })
}

fn say_what_was_put_right(warnings: &[v1::Warning]) {
    for warning in warnings {
        let place =
            warning.field.as_deref().map(|field| format!(" at {field}")).unwrap_or_default();
        let line = format!("warning[{}]{place}: {}", warning.code, warning.message);
        note(&one_line(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_becomes_a_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("w")).unwrap();
        let whole = here.join("w").display().to_string();
        assert_eq!(absolute(Path::new("w"), &here).unwrap(), whole);
        assert_eq!(absolute(Path::new("/elsewhere/w"), &here).unwrap(), "/elsewhere/w");
        let refused = absolute(Path::new("missing"), &here).unwrap_err();
        assert!(refused.to_text().starts_with("error[file_unusable]"));
    }
}
