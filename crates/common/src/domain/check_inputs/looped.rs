//! The scripts that a line starts one after the other, by a loop or from a list of files.
//!
//! ```text
//!   for c in checks/*.py; do python3 "$c"; done     -->   checks/*.py
//!   find checks -name '*.sh' -exec sh {} \;         -->   checks/**/*.sh
//! ```

use super::convention_of;
use super::language::name_of;
use super::line::{Role, is_product, scripts_in};
use super::visits::{Visits, join};
use super::words::{CHECKING, has_word, is_of_checks};
use crate::domain::manifest::{Kind, Manifest};
use crate::domain::scope::glob_set;
use crate::domain::shell_line::{base_name, listed, started_by};

/// The most values that one variable of a loop stands for.
const MAX_VALUES: usize = 64;

/// The scripts of the start that commands start so, and that are a part of the check. Each command has its folder, which
/// ends with a slash unless it is the root, and may be a part of the loop before it. Those that a command spells are, also
/// where only its last part is spelled. Of those that another glob stands for, it is said by their names or by those of the
/// folders above them: examples of a product are started in loops too.
pub fn looped_scripts(commands: &[(String, String)], start: &Manifest) -> Vec<String> {
    const WILD: [char; 3] = ['*', '?', '['];
    let mut found = Vec::new();
    let is_there = |path: &str| {
        start.get(path.as_bytes()).is_some_and(|it| !it.ignored && it.kind != Kind::Folder)
    };
    let is_part = |path: &str| convention_of(path).is_none() && !is_product(path);
    let (globs, files): (Vec<String>, Vec<String>) =
        started(commands).into_iter().partition(|path| path.contains(WILD));
    found.extend(files.into_iter().filter(|path| is_there(path) && is_part(path)));
    let (open, spelled): (Vec<String>, Vec<String>) =
        globs.into_iter().partition(|glob| name_of(glob).contains(WILD));
    for (globs, is_spelled) in [(open, false), (spelled, true)] {
        let Ok(globs) = glob_set(&globs) else { continue };
        if globs.is_empty() {
            continue;
        }
        let files = start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder);
        let paths = files.filter_map(|it| std::str::from_utf8(&it.path).ok());
        let paths = paths
            .filter(|path| globs.is_match(path) && is_part(path) && (is_spelled || checks(path)));
        found.extend(paths.map(str::to_owned));
    }
    found
}

/// Whether the name of a file, or of a folder above it, says that it checks.
fn checks(path: &str) -> bool {
    is_of_checks(path) || path.split('/').any(|part| has_word(part, CHECKING))
}

/// The paths and globs of what commands start by a loop or from a list.
fn started(commands: &[(String, String)]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut loops = Loops::default();
    let visits = commands.iter().flat_map(|(folder, command)| {
        Visits::of(command, "").commands.into_iter().map(move |visit| (folder, visit))
    });
    for (folder, visit) in visits {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        for line in loops.lines(&words) {
            let scripts = scripts_in(&line, "").into_iter();
            let scripts = scripts.filter(|script| script.role != Role::Configuration);
            let inside = scripts.map(|script| join("", &visit.folder, &script.path));
            found.extend(inside.map(|path| format!("{folder}{path}")));
        }
        loops.take(&words);
    }
    found
}

/// What the variables of loops stand for, and what was listed last.
#[derive(Default)]
struct Loops {
    variables: Vec<(String, Vec<String>)>,
    listed: Vec<String>,
    /// The variable of a loop over what the next command lists.
    open: Option<String>,
}

impl Loops {
    /// The lines that a command stands for, where it starts something for each file of a loop or of a list.
    fn lines(&self, words: &[&str]) -> Vec<String> {
        let Some((program, arguments)) = words.split_first() else { return Vec::new() };
        let started = started_by(words);
        match base_name(program) {
            "for" | "read" => Vec::new(),
            "find" => listed(words).iter().map(|path| line_of(&started, "{}", path)).collect(),
            "xargs" => self.listed.iter().map(|path| line_for(&started, path)).collect(),
            "run-parts" => {
                let folder = arguments.iter().rfind(|word| !word.starts_with('-'));
                folder
                    .map(|it| format!("sh '{}/*'", it.trim_end_matches('/')))
                    .into_iter()
                    .collect()
            }
            _ => {
                let names = |name: &str, word: &str| {
                    word.contains(&format!("${{{name}}}")) || word.contains(&format!("${name}"))
                };
                let own = self.variables.iter();
                let own = own.filter(|(name, _)| words.iter().any(|word| names(name, word)));
                let of_variable = |(name, values): &(String, Vec<String>)| {
                    let put_in = |value: &String| {
                        let line = line_of(words, &format!("${{{name}}}"), value);
                        line.replace(&format!("${name}"), value)
                    };
                    values.iter().map(put_in).collect::<Vec<_>>()
                };
                own.flat_map(of_variable).collect()
            }
        }
    }

    fn take(&mut self, words: &[&str]) {
        let listed = listed(words);
        if let Some(name) = self.open.take() {
            self.bind(&name, listed.clone());
        }
        match words {
            ["for", name, "in", values @ ..] => {
                if values.contains(&"$") {
                    self.open = Some((*name).to_owned());
                }
                self.bind(name, values.iter().map(|value| (*value).to_owned()).collect());
            }
            ["read", rest @ ..] => {
                let name = rest.iter().rfind(|word| !word.starts_with('-'));
                name.into_iter().for_each(|name| self.bind(name, self.listed.clone()));
            }
            _ => {}
        }
        if !listed.is_empty() {
            self.listed = listed;
            self.listed.truncate(MAX_VALUES);
        }
    }

    fn bind(&mut self, name: &str, mut values: Vec<String>) {
        values.truncate(MAX_VALUES);
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), values));
    }
}

/// A line of these words with a file in the place of a mark.
fn line_of(words: &[&str], mark: &str, path: &str) -> String {
    let words = words.iter().map(|word| word.replace(mark, path).replace('\'', "'\\''"));
    words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

/// A line of these words with a file in the place of `{}`, or behind them.
fn line_for(words: &[&str], path: &str) -> String {
    if words.iter().any(|word| word.contains("{}")) {
        return line_of(words, "{}", path);
    }
    line_of(&[words, &[path]].concat(), "{}", path)
}

#[cfg(test)]
mod tests {
    use super::started;

    #[test]
    fn what_a_loop_or_a_list_starts_is_found() {
        for (folder, line, expected) in [
            ("", "for c in checks/*.py; do python3 \"$c\" || exit 1; done", &["checks/*.py"][..]),
            ("", "for c in a.sh b.sh; do sh checks/${c}; done", &["checks/a.sh", "checks/b.sh"]),
            ("web/", "for c in checks/*.js; do node $c; done", &["web/checks/*.js"]),
            ("", "cd web && for c in checks/*.js; do node $c; done", &["web/checks/*.js"]),
            ("", "sh -c 'for c in checks/*; do ./$c; done'", &["checks/*"]),
            ("", "for c in $(ls checks/*.sh); do sh $c; done", &["checks/*.sh"]),
            ("", "ls checks/*.py | xargs -n1 python3", &["checks/*.py"]),
            ("", "find checks -name '*.sh' -print0 | xargs -0 -n1 sh", &["checks/**/*.sh"]),
            ("", "ls checks | xargs -I{} sh checks/{}", &["checks/*"]),
            ("", "find checks -name '*.sh' -exec sh {} \\;", &["checks/**/*.sh"]),
            ("", "find checks -type f | while read -r c; do sh \"$c\"; done", &["checks/**/*"]),
            ("", "run-parts --exit-on-error checks", &["checks/*"]),
            ("", "for c in checks/*.py; do grep -q x $c; done", &[]),
            ("", "for c in checks/*.py; do python3 -m py_compile $c; done", &[]),
            ("", "find checks -name '*.sh' -exec grep -q x {} +", &[]),
            ("", "python3 checks/a.py", &[]),
        ] {
            let commands = [(folder.to_owned(), line.to_owned())];
            assert_eq!(started(&commands), expected, "{line}");
        }
        // Commands of recipes come one by one.
        let commands = ["'find' 'checks' '-name' '*.py'", "'xargs' '-n1' 'python3'"];
        let commands = commands.map(|command| ("web/".to_owned(), command.to_owned()));
        assert_eq!(started(&commands), ["web/checks/**/*.py"]);
    }
}
