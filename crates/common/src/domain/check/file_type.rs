//! What a `file_exists` check asks to find under its path.

use super::AcceptCheck;
use std::fmt;

/// The param that names the type.
const TYPE: &str = "type";

/// What must stand under the path of a `file_exists` check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileType {
    /// A regular file, or a link to one.
    #[default]
    File,
    /// A folder, or a link to one.
    Folder,
    /// A symbolic link, wherever it leads.
    Link,
    /// Any of them; a link only where its target exists.
    Any,
}

impl FileType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::File, Self::Folder, Self::Link, Self::Any];

    /// The value of `params.type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::Any => "any",
        }
    }

    /// The type that a check asks for. Where it names none, a target that ends in `/` asks for a folder, and every other one for
    /// a regular file. None for an unknown one.
    pub fn of(check: &AcceptCheck) -> Option<Self> {
        let Some(named) = check.params.get(TYPE) else {
            return Some(if check.target.ends_with('/') { Self::Folder } else { Self::File });
        };
        Self::ALL.into_iter().find(|file_type| file_type.as_str() == named)
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
