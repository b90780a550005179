//! What an event is about.

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The host of the forge that has the repository, with its port where it is not the usual one; empty where no delivery said
    /// so. Two servers of one kind may have repositories with the same name.
    pub server: String,
    /// The repository, as `owner/name`.
    pub repo: String,
    /// The number of the pull request or of the issue; none for a commit.
    pub number: Option<u64>,
    /// Whether the number is that of a pull request.
    pub is_pull_request: bool,
}
