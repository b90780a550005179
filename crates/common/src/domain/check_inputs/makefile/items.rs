//! The parts of a makefile, and what is known of the files beside it.

/// Programs that read sources.
pub(super) const COMPILERS: &[&str] =
    &["$(CC)", "$(CXX)", "${CC}", "${CXX}", "c++", "cc", "clang", "clang++", "g++", "gcc", "javac"];
/// Extensions of sources and of what is made from them.
pub(super) const SOURCES: &[&str] =
    &["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "java", "m", "o", "s"];
/// Libraries of the system that a product may come to need. Where none else is looked for, they are no others.
pub(super) const LIBRARIES: &[&str] = &["-ldl", "-lm", "-lpthread", "-lrt", "-pthread"];
/// Extensions of what make makes a program from by its own rules.
pub(super) const COMPILED: &[&str] =
    &["C", "F", "S", "c", "cc", "cpp", "f", "l", "m", "mod", "o", "p", "r", "s", "y"];
/// The same of what it only copies, or writes out: scripts and documents.
pub(super) const COPIED: &[&str] = &["ch", "sh", "w", "web"];

/// Words with which lines begin that are no rules, wherever they have a colon.
const DIRECTIVES: &[&str] = &[
    "-include", "-load", "define", "else", "endef", "endif", "export", "ifdef", "ifeq", "ifndef",
    "ifneq", "include", "load", "override", "private", "sinclude", "undefine", "unexport", "vpath",
];

/// What is known of the start.
pub trait StartFiles {
    /// Whether a path is a check input.
    fn is_check_input(&self, path: &str) -> bool;

    /// Whether a file has this name, or one that make makes it from.
    fn has_stem(&self, stem: &str) -> bool;

    /// Whether a file of this name lies beside the makefile.
    fn has(&self, name: &str) -> bool;

    /// Whether a file was there at the start, and the run removed it.
    fn is_gone(&self, path: &str) -> bool;

    /// Whether the line of a check has this name of a variable as a word: `STRICT=1 make test`.
    fn is_in_a_line(&self, name: &str) -> bool;
}

/// One part of a makefile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A variable: its name with the operator, and the words.
    Variable(String, Vec<String>),
    /// A rule: its targets with the colons, the words behind, and the recipe.
    Rule(Vec<String>, Vec<String>, Vec<String>),
    /// Anything else: a line, with the recipe where it is a rule with patterns.
    Other(String),
}

/// The name of a variable without its operator.
pub(super) fn name_of(variable: &str) -> &str {
    variable.trim_end_matches(['=', ':', '?', '+']).trim()
}

/// A source, or what is made of one, that is no check input.
pub(super) fn is_source(word: &str, files: &dyn StartFiles) -> bool {
    let Some((stem, extension)) = word.rsplit_once('.') else { return false };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    SOURCES.contains(&extension)
        && word.chars().all(is_plain)
        && !word.starts_with('/')
        && !word.contains("..")
        && !SOURCES.iter().any(|other| files.is_check_input(&format!("{stem}.{other}")))
}

/// The parts of a makefile, in order.
pub(super) fn items(text: &str) -> Vec<Item> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut found: Vec<Item> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix('\t') {
            match found.last_mut() {
                Some(Item::Rule(_, _, recipe)) => {
                    recipe.push(command.trim_end().to_owned());
                    continue;
                }
                Some(Item::Other(rule)) if is_rule(rule) => {
                    rule.push('\n');
                    rule.push_str(line.trim_end());
                    continue;
                }
                Some(Item::Variable(..) | Item::Other(_)) | None => {}
            }
        }
        let line = match line.starts_with('\t') {
            true => line,
            false => line.split('#').next().unwrap_or_default().trim_end(),
        };
        if line.trim().is_empty() {
            continue;
        }
        found.push(item(line));
    }
    found
}

/// Whether make reads lines behind this one that begin with a tab as its recipe: a rule that sets no variable.
fn is_rule(item: &str) -> bool {
    let first = item.lines().next().unwrap_or_default();
    let mut depth = 0_usize;
    let has_colon = first.chars().any(|letter| {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ':' && depth == 0
    });
    has_colon
        && !first.contains('=')
        && !first.starts_with(char::is_whitespace)
        && !is_directive(first)
}

fn is_directive(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| DIRECTIVES.contains(&word))
}

fn item(line: &str) -> Item {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let other = || Item::Other(line.to_owned());
    if line.starts_with(char::is_whitespace) {
        return other();
    }
    let assigned = line.find('=');
    let colon = line.find(':').filter(|at| assigned.is_none_or(|assigned| *at + 1 < assigned));
    match (colon, assigned) {
        (None, Some(at)) => {
            let (name, value) = line.split_at(at + 1);
            let parts = words(name);
            let is_operator = |word: &String| word.chars().all(|letter| ":?+=".contains(letter));
            // `export NAME =` and the like say more than a value, and the value of `!=` is a command.
            match parts.get(1..) {
                _ if name.ends_with("!=") => other(),
                Some([]) => Item::Variable(parts.concat(), words(value)),
                Some([operator]) if is_operator(operator) => {
                    Item::Variable(parts.concat(), words(value))
                }
                Some(_) | None => other(),
            }
        }
        // Variables of one target, recipes on the same line, and rules with patterns.
        (Some(_), Some(_)) => other(),
        (Some(_), None) if is_directive(line) => other(),
        (Some(at), None) => {
            let (targets, needs) = line.split_at(at);
            match needs.contains([';', '%']) || needs.starts_with("::") {
                true => other(),
                false => Item::Rule(
                    words(targets),
                    words(needs.get(1..).unwrap_or_default()),
                    Vec::new(),
                ),
            }
        }
        (None, None) => other(),
    }
}

/// Whether a word is a source or made from one, by its name.
pub(super) fn has_extension_of_source(word: &str) -> bool {
    let extension = word.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| SOURCES.contains(&extension))
}

/// Whether a character may stand in the name of a file.
pub(super) fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_./".contains(letter)
}
