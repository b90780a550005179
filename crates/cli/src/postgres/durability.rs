//! The durability of the database's commits.

/// Whether commits are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// They are: no commit is lost in a power failure.
    Full,
    /// They are not: a crash of the machine, not of a process, can destroy the database. For tests.
    Fast,
}
