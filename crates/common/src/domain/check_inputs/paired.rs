//! Documents and data that a line compares with what the product does: `python3 -m doctest guide.rst`,
//! `app < 1.in | diff - 1.out`.

use super::language::{language_of, name_of};
use super::operands::{has_form, options_and_operands};
use super::visits::{Visits, join};
use super::{Manifest, convention_of};
use crate::domain::manifest::{Entry, Kind};
use crate::domain::shell_line::{base_name, module_of_python};

/// Extensions of documents with examples.
const DOCUMENTS: &[&str] = &["md", "rst", "txt"];
/// Extensions of what a program is given.
const GIVEN: &[&str] = &["in", "inp", "input"];
/// Programs that compare two files.
const COMPARING: &[&str] = &["cmp", "comm", "diff"];

/// The files of the start that the commands of a line, each with its folder, compare with what the product does: the
/// documents whose examples they run, and data beside the input of the same name that they give to a program.
pub fn compared_with(commands: &[(String, String)], start: &Manifest) -> Vec<String> {
    let documents: Vec<String> =
        commands.iter().flat_map(|(folder, command)| documents(folder, command)).collect();
    let compares = commands.iter().any(|(_, command)| compares(command));
    if documents.is_empty() && !compares {
        return Vec::new();
    }
    let files = start.entries().iter().filter(|it| !it.ignored && it.kind == Kind::File);
    let files: Vec<&str> = files.filter_map(path_of).collect();
    let is_document = |path: &&&str| documents.iter().any(|form| is_named(path, form));
    let mut found: Vec<String> =
        files.iter().filter(is_document).map(|path| (*path).to_owned()).collect();
    if !compares {
        return found;
    }
    let named: Vec<String> =
        commands.iter().flat_map(|(folder, command)| words(folder, command)).collect();
    let is_answer = |path: &&&str| {
        let Some((stem, extension)) = path.rsplit_once('.') else { return false };
        let is_data = language_of(path).is_none() && convention_of(path).is_none();
        if !is_data || GIVEN.contains(&extension) {
            return false;
        }
        let ending = format!("}}.{extension}");
        GIVEN.iter().any(|given| {
            let input = format!("{stem}.{given}");
            let is_there = start.get(input.as_bytes()).is_some_and(|it| it.kind == Kind::File);
            // `for i in cases/*.in; do app < $i | diff - "${i%.in}.out"; done`
            let is_listed = || {
                named.iter().any(|form| form.contains('*') && has_form(&input, form))
                    && commands.iter().any(|(_, command)| command.contains(&ending))
            };
            let has = |path: &str| named.iter().any(|it| it == path);
            is_there && (has(&input) && has(path) || is_listed())
        })
    };
    found.extend(files.iter().filter(is_answer).map(|path| (*path).to_owned()));
    found
}

fn path_of(entry: &Entry) -> Option<&str> {
    std::str::from_utf8(&entry.path).ok()
}

/// A path that a command in a folder, which ends with a slash unless it is the root, names.
fn whole(folder: &str, own: &str, path: &str) -> String {
    let inside = join("", own, path);
    if folder.is_empty() { inside } else { join("", folder.trim_end_matches('/'), &inside) }
}

/// All words of a command as paths.
fn words(folder: &str, command: &str) -> Vec<String> {
    let visits = Visits::of(command, "");
    visits.words().map(|(own, _, word)| whole(folder, own, word)).collect()
}

fn compares(command: &str) -> bool {
    let visits = Visits::of(command, "");
    visits.words().any(|(_, program, _)| COMPARING.contains(&program))
}

/// The documents whose examples a command runs; with `**/` in front of the forms of their names.
fn documents(folder: &str, command: &str) -> Vec<String> {
    let mut found = Vec::new();
    for visit in Visits::of(command, "").commands {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let Some((program, arguments)) = words.split_first() else { continue };
        let (runner, arguments) = match module_of_python(&words) {
            Some((module, arguments)) => (module, arguments),
            None => (base_name(program), arguments),
        };
        let globs = super::visits::options_of(arguments, &["--doctest-glob"]);
        if runner != "doctest" && globs.is_empty() {
            continue;
        }
        let (_, operands) = options_and_operands(runner, arguments);
        let is_document = |word: &&str| {
            let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
            DOCUMENTS.contains(&extension)
        };
        let operands = operands.into_iter().filter(is_document);
        found.extend(operands.map(|operand| whole(folder, &visit.folder, operand)));
        found.extend(globs.into_iter().map(|glob| format!("**/{glob}")));
    }
    found
}

fn is_named(path: &str, form: &str) -> bool {
    match form.strip_prefix("**/") {
        Some(form) => language_of(path).is_none() && has_form(name_of(path), form),
        None => path == form || has_form(path, form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::manifest::{Content, Place, Stamp};
    use std::sync::Arc;

    #[test]
    fn documents_and_answers_that_a_line_compares_with_the_product_are_found() {
        let entry = |path: &&str| Entry {
            path: path.as_bytes().into(),
            kind: Kind::File,
            mode: 0o644,
            size: 1,
            ignored: false,
            stamp: Stamp::default(),
            content: Content::None,
        };
        let files = [
            "docs/guide.rst",
            "docs/more.md",
            "out/page.html",
            "cases/1.in",
            "cases/1.ans",
            "cases/2.in",
            "cases/2.ans",
            "cases/notes.txt",
        ];
        let start =
            Manifest::new(Place::default(), Arc::default(), files.iter().map(entry).collect());
        for (folder, command, expected) in [
            ("", "python3 -m doctest docs/guide.rst", &["docs/guide.rst"][..]),
            ("docs/", "python3 -m doctest -v guide.rst", &["docs/guide.rst"]),
            ("", "pytest -q --doctest-glob='*.md'", &["docs/more.md"]),
            ("", "grep -q fixed docs/guide.rst", &[]),
            ("", "sh -c 'python3 app.py < cases/1.in | diff - cases/1.ans'", &["cases/1.ans"]),
            (
                "",
                "for i in cases/*.in; do ./app < $i | diff - \"${i%.in}.ans\"; done",
                &["cases/1.ans", "cases/2.ans"],
            ),
            // What a program makes may be compared with what is there.
            ("", "sh -c 'python3 make_page.py | diff - out/page.html'", &[]),
            ("", "diff cases/1.ans cases/2.ans", &[]),
            ("", "cat cases/1.in cases/1.ans", &[]),
        ] {
            let commands = [(folder.to_owned(), command.to_owned())];
            assert_eq!(compared_with(&commands, &start), expected, "{command}");
        }
    }
}
