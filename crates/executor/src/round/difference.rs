//! What a run did to check inputs, as a text for a person who is asked to accept it.
//!
//! Every character of it can be seen. What cannot be shown whole is named, and then nothing can be approved.

use super::{Originals, Round};
use crate::blocking::blocking;
use crate::tool::{RelPath, ToolError, ToolOutcome, Workspace};
use similar::TextDiff;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::domain::acceptance::Difference;
use surety_common::domain::check_inputs::{InputKind, Role, scripts_in};
use surety_common::domain::manifest::{Content, Entry, Kind, Manifest, changes, digest};

/// The largest file of which a difference is shown, in bytes.
const MAX_FILE: u64 = 512 << 10;
/// The largest difference, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The longest time to look for the shortest difference of one file; it is correct in any case.
const SEARCH: Duration = Duration::from_secs(2);
/// The same for all files together.
const SEARCH_ALL: Duration = Duration::from_secs(30);
/// The most files of which it is named why they are not shown.
const MAX_HIDDEN: usize = 50;

/// One side of a file's difference.
enum Side {
    Absent,
    /// The permission bits and the text, in which every character can be seen.
    Text(u32, String),
    /// Why it cannot be shown.
    Hidden(String),
}

/// Why a file that git ignores is not shown.
const SECRETS: &str = "is ignored and may hold secrets";

/// Whether a file of this name usually holds tokens or passwords where git ignores it.
fn may_hold_secrets(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let known =
        [".netrc", ".npmrc", ".pypirc", ".yarnrc", ".yarnrc.yml", "nuget.config", "pip.conf"];
    name.starts_with(".env") || name.ends_with(".env") || known.contains(&name)
}

/// The text so far.
#[derive(Default)]
struct Shown {
    text: String,
    hidden: Vec<String>,
    /// How many files came after the text was full.
    left_out: usize,
    /// How long was looked for short differences.
    searched: Duration,
}

impl Round {
    /// What the run did to check inputs, with the digest of the workspace; none where the round compared
    /// nothing. `with_ignored` lists the ignored files that steps wrote as well.
    ///
    /// # Errors
    /// The workspace cannot be opened.
    pub async fn difference(
        self: &Arc<Self>,
        originals: Arc<Originals>,
        with_ignored: bool,
    ) -> Result<Option<ToolOutcome>, ToolError> {
        let round = Arc::clone(self);
        blocking(move || {
            let (Some(start), Some(now)) = (round.start()?, &round.opening()?.now) else {
                return Ok(None);
            };
            let mut shown = Shown::default();
            let workspace = round.setup.folder.workspace()?;
            for (path, why) in round.changed_inputs(&start.manifest)? {
                if shown.text.len() > MAX_TEXT {
                    shown.left_out += 1;
                    continue;
                }
                if why == InputKind::Git.as_str() {
                    shown.repository(&path);
                    continue;
                }
                let (before, after) = (start.manifest.get(&path), now.get(&path));
                let is_ignored = before.or(after).is_some_and(|entry| entry.ignored);
                let sides = match is_ignored && may_hold_secrets(&path) {
                    true => [Side::Hidden(SECRETS.to_owned()), Side::Hidden(SECRETS.to_owned())],
                    false => [old_side(&originals, before), new_side(&workspace, after)],
                };
                let [old, new] = sides;
                shown.file(&path, &why, old, new);
            }
            if with_ignored {
                shown.ignored(&start.manifest, now);
            }
            let (text, not_shown) = shown.finish();
            let facts = Difference::facts(&digest(now), text.as_bytes(), &not_shown);
            let summary = match not_shown.as_str() {
                "" => "compared the check inputs with those of the start".to_owned(),
                hidden => format!("the difference cannot be shown whole: {hidden}"),
            };
            let outcome = ToolOutcome::done(summary, text.into_bytes(), facts);
            Ok(Some(ToolOutcome { success: not_shown.is_empty(), ..outcome }))
        })
        .await?
    }

    /// The changed check inputs of all checks, and why each is one.
    fn changed_inputs(&self, start: &Manifest) -> Result<BTreeMap<Vec<u8>, String>, ToolError> {
        let opening = self.opening()?;
        let mut found = BTreeMap::new();
        let root = self.setup.folder.workspace()?.root().to_string_lossy().into_owned();
        for (line, exam) in &opening.exams {
            let programs =
                scripts_in(line, &root).into_iter().filter(|it| it.role == Role::Program);
            let programs = programs.map(|script| script.path.into_bytes());
            for path in programs.filter(|path| opening.changed.contains(path)) {
                if start.get(&path).is_some() {
                    found.insert(path, "program".to_owned());
                }
            }
            for difference in exam.differences() {
                found.insert(difference.path.clone(), difference.kind.as_str().to_owned());
            }
        }
        for (path, _) in self.merged() {
            let path = path.as_os_str().as_bytes().to_vec();
            found.entry(path).or_insert_with(|| "parts about tests".to_owned());
        }
        Ok(found)
    }
}

impl Shown {
    /// A part of the repository is named only, so nothing can be approved.
    fn repository(&mut self, path: &[u8]) {
        let name = visible_path(path);
        self.line(&format!("{name} (git): not shown"));
        self.hidden.push(format!("{name} belongs to the repository"));
    }

    fn file(&mut self, path: &[u8], why: &str, old: Side, new: Side) {
        let name = visible_path(path);
        let hide = |side| match side {
            Side::Absent => Ok(None),
            Side::Text(mode, text) => Ok(Some((mode, text))),
            Side::Hidden(why) => Err(format!("{name} {why}")),
        };
        let (old, new) = match (hide(old), hide(new)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(hidden), _) | (_, Err(hidden)) => {
                self.line(&format!("{hidden} ({why}): not shown"));
                self.hidden.push(hidden);
                return;
            }
        };
        self.line(&format!("{name} ({why})"));
        if let (Some((before, _)), Some((after, _))) = (&old, &new)
            && before != after
        {
            self.line(&format!("mode {before:o} -> {after:o}"));
        }
        let header = |side: &Option<(u32, String)>, place: char| match side {
            Some(_) => format!("{place}/{name}"),
            None => "/dev/null".to_owned(),
        };
        let [before, after] = [header(&old, 'a'), header(&new, 'b')];
        let [old, new] = [old, new].map(|side| side.map(|(_, text)| text).unwrap_or_default());
        let (began, left) = (Instant::now(), SEARCH_ALL.saturating_sub(self.searched));
        let diff = TextDiff::configure().timeout(SEARCH.min(left)).diff_lines(&old, &new);
        self.searched += began.elapsed();
        let unified = diff.unified_diff().header(&before, &after).to_string();
        self.text.push_str(&unified);
        if !unified.is_empty() && !unified.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Ignored files are compared by what the operating system says about them, so their content is not there to
    /// be shown.
    fn ignored(&mut self, start: &Manifest, now: &Manifest) {
        let mut all = blake3::Hasher::new();
        let mut lines = Vec::new();
        for change in changes(start, now).filter(|change| change.is_ignored()) {
            let Some(after) = change.after.filter(|after| after.kind != Kind::Folder) else {
                continue;
            };
            let Entry { path, size, stamp, .. } = after;
            all.update(&(path.len() as u64).to_be_bytes());
            all.update(path);
            all.update(&size.to_be_bytes());
            all.update(&stamp.modified_ns.to_be_bytes());
            all.update(&stamp.changed_ns.to_be_bytes());
            all.update(&stamp.inode.to_be_bytes());
            lines.push(format!("  {} ({size} bytes)", visible_path(path)));
        }
        let digest = all.finalize().to_hex();
        self.line(&format!("ignored files that steps wrote, by name only; together {digest}:"));
        lines.iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The text, and why it is not the whole; empty when it is.
    fn finish(mut self) -> (String, String) {
        if self.text.is_empty() {
            self.line("no check input differs from the start");
        }
        if self.text.len() > MAX_TEXT {
            let end = self.text.floor_char_boundary(MAX_TEXT);
            self.text.truncate(end);
            self.line("\n... cut off here");
            let files = match self.left_out {
                0 => String::new(),
                more => format!(", with {more} more files"),
            };
            self.hidden.push(format!("the difference is larger than {MAX_TEXT} bytes{files}"));
        }
        if let Some(more) = self.hidden.len().checked_sub(MAX_HIDDEN).filter(|more| *more > 0) {
            let last = self.hidden.split_off(self.hidden.len() - 1);
            self.hidden.truncate(MAX_HIDDEN - 1);
            self.hidden.extend(last);
            self.hidden.push(format!("and {more} more"));
        }
        (self.text, self.hidden.join(", "))
    }
}

fn old_side(originals: &Originals, entry: Option<&Entry>) -> Side {
    let Some(entry) = entry else { return Side::Absent };
    match (entry.kind, &entry.content, originals.file(&entry.path)) {
        (Kind::Folder, ..) => Side::Absent,
        (Kind::Link, Content::Target(target), _) => link(target),
        (Kind::File, _, Some((mode, text))) => text_side(mode, text),
        (Kind::File, ..) => Side::Hidden("was not kept at the start".to_owned()),
        (..) => Side::Hidden("was no regular file".to_owned()),
    }
}

fn new_side(workspace: &Workspace, entry: Option<&Entry>) -> Side {
    let Some(entry) = entry else { return Side::Absent };
    match (entry.kind, &entry.content) {
        (Kind::Folder, _) => Side::Absent,
        (Kind::Link, Content::Target(target)) => link(target),
        (Kind::File, _) if entry.size > MAX_FILE => too_large(),
        (Kind::File, Content::File(known)) => {
            let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
            match workspace.read(&path, MAX_FILE) {
                Ok(text) if *blake3::hash(&text).as_bytes() == known.blake3 => {
                    text_side(entry.mode, &text)
                }
                Ok(_) => Side::Hidden("changed while it was read".to_owned()),
                Err(error) => Side::Hidden(format!("could not be read: {error}")),
            }
        }
        (_, _) => Side::Hidden("is no regular file".to_owned()),
    }
}

fn text_side(mode: u32, text: &[u8]) -> Side {
    if text.len() as u64 > MAX_FILE {
        return too_large();
    }
    match std::str::from_utf8(text) {
        Ok(text) if !text.contains('\0') => Side::Text(mode, visible(text)),
        Ok(_) | Err(_) => Side::Hidden("is binary".to_owned()),
    }
}

fn too_large() -> Side {
    Side::Hidden(format!("is larger than {MAX_FILE} bytes"))
}

fn link(target: &[u8]) -> Side {
    Side::Text(0, format!("link to {}\n", visible_path(target)))
}

/// A text in which every character can be seen: control characters, those that reorder text and those of no
/// width are written as `<U+202E>`. Lines and tabs stay.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        push_visible(&mut shown, letter, matches!(letter, '\n' | '\t'));
    }
    shown
}

/// A path on one line. Bytes that are no text are written as `<0xFF>`.
fn visible_path(path: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in path.utf8_chunks() {
        chunk.valid().chars().for_each(|letter| push_visible(&mut shown, letter, false));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail, so there is no error to return.
            write!(shown, "<0x{byte:02X}>").unwrap_or_default();
        }
    }
    shown
}

fn push_visible(shown: &mut String, letter: char, stays: bool) {
    if stays || !is_hidden(letter) {
        shown.push(letter);
    } else {
        // Writing to a String cannot fail, so there is no error to return.
        write!(shown, "<U+{:04X}>", u32::from(letter)).unwrap_or_default();
    }
}

/// Whether a reader does not see the character itself: Unicode's control and default-ignorable characters, and
/// those that separate lines or reorder them.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Side {
        text_side(0o644, text.as_bytes())
    }

    #[test]
    fn a_difference_is_shown_whole_with_every_character() {
        let mut shown = Shown::default();
        shown.file(b"tests/t.py", "test", text("a\nb\n"), text("a\nc\u{202e}\r\n"));
        shown.file(b"tests/n\n\xff.py", "test", Side::Absent, text("new"));
        shown.file(b"run", "script", text_side(0o755, b"x\n"), text("x\n"));
        let expected = "tests/t.py (test)\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1,2 +1,2 @@\n a\n-b\n\
                        +c<U+202E><U+000D>\n\
                        tests/n<U+000A><0xFF>.py (test)\n--- /dev/null\n+++ b/tests/n<U+000A><0xFF>.py\n\
                        @@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n\
                        run (script)\nmode 755 -> 644\n";
        assert_eq!(shown.finish(), (expected.to_owned(), String::new()));
    }

    #[test]
    fn what_cannot_be_shown_whole_is_named() {
        for (side, why) in [
            (text("\0"), "a.png is binary"),
            (text_side(0o644, b"\xff\xfe"), "a.png is binary"),
            (text(&"x".repeat(600 << 10)), "a.png is larger than 524288 bytes"),
        ] {
            let mut shown = Shown::default();
            shown.file(b"a.png", "test", Side::Absent, side);
            let (text, not_shown) = shown.finish();
            assert_eq!(not_shown, why);
            assert!(text.contains("not shown"), "{text}");
        }
        let mut shown = Shown::default();
        for name in [b"a", b"b", b"c"] {
            shown.file(name, "test", Side::Absent, text(&"line\n".repeat(90 << 10)));
        }
        shown.left_out = 7;
        let why = "the difference is larger than 1048576 bytes, with 7 more files";
        assert_eq!(shown.finish().1, why);
        let mut shown = Shown::default();
        for number in 0..60 {
            shown.file(format!("{number}").as_bytes(), "test", Side::Absent, text("\0"));
        }
        let not_shown = shown.finish().1;
        assert!(not_shown.ends_with(", 59 is binary, and 10 more"), "{not_shown}");
        assert_eq!(not_shown.matches("is binary").count(), 50);
    }

    #[test]
    fn without_a_difference_the_text_says_so() {
        let (text, not_shown) = Shown::default().finish();
        assert_eq!(
            (text.as_str(), not_shown.as_str()),
            ("no check input differs from the start\n", "")
        );
    }
}
