//! Which files tests may load.

/// Extensions of documents.
const DOCUMENTS: &[&str] = &["adoc", "md", "rst"];
/// Names, without extensions, of documents at the top of projects.
const NAMES: &[&str] = &[
    "authors",
    "changelog",
    "changes",
    "contributing",
    "copying",
    "history",
    "licence",
    "license",
    "news",
    "notice",
    "readme",
    "todo",
];
/// Extensions that such a name may have.
const OF_NAMES: &[&str] = &["", "txt"];
/// Folders of documents.
const FOLDERS: &[&str] = &["doc", "docs"];

/// Whether tests may load a file: any but a plain document. Programs load code and data under any name.
pub fn may_be_loaded(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let lower = name.to_ascii_lowercase();
    let (stem, extension) = lower.rsplit_once('.').unwrap_or((&lower, ""));
    let in_documents = folders.split('/').any(|folder| FOLDERS.contains(&folder));
    let is_document = DOCUMENTS.contains(&extension)
        || extension == "txt" && in_documents
        || NAMES.contains(&stem) && OF_NAMES.contains(&extension)
        // What says which files git takes.
        || lower == ".gitignore";
    !is_document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_may_load_everything_but_documents() {
        for (path, expected) in [
            ("calc.py", true),
            ("calc/__init__.pyc", true),
            ("src/calc", true),
            ("lib/impl.txt", true),
            ("include/sum.hh", true),
            ("README.md", false),
            ("LICENSE", false),
            ("CHANGELOG.txt", false),
            ("docs/usage.txt", false),
            ("docs/conf.py", true),
        ] {
            assert_eq!(may_be_loaded(path), expected, "{path}");
        }
    }
}
