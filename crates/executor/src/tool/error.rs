//! Errors of tools.

use std::fmt;

/// Declares the closed set of codes with the stable name and the meaning of each.
macro_rules! codes {
    ($($variant:ident = $text:literal, $meaning:literal;)*) => {
        /// Why a tool call failed, as a stable name that drivers and clients may match.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What the code means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    PathOutsideWorkspace = "path_outside_workspace", "The path is outside the workspace, directly or through a symbolic link.";
    PathInvalid = "path_invalid", "The path is not valid.";
    FileNotFound = "file_not_found", "No file exists at this path.";
    NotAFile = "not_a_file", "The path is not a regular file.";
    NotADirectory = "not_a_directory", "The path is not a folder.";
    NotText = "not_text", "The file is not UTF-8 text.";
    TooLarge = "too_large", "The file or the result exceeds the tool's size limit.";
    AccessDenied = "access_denied", "The operating system does not let the executor do this.";
    IoFailed = "io_failed", "The operating system reported an error.";
    WriteScopeViolation = "write_scope_violation", "The path is outside the step's write scope.";
    WriteScopeInvalid = "write_scope_invalid", "A glob of the step's write scope is not valid.";
    WorkspaceMoved = "workspace_moved", "The workspace's path leads to another folder than at the run's start.";
    TextNotFound = "text_not_found", "The file does not contain the text to replace.";
    TextNotUnique = "text_not_unique", "The file contains the text to replace more than once.";
    PatchInvalid = "patch_invalid", "The patch is no unified diff of text files.";
    PatchConflict = "patch_conflict", "The patch does not fit the files as they are; nothing was changed.";
    PatternInvalid = "pattern_invalid", "The pattern is not valid.";
    ArgumentsInvalid = "arguments_invalid", "The arguments do not match the tool's schema.";
    ShellNotAllowed = "shell_not_allowed", "A command line needs a shell, which the policy does not allow.";
    EnvNotAllowed = "env_not_allowed", "This environment variable may not be set for a command.";
    ProgramNotFound = "program_not_found", "The program does not exist or cannot be started.";
    CommandFailed = "command_failed", "The command ended with an exit code other than 0.";
    PrepareFailed = "prepare_failed", "A line of the run's `policy.prepare` failed, so the commands of checks did not run.";
    VerifyToolUnknown = "verify_tool_unknown", "The run has no verification command of this name; the message lists the names.";
    VerifyScopeInvalid = "verify_scope_invalid", "The verification command does not take this scope, or needs one.";
    SecretUnavailable = "secret_unavailable", "The run may not use this secret, or the executor does not have it.";
    OutputNotKept = "output_not_kept", "The whole output could not be stored in time, because the database's disk was full.";
    MachineExhausted = "machine_exhausted", "The executor's machine had no file descriptors or processes left, and the call was not started.";
    SandboxUnavailable = "sandbox_unavailable", "The run's policy requires a sandbox that the executor's machine does not have.";
    SandboxRequired = "sandbox_required", "The run's policy asks for no sandbox, which the executor's operator does not allow.";
    SandboxFailed = "sandbox_failed", "The sandbox could not be set up, and nothing was run.";
    ResourceLimit = "resource_limit", "The command reached a limit of its sandbox, and was ended.";
    AddressNotAllowed = "address_not_allowed", "The operator of the executor does not allow this address, or its name leads to a private one.";
    AddressFailed = "address_failed", "The address did not answer, or it answered with a failure.";
    ForgeUnavailable = "forge_unavailable", "The run is no task of a forge, or its assignee has no credential that works there.";
    ForgeRefused = "forge_refused", "The forge refused the call; the message has what it said.";
    ForgeFailed = "forge_failed", "The forge did not answer, failed, or limits the rate of calls.";
    OutputNotFound = "output_not_found", "No call of a step of this run has an output under this handle.";
    RangeEmpty = "range_empty", "The part begins after the end of the output.";
    SleepTooLong = "sleep_too_long", "The sleep would end after the run's deadline.";
    TodoNotFound = "todo_not_found", "No todo has this id; the message lists the active ids.";
    TodoTerminal = "todo_terminal", "The todo is completed, failed or canceled, which is final.";
    TodoDependencyOpen = "todo_dependency_open", "The todo cannot be begun or completed before the todos that it depends on.";
    DuplicateTodoId = "duplicate_todo_id", "A todo has this id already.";
    CanceledRequiredNeedsReplacement = "canceled_required_needs_replacement", "A required todo is canceled only when another required todo replaces it.";
    WorkerFailed = "worker_failed", "The worker that serves the tool reported a failure.";
    WorkerLost = "worker_lost", "Every worker that the call was given to was lost.";
    ToolNotServed = "tool_not_served", "No worker serves the tool in this namespace any more.";
    McpUnavailable = "mcp_unavailable", "The MCP server cannot be started or reached, and nothing was called.";
    McpFailed = "mcp_failed", "The MCP server reported a failure of the call.";
    McpLost = "mcp_lost", "The MCP server ended before its answer at each attempt of a call that may be repeated.";
    McpProtocolError = "mcp_protocol_error", "The MCP server answered with something that the protocol does not have for the call.";
    McpResultInvalid = "mcp_result_invalid", "The result of the MCP server does not match the schema that it gives for it.";
    McpToolChanged = "mcp_tool_changed", "The MCP server describes the tool otherwise than the driver was shown, and nothing was called.";
    ReadOnlyWrote = "read_only_wrote", "The operator declares the tool read-only, and the call changed files of the workspace.";
    OutcomeUnknown = "outcome_unknown", "The call was lost in the middle, and a person is asked whether it happened.";
    Timeout = "timeout", "The deadline passed before the call ended.";
    Cancelled = "cancelled", "The call was cancelled.";
    InternalError = "internal_error", "A defect of the executor.";
}

impl ErrorCode {
    /// Whether the operating system refused to read or write a file or a folder, which may be one of the executor's own.
    pub(crate) const fn is_of_file(self) -> bool {
        matches!(self, Self::AccessDenied | Self::IoFailed)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The failure of a tool call, with what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The stable name.
    pub code: ErrorCode,
    /// One line: what is wrong and what to do.
    pub message: String,
}

/// What was read; none of what is gone, closed or too large. That the machine has no files left says nothing about a file.
///
/// # Errors
/// `machine_exhausted`
pub(crate) fn if_readable<T>(read: Result<T, ToolError>) -> Result<Option<T>, ToolError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == ErrorCode::MachineExhausted => Err(error),
        Err(_) => Ok(None),
    }
}

impl ToolError {
    /// A failure with this code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The failure of a call that was cancelled before it started.
    pub fn called_off() -> Self {
        Self::new(ErrorCode::Cancelled, "the work on its run was cancelled before the call started")
    }

    /// The failure for an error of the operating system about `subject`.
    pub fn io(subject: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let code = if is_exhaustion(error) {
            ErrorCode::MachineExhausted
        } else if error.kind() == ErrorKind::NotFound {
            ErrorCode::FileNotFound
        } else if error.kind() == ErrorKind::PermissionDenied {
            ErrorCode::AccessDenied
        } else if error.kind() == ErrorKind::IsADirectory {
            ErrorCode::NotAFile
        } else if error.kind() == ErrorKind::NotADirectory {
            ErrorCode::NotADirectory
        } else if error.kind() == ErrorKind::InvalidFilename {
            ErrorCode::PathInvalid
        } else {
            ErrorCode::IoFailed
        };
        let advice = if code == ErrorCode::MachineExhausted {
            "; raise the executor's limits, or configure fewer slots"
        } else {
            ""
        };
        Self::new(code, format!("{subject}: {error}{advice}"))
    }

    pub(crate) fn errno(subject: impl fmt::Display, error: nix::errno::Errno) -> Self {
        Self::io(subject, &error.into())
    }

    pub(crate) fn outside(subject: impl fmt::Display) -> Self {
        Self::new(
            ErrorCode::PathOutsideWorkspace,
            format!("{subject} is outside the workspace; use a path inside it"),
        )
    }
}

/// Whether the system refused because of a temporary lack of resources. The requested file was not
/// opened, or the process not started.
fn is_exhaustion(error: &std::io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN))
}
