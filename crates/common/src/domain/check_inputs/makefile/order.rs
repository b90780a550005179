//! Where the makefile of the start reads the first word of a list: there another word in front is another file.
//!
//! ```text
//!   SRCS = a.c b.c      OBJS = $(SRCS:.c=.o)
//!   run: $(OBJS)
//!       $(CC) -o $@ $^      a compiler takes all alike: any word may come first
//!       java $^             the first word is a program: it stays
//!       $(CC) -o $@ $<      so it is here
//! ```

use super::items::{COMPILERS, Item, has_extension_of_source, is_of_word, name_of};
use super::makes::{Makes, included};
use std::collections::{BTreeMap, BTreeSet};

/// The first prerequisite.
const FIRST: &[&str] = &["$<", "$(<", "${<"];
/// All prerequisites.
const ALL: &[&str] = &["$^", "$(^", "${^", "$+", "$(+", "${+", "$?", "$(?", "${?"];
/// Functions of make that do the same to every word of a list.
const ALIKE: &[&str] = &[
    "abspath",
    "addprefix",
    "addsuffix",
    "and",
    "basename",
    "dir",
    "filter",
    "filter-out",
    "foreach",
    "if",
    "notdir",
    "or",
    "patsubst",
    "realpath",
    "sort",
    "strip",
    "subst",
    "suffix",
    "wildcard",
];
/// Programs beside compilers that do the same to every file that they are given.
const TOOLS: &[&str] = &[
    "$(AR)",
    "$(COMPILE.c)",
    "$(COMPILE.cc)",
    "$(COMPILE.cpp)",
    "$(LD)",
    "$(LINK.c)",
    "$(LINK.cc)",
    "$(LINK.cpp)",
    "$(LINK.o)",
    "$(RM)",
    "${AR}",
    "${LD}",
    "${RM}",
    "ar",
    "clang-format",
    "clang-tidy",
    "cppcheck",
    "ld",
    "rm",
];
/// How deep variables that name variables are followed.
const MAX_DEPTH: usize = 8;

/// What of the start reads the first word of its lists.
pub(super) struct Order<'a> {
    variables: BTreeMap<&'a str, Vec<&'a [String]>>,
    /// The variables whose first word is read.
    read: BTreeSet<String>,
    /// The targets of rules whose recipes read the first prerequisite.
    targets: BTreeSet<&'a str>,
    /// Whether any may be read: what reads it may stand in another file, or in a text that is no recipe yet.
    is_any: bool,
}

impl<'a> Order<'a> {
    pub(super) fn of(items: &'a [Item]) -> Self {
        let mut order = Self {
            variables: BTreeMap::new(),
            read: BTreeSet::new(),
            targets: BTreeSet::new(),
            is_any: Makes::of(items).includes,
        };
        for item in items {
            if let Item::Variable(name, values) = item {
                order.variables.entry(name_of(name)).or_default().push(values);
            }
        }
        for item in items {
            match item {
                Item::Variable(_, values) => order.add_variable(&values.join(" ")),
                Item::Rule(targets, needs, recipe) => {
                    let recipe: Vec<&str> = recipe.iter().map(String::as_str).collect();
                    if order.add_rule(&needs.join(" "), &recipe) {
                        order.targets.extend(targets.iter().map(String::as_str));
                    }
                }
                Item::Other(text) => order.add_other(text),
            }
        }
        let mut rest: Vec<String> = order.read.iter().cloned().collect();
        while let Some(name) = rest.pop() {
            for value in order.variables.get(name.as_str()).into_iter().flatten() {
                let text = value.join(" ");
                let inside = names(&text).into_iter().map(str::to_owned);
                rest.extend(inside.filter(|name| order.read.insert(name.clone())));
            }
        }
        order
    }

    /// Whether the first word of a variable is read as another one than the rest.
    pub(super) fn is_first_read(&self, name: &str) -> bool {
        self.is_any || self.read.contains(name)
    }

    /// Whether the first prerequisite of a rule is read as another one than the rest.
    pub(super) fn is_first_needed(&self, targets: &[String], recipe: &[String]) -> bool {
        let recipe: Vec<&str> = recipe.iter().map(String::as_str).collect();
        // make compiles a source of the name of an object by a rule of its own, which reads its first prerequisite.
        let is_one = |target: &String| {
            self.targets.contains(target.as_str())
                || recipe.is_empty() && (target.contains('$') || has_extension_of_source(target))
        };
        // The recipe of a computed target may be that of any rule without one.
        let is_computed =
            || recipe.is_empty() && self.targets.iter().any(|target| target.contains('$'));
        self.is_any || targets.iter().any(is_one) || is_computed() || self.reads_needs(&recipe)
    }

    /// Whether a word of a command is an option whose value is the next word, or a variable that ends with one.
    pub(super) fn takes_value(&self, word: &str) -> bool {
        self.takes(word, MAX_DEPTH)
    }

    fn takes(&self, word: &str, depth: usize) -> bool {
        let inside = word.strip_prefix("$(").or_else(|| word.strip_prefix("${"));
        let name = inside.and_then(|rest| rest.strip_suffix([')', '}']));
        let Some(name) = name else { return is_open_option(word) };
        let mut values = self.variables.get(name).into_iter().flatten();
        values
            .any(|words| words.last().is_some_and(|last| depth == 0 || self.takes(last, depth - 1)))
    }

    fn add_variable(&mut self, text: &str) {
        // A list of lists is one; in any other text the first word is not the first of its value.
        let is_list = |word: &&str| word.starts_with('$') || has_extension_of_source(word);
        if !words_outside(text).iter().all(is_list) {
            self.read_all(names(text));
        }
        self.read_all(read_by_place(text));
    }

    /// Answers whether the recipe reads the first prerequisite.
    fn add_rule(&mut self, needs: &str, recipe: &[&str]) -> bool {
        self.read_all(read_by_place(needs));
        for line in recipe {
            self.read_all(read_by_place(line));
            let read: Vec<&str> =
                self.set_apart(line).into_iter().flat_map(|word| names(word)).collect();
            self.read_all(read);
        }
        let reads_needs = self.reads_needs(recipe);
        if reads_needs {
            for word in words_outside(needs) {
                self.read_all(names(word));
                // A variable in front may be empty.
                if !word.starts_with('$') || word.len() > 2 && word.ends_with(is_of_word) {
                    break;
                }
            }
        }
        reads_needs
    }

    /// A rule with patterns, or a line that is neither a rule nor a variable.
    fn add_other(&mut self, text: &'a str) {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if included(head).is_some() {
            return;
        }
        let recipe: Vec<&str> = lines.collect();
        match head.rsplit_once(':') {
            Some((targets, needs)) if head.contains('%') && !head.contains(['=', ';']) => {
                if self.add_rule(needs, &recipe) {
                    let targets = targets.split(':').next().unwrap_or_default();
                    self.targets.extend(targets.split_whitespace());
                }
            }
            Some(_) | None => {
                self.is_any |= has(text, FIRST) || has(text, ALL);
                self.read_all(names(text));
            }
        }
    }

    fn read_all<'t>(&mut self, names: impl IntoIterator<Item = &'t str>) {
        self.read.extend(names.into_iter().map(str::to_owned));
    }

    fn reads_needs(&self, recipe: &[&str]) -> bool {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut rest: Vec<&str> = recipe.iter().flat_map(|line| names(line)).collect();
        let mut reaches = false;
        while let Some(name) = rest.pop() {
            let Some((name, values)) = self.variables.get_key_value(name) else { continue };
            if seen.insert(name) {
                let words = || values.iter().copied().flatten();
                reaches |= words().any(|word| has(word, FIRST) || has(word, ALL));
                rest.extend(words().flat_map(|word| names(word)));
            }
        }
        let reads = |line: &&str| {
            has(line, FIRST)
                || calls_by_place(line).iter().any(|inside| has(inside, ALL))
                || self.set_apart(line).iter().any(|word| has(word, ALL))
        };
        reaches || recipe.iter().any(reads)
    }

    /// The words with variables of a line, without those that stand among the files of a program that treats all
    /// alike.
    fn set_apart<'t>(&self, line: &'t str) -> Vec<&'t str> {
        let is_plain = !line.contains(['\'', '"', '`', '\\']);
        let mut found = Vec::new();
        for command in line.split([';', '|', '&']) {
            let words = words_outside(command.trim_start_matches(['@', '-', '+', ' ', '\t']));
            let is_known = |program: &&str| COMPILERS.contains(program) || TOOLS.contains(program);
            let is_known = is_plain && words.first().is_some_and(is_known);
            let mut before = "";
            for (place, word) in words.into_iter().enumerate() {
                let is_alike = place == 0 || word.starts_with('$') && !self.takes_value(before);
                if word.contains('$') && !(is_known && is_alike) {
                    found.push(word);
                }
                before = word;
            }
        }
        found
    }
}

/// Whether a word is an option whose value is the next word. One that is not known may be one.
fn is_open_option(word: &str) -> bool {
    const WHOLE: &[&str] = &[
        "-E",
        "-MD",
        "-MMD",
        "-MP",
        "-S",
        "-ansi",
        "-c",
        "-g",
        "-pedantic",
        "-pipe",
        "-pthread",
        "-shared",
        "-static",
        "-v",
        "-w",
    ];
    const BEGINNINGS: &[&str] =
        &["-D", "-I", "-L", "-O", "-U", "-W", "-f", "-g", "-l", "-m", "-std="];
    const OPEN: &[&str] = &["-filelist", "-force_load", "-framework", "-mllvm"];
    let is_whole = |start: &&str| word.len() > start.len() && word.starts_with(*start);
    word.starts_with('-')
        && !WHOLE.contains(&word)
        && !["-O", "-f"].contains(&word)
        && (OPEN.contains(&word) || !BEGINNINGS.iter().any(is_whole))
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// The names of variables in a text.
fn names(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('$') {
        let rest = text.get(at + 1..).unwrap_or_default();
        match rest.strip_prefix(['(', '{']) {
            Some(rest) => {
                let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if !after.starts_with(char::is_whitespace) {
                    found.push(name);
                }
            }
            None => found.extend(rest.get(..1)),
        }
    }
    found
}

/// What stands in the calls of functions that may read words by their places.
fn calls_by_place(text: &str) -> Vec<&str> {
    let opened = ["$(", "${"].iter().flat_map(|open| text.match_indices(open));
    let calls = opened.filter_map(|(at, open)| {
        let rest = text.get(at + open.len()..)?;
        let end = rest.find(|letter| !is_of_name(letter))?;
        let (name, inside) = rest.split_at(end);
        let is_call = inside.starts_with(char::is_whitespace) && !ALIKE.contains(&name);
        is_call.then(|| inside.get(..length_inside(inside)).unwrap_or(inside))
    });
    calls.collect()
}

fn read_by_place(text: &str) -> Vec<&str> {
    calls_by_place(text).into_iter().flat_map(|inside| names(inside)).collect()
}

/// The bytes up to the bracket that closes one in front of a text.
fn length_inside(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' if depth == 0 => return at,
            ')' | '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The words of a text, where brackets hold one together.
fn words_outside(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let words = text.split(|letter: char| {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && letter.is_whitespace()
    });
    words.filter(|word| !word.is_empty()).collect()
}
