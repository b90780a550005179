//! The folder of each command of a line: `cd`, `pushd`, `popd`, and the end of subshells.

use super::segment::Segment;

/// The folder in which the next command of a line runs, in the form of the reader.
#[derive(Debug, Clone)]
pub struct Folders<F> {
    now: F,
    /// The folders to go back to at the end of each open subshell.
    outside: Vec<(F, usize)>,
    /// Those of `pushd`.
    pushed: Vec<F>,
    /// The one before.
    before: Option<F>,
}

impl<F: Clone> Folders<F> {
    /// Those of a line that begins in this folder.
    pub const fn new(first: F) -> Self {
        Self { now: first, outside: Vec::new(), pushed: Vec::new(), before: None }
    }

    /// The present one.
    pub const fn now(&self) -> &F {
        &self.now
    }

    /// Takes a command, with what `goes` makes of the folder that it goes to, none where it names none. Answers
    /// whether the command only changes the folder.
    pub fn take(&mut self, segment: &Segment, goes: impl FnOnce(&F, Option<&str>) -> F) -> bool {
        for _ in 0..segment.subshells.ended {
            if let Some((folder, pushed)) = self.outside.pop() {
                self.now = folder;
                self.pushed.truncate(pushed);
            }
        }
        for _ in 0..segment.subshells.began {
            self.outside.push((self.now.clone(), self.pushed.len()));
        }
        let Some((command, rest)) = segment.words.split_first() else { return false };
        match command.as_str() {
            "cd" | "pushd" => {
                let to = rest.iter().find(|word| !word.starts_with('-')).map(String::as_str);
                let next = match rest {
                    [back] if back == "-" => {
                        self.before.clone().unwrap_or_else(|| goes(&self.now, None))
                    }
                    _ => goes(&self.now, to),
                };
                if command == "pushd" {
                    self.pushed.push(self.now.clone());
                }
                self.before = Some(std::mem::replace(&mut self.now, next));
                true
            }
            "popd" => {
                if let Some(folder) = self.pushed.pop() {
                    self.now = folder;
                }
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments;
    use super::*;

    #[test]
    fn each_command_has_the_folder_that_its_shell_is_in() {
        for (line, expected) in [
            ("cd a && x; y", &["a", "a"][..]),
            ("(cd a && x) && y", &["a", ""]),
            ("(cd a && x) && (cd b && y)", &["a", "b"]),
            ("(cd a && (cd b && x) && y) && z", &["a/b", "a", ""]),
            ("pushd a && x && popd && y", &["a", ""]),
            ("(pushd a; x); popd; y", &["a", ""]),
            ("x $(cd a && y) z; w", &["", "a", "", ""]),
            ("case $x in a) cd b;; esac; x", &["", "b", "b"]),
            ("cd a; cd; x", &[""]),
            ("cd a && x && cd - && y", &["a", ""]),
        ] {
            let mut folders = Folders::new(String::new());
            let join = |now: &String, to: Option<&str>| match to {
                Some(to) if now.is_empty() => to.to_owned(),
                Some(to) => format!("{now}/{to}"),
                None => String::new(),
            };
            let mut found = Vec::new();
            for segment in segments(line) {
                if !folders.take(&segment, join) {
                    found.push(folders.now().clone());
                }
            }
            assert_eq!(found, expected, "{line}");
        }
    }
}
