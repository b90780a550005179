//! Names of files, and the language that their extension says.

/// Extensions of files that are programs in some language, by the group whose tests run together.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("python", &["py", "pyi"]),
    ("javascript", &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"]),
    ("go", &["go"]),
    ("rust", &["rs"]),
    ("jvm", &["java", "kt", "kts", "scala", "groovy", "clj"]),
    ("ruby", &["rb"]),
    ("php", &["php", "phpt"]),
    ("dotnet", &["cs", "fs", "vb"]),
    ("swift", &["swift"]),
    ("c", &["c", "cc", "cpp", "cxx", "h", "hpp", "m", "mm"]),
    ("beam", &["ex", "exs", "erl"]),
    ("dart", &["dart"]),
    ("shell", &["sh", "bash", "zsh", "bats", "ps1"]),
    ("lua", &["lua"]),
    ("perl", &["t", "pl", "pm"]),
    ("haskell", &["hs"]),
    ("zig", &["zig"]),
    ("julia", &["jl"]),
    ("r", &["r"]),
];

/// The language whose tests a file runs with; none for data and texts.
pub fn language_of(path: &str) -> Option<&'static str> {
    let extension = extension(name_of(path))?.to_ascii_lowercase();
    let of = |known: &&(&'static str, &[&str])| known.1.contains(&extension.as_str());
    LANGUAGES.iter().find(of).map(|(language, _)| *language)
}

pub(super) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(super) fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension)
}
