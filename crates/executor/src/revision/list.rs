//! What git lists of a revision: each file, and whether git changes its line ends.

use std::collections::BTreeMap;

/// The mode of a submodule.
const SUBMODULE: &[u8] = b"160000";

/// Whether git changes the line ends of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// It does not.
    Kept,
    /// It does: two texts are the same when they differ in nothing else.
    Changed,
}

/// The files of a revision, by their path from the top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listed {
    files: BTreeMap<Vec<u8>, LineEnds>,
    /// The submodules: path and commit.
    pub(super) submodules: Vec<(Vec<u8>, String)>,
}

impl Listed {
    /// Reads what `git ls-files --eol --stage -z` prints. `automatic` says whether git looks for texts by
    /// itself, as `core.autocrlf` makes it.
    pub(super) fn read(list: &[u8], automatic: bool) -> Option<Self> {
        let mut listed = Self::default();
        for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let mut fields = line.splitn(3, |byte| *byte == b'\t');
            let (stage, ends, path) = (fields.next()?, fields.next()?, fields.next()?);
            let mut stage = stage.split(|byte| *byte == b' ');
            let (mode, object) = (stage.next()?, stage.next()?);
            if mode == SUBMODULE {
                let commit = String::from_utf8(object.to_vec()).ok()?;
                listed.submodules.push((path.to_vec(), commit));
            } else {
                let ends = line_ends(&String::from_utf8_lossy(ends), automatic);
                listed.files.insert(path.to_vec(), ends);
            }
        }
        Some(listed)
    }

    /// Adds the files of a submodule.
    pub(super) fn extend(&mut self, path: &[u8], inner: Self) {
        let joined = |inner: &[u8]| [path, b"/", inner].concat();
        self.files.extend(inner.files.into_iter().map(|(path, ends)| (joined(&path), ends)));
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.files.keys().map(Vec::as_slice)
    }

    pub(super) fn line_ends(&self, path: &[u8]) -> LineEnds {
        self.files.get(path).copied().unwrap_or(LineEnds::Kept)
    }
}

/// By what git says of one file, such as `i/lf w/ attr/text=auto eol=crlf`.
fn line_ends(said: &str, automatic: bool) -> LineEnds {
    let (stored, attributes) = said.split_once("attr/").unwrap_or((said, ""));
    let stored = stored.split(' ').next().and_then(|word| word.strip_prefix("i/"));
    // git leaves a file alone that it finds by itself, and that has other line ends in the repository.
    let is_plain = matches!(stored, Some("lf" | "none"));
    let changes = match attributes.split(' ').next().unwrap_or_default() {
        "-text" => false,
        "text" => true,
        "text=auto" => is_plain,
        _ => automatic && is_plain,
    };
    if changes { LineEnds::Changed } else { LineEnds::Kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_the_stored_text_say_whether_line_ends_count() {
        for (said, automatic, changes) in [
            ("i/lf    w/      attr/text=auto        ", false, true),
            ("i/crlf  w/      attr/text=auto        ", false, false),
            ("i/crlf  w/      attr/text eol=lf      ", false, true),
            ("i/lf    w/      attr/                 ", false, false),
            ("i/lf    w/      attr/                 ", true, true),
            ("i/-text w/      attr/                 ", true, false),
            ("i/lf    w/      attr/-text            ", true, false),
        ] {
            let list = format!("100644 abc 0\t{said}\tpath\0");
            let listed = Listed::read(list.as_bytes(), automatic).unwrap();
            let expected = if changes { LineEnds::Changed } else { LineEnds::Kept };
            assert_eq!(listed.line_ends(b"path"), expected, "{said}");
        }
    }

    #[test]
    fn a_submodule_is_no_file_and_a_path_may_hold_anything() {
        let list = b"160000 c0ffee 0\ti/      w/      attr/\tvendor/lib\0\
                     100755 abc 0\ti/lf    w/      attr/\ta\tb\n\xff\0";
        let listed = Listed::read(list, false).unwrap();
        assert_eq!(listed.submodules, [(b"vendor/lib".to_vec(), "c0ffee".to_owned())]);
        assert_eq!(listed.paths().collect::<Vec<_>>(), [b"a\tb\n\xff"]);
        assert_eq!(Listed::read(b"100644 abc", false), None);
    }
}
