//! The one program that a line starts, itself or by a recipe.

use super::recipe;
use super::starts::Project;
use crate::domain::shell_line::{Segment, is_assignment, segments};

/// The deepest nesting of recipes that is followed.
const MAX_DEPTH: usize = 4;
/// Commands of a recipe that only print.
const PRINTERS: &[&str] = &["echo", "printf", ":", "true"];
/// What a Makefile decides while it runs.
const MADE: &[&str] = &[
    "$(shell",
    "${shell",
    "$(eval",
    "$(call",
    "$(wildcard",
    "$(file",
    "ifeq",
    "ifneq",
    "ifdef",
    "ifndef",
    "include ",
    "!=",
];
/// Runners that npm finds among the dependencies.
const OF_NPM: &[&str] = &["jest", "vitest", "mocha", "_mocha"];

/// Whether a line starts one program, at most in another folder. Words at its end are then arguments of it.
pub fn is_single(line: &str) -> bool {
    let found = segments(line);
    let own = match found.as_slice() {
        [cd, own] if cd.words.first().is_some_and(|word| word == "cd") => own,
        [own] => own,
        _ => return false,
    };
    let is_plain = !line.contains(['\n', '#', '`']) && !line.contains("$(");
    is_plain && !own.output_elsewhere && !own.conditional && !line.trim_end().ends_with([';', '&'])
}

/// The command that a line comes to, where that is one program in the folder of the line: the line itself, or what
/// the recipe of make, npm or just runs that it names. None where it comes to more.
pub fn only_command(line: &str, project: &dyn Project) -> Option<String> {
    let mut line = line.to_owned();
    for _ in 0..MAX_DEPTH {
        let [segment] = segments(&line).try_into().ok()?;
        match recipe_of(&segment, project)? {
            Recipe::None => return is_single(&line).then_some(line),
            Recipe::Lines(lines) => {
                let mut own = lines.into_iter().filter(|line| !only_prints(line));
                line = own.next()?;
                if own.next().is_some() {
                    return None;
                }
            }
        }
    }
    None
}

enum Recipe {
    /// The program is none that has recipes.
    None,
    Lines(Vec<String>),
}

/// What a command's recipe runs; none where it runs in another folder, or passes arguments on.
fn recipe_of(segment: &Segment, project: &dyn Project) -> Option<Recipe> {
    let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
    let (program, arguments) = words.split_first()?;
    let read = |names: &[&str]| names.iter().find_map(|name| project.read(name));
    match *program {
        "make" | "gmake" => {
            let (folder, file, targets) = recipe::make_arguments(arguments);
            let sets = arguments.iter().any(|word| is_assignment(word));
            let text = match (folder, file) {
                (None, None) if !sets => read(&["GNUmakefile", "makefile", "Makefile"])?,
                (_, _) => return None,
            };
            let is_plain = !MADE.iter().any(|part| text.contains(part));
            is_plain.then(|| Recipe::Lines(recipe::make(&text, &targets).lines))
        }
        "npm" | "yarn" | "pnpm" => {
            let recipe::NpmCall { folder, script, packages } = recipe::npm_call(program, arguments);
            if folder.is_some() || packages.is_some() || arguments.contains(&"--") {
                return None;
            }
            let lines = recipe::npm(&read(&["package.json"])?, script?);
            lines
                .into_iter()
                .map(|line| among_dependencies(&line))
                .collect::<Option<_>>()
                .map(Recipe::Lines)
        }
        "just" => {
            let (plain, own): (Vec<&str>, Vec<&str>) =
                arguments.iter().copied().partition(|word| !word.starts_with('-'));
            if !own.is_empty() || plain.len() > 1 {
                return None;
            }
            let text = read(&["justfile", "Justfile", ".justfile"])?;
            let lines = recipe::just(&text, &plain);
            // A recipe with arguments or variables is none that a plain line stands for.
            (!lines.iter().any(|line| line.contains("{{"))).then_some(Recipe::Lines(lines))
        }
        _ => Some(Recipe::None),
    }
}

/// A script's line, as it runs outside of npm; none where the program cannot be told.
fn among_dependencies(line: &str) -> Option<String> {
    let first = line.split_whitespace().next()?;
    if OF_NPM.contains(&first) {
        return Some(format!("npx --no-install {line}"));
    }
    (!is_assignment(first)).then(|| line.to_owned())
}

fn only_prints(line: &str) -> bool {
    let found = segments(line);
    found.iter().all(|segment| {
        let first = segment.words.first();
        first.is_some_and(|word| PRINTERS.contains(&word.as_str())) && !segment.output_elsewhere
    })
}
