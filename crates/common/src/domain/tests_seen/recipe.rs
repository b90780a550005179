//! What recipes of make and just, and scripts of npm, start: the lines of a target with those of the
//! targets that it needs.

use super::make_text::{MAX_ALL, Variables, expanded, own_variables, stem};
use crate::domain::json::{self, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a copy of a text takes beside its bytes.
const OF_COPY: usize = 32;
/// The longest file that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// How a makefile includes others.
const INCLUDES: [&str; 3] = ["include ", "-include ", "sinclude "];
/// The most lines that one recipe gives.
const MAX_LINES: usize = 1_000;
/// The most targets that are followed by patterns.
const MAX_BY_PATTERN: usize = 1_000;
/// What may stand in front of a line of a recipe.
const BEFORE: [char; 3] = ['@', '-', '+'];

/// The folder and the file that make's arguments name, and the targets.
pub(super) fn make_arguments<'a>(
    arguments: &[&'a str],
) -> (Option<&'a str>, Option<&'a str>, Vec<&'a str>) {
    let (mut folder, mut file, mut targets) = (None, None, Vec::new());
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-C" | "--directory" => folder = words.next(),
            "-f" | "--file" | "--makefile" => file = words.next(),
            "-j" | "-l" | "-o" | "-W" | "-I" => {}
            _ if word.starts_with("-C") => folder = word.get(2..),
            _ if word.starts_with("-f") => file = word.get(2..),
            _ if word.starts_with("--directory=") => folder = word.get(12..),
            _ if word.starts_with("--file=") => file = word.get(7..),
            _ if word.starts_with('-') || word.contains('=') => {}
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => {}
            target => targets.push(target),
        }
    }
    (folder, file, targets)
}

/// One rule: what it needs, and its lines.
#[derive(Debug, Default)]
struct Rule {
    needs: Vec<String>,
    lines: Vec<String>,
    /// What `%` stands for in the pattern of the rule.
    stem: String,
}

/// What make does.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The lines that it runs.
    pub(super) lines: Vec<String>,
    /// The targets with a rule that it comes by.
    pub(super) targets: BTreeSet<String>,
    /// Those without one that it may make by a pattern of the file.
    pub(super) implicit: BTreeSet<String>,
    /// Those without one that only its own rules can make, from a source of that name.
    pub(super) by_own_rules: BTreeSet<String>,
    /// Whether there is no rule for one of the targets that it is asked for.
    pub(super) is_lacking: bool,
    /// Whether rules may be there that are not seen, and none is seen for what it is asked for.
    pub(super) is_hidden: bool,
}

impl Made {
    /// Takes into account what is not seen of a makefile.
    fn hide(&mut self, text: &str, rules: &BTreeMap<String, Rule>, asked: &[String]) {
        let hides = hides_rules(text, rules);
        let is_sought = |name: &String| self.by_own_rules.contains(name);
        let is_unknown = asked.is_empty() || asked.iter().any(is_sought);
        (self.is_lacking, self.is_hidden) = (!hides && is_unknown, hides && is_unknown);
        // Which files its own rules find is not followed along a search path.
        if hides || has_search_path(text) {
            self.implicit.append(&mut self.by_own_rules);
        }
    }
}

/// What a makefile says.
#[derive(Debug, Default)]
struct Makefile {
    rules: BTreeMap<String, Rule>,
    variables: Variables,
    /// The target that it makes where none is named.
    first: Option<String>,
    /// What is left for its texts, and for the copies of them that its targets get, in bytes.
    left: usize,
}

impl Makefile {
    fn of(text: &str) -> Self {
        let mut found = Self { variables: own_variables(), left: MAX_ALL, ..Self::default() };
        let mut named: Vec<String> = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(recipe) = line.strip_prefix('\t') {
                found.add_line(&named, recipe);
                continue;
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            if INCLUDES.iter().any(|word| line.starts_with(word)) {
                continue;
            }
            if let Some(name) = line.strip_prefix("define ") {
                let own = lines.by_ref().take_while(|line| line.trim() != "endef");
                let own: Vec<&str> = own.collect();
                let name = name.trim_end_matches([' ', '=', ':', '?']).trim();
                found.variables.insert(name.to_owned(), own.join("\n"));
            } else if let Some((name, sign, value)) = assignment(line) {
                found.set(name, sign, value);
            } else if let Some(rule) = at_colon(line) {
                named = found.add_rule(rule);
            }
        }
        let by_name = found.variables.get(".DEFAULT_GOAL").cloned();
        found.first = by_name.filter(|goal| !goal.is_empty()).or(found.first);
        found
    }

    fn set(&mut self, name: &str, sign: &str, value: &str) {
        match sign {
            "+" => {
                let known = self.variables.entry(name.to_owned()).or_default();
                known.push(' ');
                known.push_str(value);
            }
            _ => drop(self.variables.insert(name.to_owned(), value.to_owned())),
        }
    }

    /// Adds a rule, and answers its targets.
    fn add_rule(&mut self, (names, needs): (&str, &str)) -> Vec<String> {
        let names = expanded(names, &self.variables, &mut self.left);
        let (needs, recipe) = match needs.split_once(';') {
            Some((needs, recipe)) => (needs, Some(recipe)),
            None => (needs, None),
        };
        let needs = needs.trim_start_matches(':');
        let needs = expanded(needs, &self.variables, &mut self.left);
        let (pattern, needs) = match needs.split_once(':') {
            Some((pattern, needs)) if pattern.contains('%') => (pattern.trim(), needs),
            Some(_) | None => ("", needs.as_str()),
        };
        let named: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let needs = if self.affords(named.len(), needs) { needs } else { "" };
        for name in &named {
            if self.first.is_none() && !name.starts_with('.') && !name.contains('%') {
                self.first = Some(name.clone());
            }
            let rule = self.rules.entry(name.clone()).or_default();
            let own = stem(name, pattern).filter(|_| !pattern.is_empty());
            rule.stem = own.unwrap_or_default().to_owned();
            let need =
                |need: &str| own.map_or_else(|| need.to_owned(), |own| need.replacen('%', own, 1));
            rule.needs.extend(needs.split_whitespace().filter(|need| *need != "|").map(need));
        }
        if let Some(recipe) = recipe {
            self.add_line(&named, recipe);
        }
        named
    }

    fn add_line(&mut self, names: &[String], recipe: &str) {
        let recipe = recipe.trim_start().trim_start_matches(BEFORE);
        if !self.affords(names.len(), recipe) {
            return;
        }
        for name in names {
            if let Some(rule) = self.rules.get_mut(name) {
                rule.lines.push(recipe.to_owned());
            }
        }
    }

    /// Whether so many targets may get a copy of a text.
    fn affords(&mut self, targets: usize, text: &str) -> bool {
        let left = self.left.checked_sub(targets.saturating_mul(text.len() + OF_COPY));
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// The targets of a rule and what stands behind its colon. Colons in values are none.
fn at_colon(line: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let (at, _) = line.char_indices().find(|(_, letter)| {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *letter == ':' && depth == 0
    })?;
    Some((line.get(..at)?, line.get(at + 1..)?))
}

/// What make does for these targets, or for the first one.
pub(super) fn make(text: &str, targets: &[&str]) -> Made {
    if text.len() > MAX_BYTES {
        return Made::default();
    }
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let Makefile { rules, variables, first, mut left } = Makefile::of(&text);
    let targets = match (targets.is_empty(), first) {
        (true, Some(first)) => vec![first],
        (_, _) => targets.iter().map(|target| (*target).to_owned()).collect(),
    };
    let asked = targets.clone();
    let mut found = made(&rules, targets, of_rule);
    found.hide(&text, &rules, &asked);
    let is_phony = |name: &String| {
        rules.get(".PHONY").is_some_and(|rule| rule.needs.iter().any(|need| need == name))
    };
    // A file that make is told of and does not make, and one in the place of a phony target, which make does not look at.
    found.targets.retain(|name| {
        let is_made = rules.get(name).is_some_and(|rule| !rule.lines.is_empty());
        (is_made || !name.contains('.')) && !is_phony(name)
    });
    for names in [&mut found.implicit, &mut found.by_own_rules] {
        // A pattern of names is no name.
        names.retain(|name| !is_phony(name) && !name.contains('*'));
    }
    let mut whole = |line: &String| -> Vec<String> {
        let line = expanded(line, &variables, &mut left).replace("$$", "$");
        line.lines().map(|line| line.trim_start().trim_start_matches(BEFORE).to_owned()).collect()
    };
    found.lines = found.lines.iter().flat_map(&mut whole).collect();
    found
}

/// Whether a makefile may have rules that are not seen here: in files that are included and were not read, in what it
/// computes, and by suffixes.
fn hides_rules(text: &str, rules: &BTreeMap<String, Rule>) -> bool {
    const SUFFIXES: &[&str] =
        &[".C", ".F", ".S", ".c", ".cc", ".cpp", ".f", ".mod", ".o", ".p", ".r", ".s", ".sh"];
    let is_suffix = |name: &str| {
        let declared = rules.get(".SUFFIXES");
        SUFFIXES.contains(&name) || declared.is_some_and(|it| it.needs.iter().any(|it| it == name))
    };
    let is_of_suffix = |(name, rule): (&String, &Rule)| {
        !rule.lines.is_empty() && (name == ".DEFAULT" || is_suffix(name))
    };
    let is_included = |line: &str| INCLUDES.iter().any(|word| line.trim_start().starts_with(word));
    ["$(eval", "${eval"].iter().any(|word| text.contains(word))
        || rules.iter().any(is_of_suffix)
        || text.lines().any(|line| !line.starts_with('\t') && is_included(line))
}

/// Whether a makefile looks for files along a search path.
pub fn has_search_path(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.any(|word| matches!(word, "VPATH" | "vpath"))
}

/// A line of a rule with the names of its target and of what it needs, in place of the variables that stand for them.
fn of_rule(line: &str, name: &str, needs: &[String], own: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next().filter(|_| out.len() <= MAX_BYTES) {
        let next = letters.peek().copied();
        match (letter, next) {
            ('$', Some('@')) => out.push_str(name),
            ('$', Some('<')) => out.push_str(needs.first().map_or("", String::as_str)),
            ('$', Some('^' | '+')) => out.push_str(&needs.join(" ")),
            ('$', Some('*')) => out.push_str(own),
            ('$', Some('$')) => out.push_str("$$"),
            (letter, _) => {
                out.push(letter);
                continue;
            }
        }
        letters.next();
    }
    out
}

/// What comes next.
enum Next {
    /// A target, reached by these patterns.
    Target(String, Vec<String>),
    /// The lines of one whose needs are there.
    Lines(Vec<String>),
}

/// The lines of these targets after those of what they need, each target once, as they are with its names.
fn made(
    rules: &BTreeMap<String, Rule>,
    targets: Vec<String>,
    of_rule: impl Fn(&str, &str, &[String], &str) -> String,
) -> Made {
    let mut found = Made::default();
    let patterns = rules.keys().map(String::as_str).filter(|rule| rule.contains('%'));
    let patterns: Vec<&str> = patterns.collect();
    let mut open: Vec<Next> =
        targets.into_iter().rev().map(|name| Next::Target(name, Vec::new())).collect();
    while let Some(next) = open.pop() {
        let (name, used) = match next {
            Next::Target(name, used) => (name, used),
            Next::Lines(lines) => {
                found.lines.extend(lines);
                if found.lines.len() > MAX_LINES {
                    found.lines.truncate(MAX_LINES);
                    break;
                }
                continue;
            }
        };
        let Made { targets, implicit, by_own_rules, .. } = &found;
        if [targets, implicit, by_own_rules].iter().any(|names| names.contains(&name)) {
            continue;
        }
        let own = rules.get(&name);
        let is_open = own.is_none_or(|rule| rule.lines.is_empty());
        let pattern = by_pattern(&patterns, &name, &[]).filter(|_| is_open);
        let is_new = match own {
            Some(_) => found.targets.insert(name.clone()),
            None if pattern.is_some() => found.implicit.insert(name.clone()),
            None => {
                if !name.contains('.') {
                    found.by_own_rules.insert(name);
                }
                continue;
            }
        };
        if !is_new || found.implicit.len() > MAX_BY_PATTERN {
            continue;
        }
        let (mut needs, mut lines) = (Vec::new(), Vec::new());
        if let Some(rule) = own {
            needs.extend(rule.needs.iter().map(|need| Next::Target(need.clone(), used.clone())));
            lines.extend(rule.lines.iter().map(|it| of_rule(it, &name, &rule.needs, &rule.stem)));
        }
        // make uses no pattern again for what that pattern needs.
        if let Some((pattern, stem)) = by_pattern(&patterns, &name, &used).filter(|_| is_open)
            && let Some(rule) = rules.get(pattern)
        {
            let of_pattern = rule.needs.iter().map(|need| need.replacen('%', stem, 1));
            let of_pattern: Vec<String> = of_pattern.collect();
            lines.extend(rule.lines.iter().map(|it| of_rule(it, &name, &of_pattern, stem)));
            let used: Vec<String> = used.iter().cloned().chain([pattern.to_owned()]).collect();
            needs.extend(of_pattern.into_iter().map(|need| Next::Target(need, used.clone())));
        }
        open.push(Next::Lines(lines));
        open.extend(needs.into_iter().rev());
    }
    found
}

/// The pattern of a rule that makes a name, apart from these, and what `%` stands for: the shortest counts.
fn by_pattern<'r, 'n>(
    patterns: &[&'r str],
    name: &'n str,
    used: &[String],
) -> Option<(&'r str, &'n str)> {
    let patterns = patterns.iter().filter(|rule| !used.iter().any(|known| known == *rule));
    let found = patterns.filter_map(|rule| Some((*rule, stem(name, rule)?)));
    found.filter(|(_, stem)| !stem.is_empty()).min_by_key(|(_, stem)| stem.len())
}

/// The name of a variable that is set, what stands in front of the sign, and the value.
fn assignment(line: &str) -> Option<(&str, &str, &str)> {
    let line =
        line.strip_prefix("export ").or_else(|| line.strip_prefix("override ")).unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let (name, sign) = name.split_at(name.trim_end_matches([':', '?', '+', '!']).len());
    let name = name.trim();
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    is_name.then(|| (name, sign, value.trim()))
}

/// What a package manager of JavaScript is asked to run.
#[derive(Debug, Default)]
pub(super) struct NpmCall<'a> {
    /// The folder that it goes to.
    pub(super) folder: Option<&'a str>,
    /// The script.
    pub(super) script: Option<&'a str>,
    /// The packages of the workspace in which it runs the script; none for the package of the folder.
    pub(super) packages: Option<Packages<'a>>,
}

/// Packages of a workspace.
#[derive(Debug)]
pub(super) enum Packages<'a> {
    /// All but the outermost.
    All,
    /// Those at these paths or with these names.
    Named(Vec<&'a str>),
}

impl<'a> Packages<'a> {
    fn add(packages: &mut Option<Self>, name: Option<&'a str>) {
        let Some(name) = name else { return };
        let is_pattern = name.contains(['*', '{', '!', '[']);
        match packages {
            Some(Self::Named(names)) if !is_pattern => names.push(name),
            Some(Self::All) => {}
            // Which ones a pattern selects is not followed.
            _ if is_pattern => *packages = Some(Self::All),
            Some(Self::Named(_)) | None => *packages = Some(Self::Named(vec![name])),
        }
    }

    /// Whether the package in this folder, with this manifest, is one of them.
    pub(super) fn has(&self, folder: &str, manifest: &str) -> bool {
        let Self::Named(names) = self else { return true };
        let parsed = json::parse(manifest).ok();
        let own = parsed.as_ref().and_then(|it| it.value.get("name")).and_then(Value::as_str);
        names.iter().any(|name| {
            let name = name.trim_matches('.').trim_start_matches('/').trim_end_matches('/');
            let below = folder.strip_prefix(name);
            own == Some(name) || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// What the arguments of a package manager of this name ask for.
pub(super) fn npm_call<'a>(program: &str, arguments: &[&'a str]) -> NpmCall<'a> {
    let NpmCall { mut folder, mut script, mut packages } = NpmCall::default();
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with("--") => (option, Some(value)),
            Some(_) | None => (word, None),
        };
        match option {
            "--prefix" | "-C" | "--dir" | "--cwd" => folder = value.or_else(|| words.next()),
            "-w" if program == "npm" => Packages::add(&mut packages, words.next()),
            // Others pass what follows the script's name on to it.
            "--workspace" | "--filter" | "-F" if program == "npm" || script.is_none() => {
                Packages::add(&mut packages, value.or_else(|| words.next()));
            }
            "-ws" | "--workspaces" | "-r" | "--recursive"
                if program == "npm" || script.is_none() =>
            {
                packages = Some(Packages::All);
            }
            "workspace" if program == "yarn" && script.is_none() => {
                Packages::add(&mut packages, words.next());
            }
            "workspaces" if program == "yarn" && script.is_none() => packages = Some(Packages::All),
            "foreach" if packages.is_some() && script.is_none() => {}
            "--" => break,
            _ if word.starts_with('-') => {}
            "run" | "run-script" if script.is_none() => {}
            "t" | "tst" => script = script.or(Some("test")),
            name => script = script.or(Some(name)),
        }
    }
    NpmCall { folder, script, packages }
}

/// The lines of a script in a package.json, with those that npm runs before and after it.
pub(super) fn npm(text: &str, name: &str) -> Vec<String> {
    if text.len() > MAX_BYTES {
        return Vec::new();
    }
    let Ok(parsed) = json::parse(text) else { return Vec::new() };
    let scripts = parsed.value.get("scripts");
    let script = |name: &str| scripts?.get(name).and_then(Value::as_str).map(str::to_owned);
    let Some(own) = script(name) else { return Vec::new() };
    let before = script(&format!("pre{name}"));
    before.into_iter().chain([own]).chain(script(&format!("post{name}"))).collect()
}

/// Whether a justfile has recipes by other names, or in other files.
pub(super) fn just_has_more(text: &str) -> bool {
    const WORDS: &[&str] = &["!include ", "alias ", "import ", "import? ", "mod ", "mod? "];
    text.lines().any(|line| WORDS.iter().any(|word| line.trim_start().starts_with(word)))
}

/// The lines of these recipes of a justfile, or of its first one.
pub(super) fn just(text: &str, targets: &[&str]) -> Vec<String> {
    if text.len() > MAX_BYTES {
        return Vec::new();
    }
    let text = text.replace("\\\n", " ");
    let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
    let mut first = None;
    let mut named = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            let recipe = line.trim_start().trim_start_matches(['@', '-']);
            if let Some(rule) = named.as_ref().and_then(|name| rules.get_mut(name)) {
                rule.lines.push(recipe.to_owned());
            }
            continue;
        }
        if line.starts_with('#') || line.starts_with('[') || line.contains(":=") {
            continue;
        }
        let Some((head, needs)) = line.split_once(':') else { continue };
        let head = head.trim_start_matches('@');
        let Some(name) = head.split_whitespace().next() else { continue };
        first.get_or_insert_with(|| name.to_owned());
        let needs = needs.split_whitespace().map(|need| need.trim_matches(['(', ')']).to_owned());
        rules.insert(name.to_owned(), Rule { needs: needs.collect(), ..Rule::default() });
        named = Some(name.to_owned());
    }
    let targets = match (targets.is_empty(), first) {
        (true, Some(first)) => vec![first],
        (_, _) => targets.iter().map(|target| (*target).to_owned()).collect(),
    };
    made(&rules, targets, |line, _, _, _| line.to_owned()).lines
}
