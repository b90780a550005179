//! The commands of a line, those of the lines inside it included, each with the folder that it runs in.

use crate::domain::path::Workspace;
use crate::domain::shell_line::{
    Folders, base_name, folder_of_wrapper, segments, started_by, substitutions, texts, unwrapped,
};
use std::borrow::Cow;

/// The deepest nesting of lines that is followed.
const MAX_DEPTH: usize = 8;
/// The most commands that are read for one line.
const MAX_COMMANDS: usize = 2_000;
/// Options of programs with the folder that they go to.
const FOLDER_OPTIONS: &[&str] = &[
    "--cwd",
    "--dir",
    "--directory",
    "--prefix",
    "--project-directory",
    "--workspace",
    "-C",
    "-w",
];
/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visit {
    /// The folder that it runs in; empty for the root, and where it is not known.
    pub(super) folder: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// All words, with what stands in front of the program, assignments and the files of redirections.
    pub(super) all: Vec<String>,
    /// The file that it reads as its input.
    pub(super) input: Option<String>,
    /// Whether another program starts it.
    pub(super) is_wrapped: bool,
}

/// What a line comes to.
#[derive(Debug, Default)]
pub(super) struct Visits {
    pub(super) commands: Vec<Visit>,
    /// The folders that it goes to, by `cd` or by an option of a program.
    pub(super) folders: Vec<String>,
}

impl Visits {
    /// Reads a line that runs in a workspace with this root; without one, absolute paths are outside.
    pub(super) fn of(line: &str, root: &str) -> Self {
        let mut walk = Walk { root, found: Self::default() };
        walk.line(line, "", 0);
        walk.found
    }

    /// Each word with the folder and the name of the program that it belongs to.
    pub(super) fn words(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.commands.iter().flat_map(|visit| {
            let program = visit.words.first().map_or("", |first| base_name(first));
            visit.all.iter().map(move |word| (visit.folder.as_str(), program, word.as_str()))
        })
    }
}

struct Walk<'r> {
    root: &'r str,
    found: Visits,
}

impl Walk<'_> {
    fn line(&mut self, line: &str, folder: &str, depth: usize) {
        let mut folders = Folders::new(folder.to_owned());
        for segment in segments(line) {
            if depth > MAX_DEPTH || self.found.commands.len() >= MAX_COMMANDS {
                return;
            }
            let goes = |folder: &String, to: Option<&str>| {
                to.map_or_else(String::new, |to| join(self.root, folder, to))
            };
            if folders.take(&segment, goes) {
                self.found.folders.push(folders.now().clone());
                continue;
            }
            let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
            let input = segment.input.as_deref();
            self.command((&words, &segment.others), input, folders.now(), depth);
        }
    }

    fn command(
        &mut self,
        (words, others): (&[&str], &[String]),
        input: Option<&str>,
        folder: &str,
        depth: usize,
    ) {
        let own = unwrapped(words);
        let to = folder_of_wrapper(words).map(|to| join(self.root, folder, to));
        let folder = to.as_deref().unwrap_or(folder);
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut all: Vec<String> = owned(words);
        all.extend(others.iter().cloned());
        let to = options_of(words, FOLDER_OPTIONS);
        self.found.folders.extend(to.into_iter().map(|to| join(self.root, folder, to)));
        let inner: Vec<String> = words
            .iter()
            .copied()
            .chain(others.iter().map(String::as_str))
            .flat_map(substitutions)
            .map(str::to_owned)
            .collect();
        self.found.commands.push(Visit {
            folder: folder.to_owned(),
            words: owned(own),
            all,
            input: input.map(str::to_owned),
            is_wrapped: own.len() < words.len(),
        });
        if depth >= MAX_DEPTH {
            return;
        }
        let wrapped = if own.len() < words.len() { texts(words) } else { Vec::new() };
        for text in texts(own).into_iter().chain(wrapped).chain(inner) {
            self.line(&text, folder, depth + 1);
        }
        let started = started_by(own);
        if !started.is_empty() {
            self.command((&started, &[]), None, folder, depth + 1);
        }
    }
}

/// The values of these options.
pub(super) fn options_of<'a>(arguments: &[&'a str], options: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (*argument, None),
        };
        if options.contains(&option) {
            found.extend(value.or_else(|| arguments.next().copied()));
        }
    }
    found
}

/// The rest of a path that begins with a name of the current folder.
pub(super) fn below_here(path: &str) -> Option<&str> {
    let names = ["$PWD/", "${PWD}/", "$(pwd)/"];
    names.iter().find_map(|here| path.strip_prefix(here)).map(|rest| rest.trim_start_matches('/'))
}

/// A path below a folder of the workspace with this root; empty where it is none, or where that is not known.
pub(super) fn join(root: &str, folder: &str, path: &str) -> String {
    let path = below_here(path).unwrap_or(path);
    let is_absolute = path.starts_with('/');
    if path.starts_with(['~', '$']) || is_absolute && root.is_empty() {
        return String::new();
    }
    let is_whole = folder.is_empty() || is_absolute;
    let whole = if is_whole { path.to_owned() } else { format!("{folder}/{path}") };
    Workspace::new(root).resolve(&whole).map(Cow::into_owned).unwrap_or_default()
}
