//! Why a tool could not do what it was asked to do.

use std::fmt;

/// Declares the closed set of codes with the stable word and the meaning of each.
macro_rules! codes {
    ($($variant:ident = $text:literal, $meaning:literal;)*) => {
        /// Why a tool call failed, as a stable word that drivers and clients may match.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable word.
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
    PathOutsideWorkspace = "path_outside_workspace", "The path leaves the workspace, by its text or through a symbolic link.";
    PathInvalid = "path_invalid", "The path is one that no file can have.";
    FileNotFound = "file_not_found", "Nothing is at this path.";
    NotAFile = "not_a_file", "What is at this path is no regular file.";
    NotADirectory = "not_a_directory", "What is at this path is no folder.";
    NotText = "not_text", "The file is not UTF-8 text.";
    TooLarge = "too_large", "The file or the result is larger than the tool handles at once.";
    AccessDenied = "access_denied", "The operating system does not let the executor do this.";
    IoFailed = "io_failed", "The operating system reported an error.";
    WriteScopeViolation = "write_scope_violation", "The path lies outside what the step may write.";
    WriteScopeInvalid = "write_scope_invalid", "A glob of the step's write scope does not read.";
    WorkspaceMoved = "workspace_moved", "The workspace's path leads to another folder than at the run's start.";
    TextNotFound = "text_not_found", "The text to be replaced is not in the file.";
    TextNotUnique = "text_not_unique", "The text to be replaced is in the file more than once.";
    PatternInvalid = "pattern_invalid", "The pattern does not read.";
    ArgumentsInvalid = "arguments_invalid", "The arguments do not fit the tool's schema.";
    ShellNotAllowed = "shell_not_allowed", "A command line needs a shell, which the policy does not allow.";
    EnvNotAllowed = "env_not_allowed", "A command may not be given this environment variable.";
    ProgramNotFound = "program_not_found", "No such program could be started.";
    CommandFailed = "command_failed", "The command ended with an exit code other than 0.";
    OutputTooLarge = "output_too_large", "The command wrote more than is kept, and was ended.";
    OutputNotKept = "output_not_kept", "The database had no room for the whole output in time.";
    MachineExhausted = "machine_exhausted", "The executor's machine had no open files or processes left, and nothing was begun.";
    Timeout = "timeout", "The deadline passed before the call ended.";
    Cancelled = "cancelled", "The call was called off.";
    InternalError = "internal_error", "A defect of the executor's own.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal or a failure, with what whoever called can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The stable word.
    pub code: ErrorCode,
    /// One line: what is wrong and what to do.
    pub message: String,
}

impl ToolError {
    /// A failure with this code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What a call ends with that was called off before it began.
    pub fn called_off() -> Self {
        Self::new(ErrorCode::Cancelled, "the work on its run was called off before it began")
    }

    /// What the operating system said while something was done to `subject`.
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
            "; allow the executor more, or give it fewer slots"
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
            format!("{subject} leaves the workspace; name a path inside it"),
        )
    }
}

/// Whether the system refused for want of what others hold and will give back: what it was asked for,
/// a file to be opened or a process to be started, is not there then.
fn is_exhaustion(error: &std::io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN))
}
