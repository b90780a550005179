//! The test runners whose reports are known.

/// A test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runner {
    /// `cargo test`, whose programs use Rust's own harness.
    CargoTest,
    /// `cargo nextest run`.
    Nextest,
    /// pytest.
    Pytest,
    /// Python's own `unittest`.
    Unittest,
    /// `go test`.
    GoTest,
    /// Jest.
    Jest,
    /// Vitest.
    Vitest,
    /// Mocha.
    Mocha,
    /// `node --test`.
    NodeTest,
    /// CTest.
    Ctest,
    /// Maven with Surefire.
    Maven,
    /// Gradle's `test` task.
    Gradle,
    /// `dotnet test`.
    DotnetTest,
    /// RSpec.
    Rspec,
    /// PHPUnit.
    Phpunit,
}

impl Runner {
    /// The command that starts it, as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CargoTest => "cargo test",
            Self::Nextest => "cargo nextest",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::GoTest => "go test",
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::Mocha => "mocha",
            Self::NodeTest => "node --test",
            Self::Ctest => "ctest",
            Self::Maven => "mvn",
            Self::Gradle => "gradle",
            Self::DotnetTest => "dotnet test",
            Self::Rspec => "rspec",
            Self::Phpunit => "phpunit",
        }
    }
}
