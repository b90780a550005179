//! A makefile of a run that only adds to that of the start: sources to lists, and rules of new targets. Then it decides
//! what it decided before, over more sources.
//!
//! ```text
//!   items of the start, in their order --each found again, at most with further sources--> only adds
//!   items in between: rules and variables that the start has no word of
//! ```

mod items;
mod known;
mod lines;
mod makes;
mod order;

pub use items::StartFiles;

use items::{
    COMPILED, COPIED, Item, has_extension_of_source, is_of_word, is_source, items, name_of,
};
use known::{Known, computes_files};
use lines::{added, compiles_more};
use makes::Makes;
use order::Order;
use std::collections::BTreeSet;

/// The largest makefile that is compared, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Variables that hold them.
const OF_LIBRARIES: &[&str] = &["LDFLAGS", "LDLIBS", "LIBS", "LOADLIBES"];
/// Variables that make reads itself, or that its own rules use.
const OF_MAKE: &str = "\
    AR ARFLAGS AS ASFLAGS CC CFLAGS CO COFLAGS CPP CPPFLAGS CTANGLE CWEAVE CXX CXXFLAGS FC \
    FFLAGS GET GNUMAKEFLAGS GPATH HOME LD LDFLAGS LDLIBS LEX LFLAGS LINT LINTFLAGS LOADLIBES \
    M2C MAKE MAKEFILES MAKEFLAGS MAKE_COMMAND MODFLAGS OBJC OBJCFLAGS OUTPUT_OPTION PATH PC \
    PFLAGS RFLAGS RM SHELL SUFFIXES TANGLE TARGET_ARCH TARGET_MACH TMPDIR VPATH WEAVE YACC \
    YFLAGS";
/// Beginnings of names of variables that programs read from their environment.
const READ: &str = "\
    BASH CARGO CLASSPATH DOTNET DYLD_ ENV GCONV GIT_ GO GRADLE IFS JAVA JDK LANG LC_ LD_ \
    LIBRARY LOC MALLOC MAVEN NODE_ NPM_ NVM_ PERL PHP PNPM PYENV PYTEST PYTHON RUBY RUST \
    SDKROOT SURETY TERM VIRTUAL_ENV XDG_";
/// The names of makefiles.
const NAMES: &[&str] = &["makefile", "gnumakefile"];

/// Whether make compiles a source with this extension by its own rules, wherever its search path finds it.
pub fn is_compiled_by_make(extension: &str) -> bool {
    COMPILED.contains(&extension)
}

/// Whether make copies a file with this extension, or writes it out, by its own rules.
pub fn is_copied_by_make(extension: &str) -> bool {
    COPIED.contains(&extension)
}

/// Whether a path is a makefile by its name.
pub fn is_makefile(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    NAMES.contains(&name.as_str())
}

/// Whether the makefile of now says what that of the start says, with nothing but further sources in its lists, and
/// rules and variables that the start has no word of.
pub fn only_adds(start: &str, now: &str, files: &dyn StartFiles) -> bool {
    if start.len().max(now.len()) > MAX_BYTES {
        return false;
    }
    let words: BTreeSet<&str> = start.split(|letter: char| !is_of_word(letter)).collect();
    let (before, after) = (items(start), items(now));
    let targets = |wanted: fn(&[String]) -> bool| {
        let of_rule = before.iter().flat_map(move |item| match item {
            Item::Rule(targets, _, recipe) if wanted(recipe) => targets.as_slice(),
            Item::Rule(..) | Item::Variable(..) | Item::Other(_) => &[],
        });
        of_rule.map(String::as_str).collect()
    };
    let known = Known {
        words,
        order: Order::of(&before),
        targets: targets(|_| true),
        with_recipe: targets(|recipe| !recipe.is_empty()),
        makes: Makes::of(&before),
        computes_files: computes_files(start),
        links: !["-L", "LIBRARY_PATH", "-B", "-Wl"].iter().any(|it| start.contains(it)),
        files,
    };
    let computes = computes_names(start);
    let is_new = |item: &Item, has_rule: bool| match item {
        Item::Variable(name, values) => {
            grows(name, values, &before, files)
                || !computes && is_new_variable(name, values, &known)
        }
        Item::Rule(targets, needs, _) if *targets == [".PHONY"] => {
            needs.iter().all(|need| known.may_be_phony(need))
        }
        Item::Rule(targets, needs, recipe) => {
            let is_object = |target: &String| {
                recipe.is_empty()
                    && is_source(target, files)
                    && needs.iter().all(|need| is_source(need, files))
            };
            let is_one = |target: &String| is_object(target) || known.is_new_target(target);
            // In front of the first rule it would be what make makes by itself.
            has_rule
                && (targets.iter().all(is_one)
                    || needs.iter().all(|need| is_source(need, files))
                        && is_made_like_another(targets, recipe, &before, &known))
        }
        Item::Other(_) => false,
    };
    let mut rest = after.iter();
    let mut has_rule = false;
    for item in &before {
        loop {
            let Some(next) = rest.next() else { return false };
            if extends(item, next, &known) {
                break;
            }
            if !is_new(next, has_rule) {
                return false;
            }
        }
        has_rule |= matches!(item, Item::Rule(targets, ..) if !targets.iter().any(|it| it.starts_with('.')));
    }
    rest.all(|item| is_new(item, has_rule))
}

/// Whether values are added to a list that the start sets, behind or in front of that.
fn grows(name: &str, values: &[String], before: &[Item], files: &dyn StartFiles) -> bool {
    let sets = |item: &Item| match item {
        Item::Variable(other, first) => {
            name_of(other) == name_of(name)
                && !other.ends_with("+=")
                && !other.ends_with("?=")
                && first.first().is_some_and(|first| has_extension_of_source(first))
        }
        Item::Rule(..) | Item::Other(_) => false,
    };
    name.ends_with("+=")
        && before.iter().any(sets)
        && !values.is_empty()
        && values.iter().all(|word| is_source(word, files))
}

/// Whether a variable, in a makefile that computes no names, is one of new rules alone.
fn is_new_variable(name: &str, values: &[String], known: &Known<'_>) -> bool {
    let name = name_of(name);
    !known.words.contains(name)
        && !OF_MAKE.split_whitespace().any(|it| it == name)
        && !known.files.is_in_a_line(name)
        // `COMPILE.c` and its like are variables of make's own rules.
        && !name.contains('.')
        && !known.makes.includes
        && (values.iter().all(|word| is_source(word, known.files))
            || is_for_new_rules(name, values, &known.words))
        && !values.is_empty()
}

/// Whether a rule makes an object that the start has no word of as a rule of the start makes another one.
fn is_made_like_another(
    targets: &[String],
    recipe: &[String],
    before: &[Item],
    known: &Known<'_>,
) -> bool {
    let [target] = targets else { return false };
    let Some(stem) = target.strip_suffix(".o") else { return false };
    let is_same = |item: &Item| match item {
        Item::Rule(targets, _, lines) => {
            let other = match targets.as_slice() {
                [other] => other.strip_suffix(".o"),
                _ => None,
            };
            other.is_some_and(|other| {
                !lines.is_empty()
                    && lines.iter().map(|line| line.replace(other, stem)).eq(recipe.iter().cloned())
            })
        }
        Item::Variable(..) | Item::Other(_) => false,
    };
    is_source(target, known.files)
        && !known.words.contains(target.as_str())
        && before.iter().any(is_same)
}

/// Whether a makefile computes names of variables, as `$(FLAGS_$(MODE))` does: then it may read any name.
fn computes_names(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_computed = |rest: &str| rest.trim_start_matches(is_of_name).starts_with('$');
    let mut opened = ["$(", "${"].iter().flat_map(|open| text.match_indices(open));
    opened.any(|(at, open)| text.get(at + open.len()..).is_some_and(is_computed))
}

/// Whether a variable with any plain value is one of the new rules alone: programs read none of that name from their
/// environment, where make puts it if it is there already or the start exports all.
fn is_for_new_rules(name: &str, values: &[String], words: &BTreeSet<&str>) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+,:@".contains(letter);
    let is_read = READ.split_whitespace().any(|start| name.starts_with(start)) && name != "PYTHON";
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit())
        && !is_read
        && !["export", ".EXPORT_ALL_VARIABLES"].iter().any(|word| words.contains(word))
        && values.iter().all(|word| word.chars().all(is_plain))
}

/// Whether an item says the same, at most with further sources and without those that are gone.
fn extends(before: &Item, now: &Item, known: &Known<'_>) -> bool {
    let is_source = |word: &str| is_source(word, known.files);
    match (before, now) {
        (Item::Variable(name, values), Item::Variable(other, others)) => {
            let is_first_read = || known.order.is_first_read(name_of(name));
            let is_list = match values.first() {
                Some(first) => {
                    has_extension_of_source(first)
                        && (others.first() == Some(first) || !is_first_read())
                }
                None => is_list_by_name(name),
            };
            let holds_libraries = OF_LIBRARIES.contains(&name_of(name));
            let may_be_added = |word: &str| {
                is_list && is_source(word) || holds_libraries && known.is_library(word)
            };
            name == other
                && added(values, others, known)
                    .is_some_and(|it| it.iter().all(|it| may_be_added(it.word)))
        }
        (Item::Rule(targets, needs, recipe), Item::Rule(others, other_needs, lines)) => {
            let is_phony = *targets == [".PHONY"];
            let may_be_added = |word: &str| is_source(word) || is_phony && known.may_be_phony(word);
            let has_first = needs.is_empty()
                || is_phony
                || needs.first() == other_needs.first()
                || !known.order.is_first_needed(targets, recipe);
            let is_line =
                |(line, now): (&String, &String)| line == now || compiles_more(line, now, known);
            targets == others
                && recipe.len() == lines.len()
                && recipe.iter().zip(lines).all(is_line)
                && has_first
                && added(needs, other_needs, known)
                    .is_some_and(|it| it.iter().all(|it| may_be_added(it.word)))
        }
        (Item::Other(text), Item::Other(other)) => text == other,
        (_, _) => false,
    }
}

/// Whether a variable without a value is a list of sources by its name.
fn is_list_by_name(variable: &str) -> bool {
    let name = name_of(variable).to_ascii_uppercase();
    ["OBJ", "SOURCE", "SRC"].iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests;
