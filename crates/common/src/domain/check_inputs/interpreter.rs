//! The scripts that interpreters start.

use super::visits::options_of;
use crate::domain::shell_line::{
    Given, OfPython, given_to_python, given_to_shell, is_python, is_shell,
};

/// Options by which programs of JavaScript load a file before all others.
pub(super) const LOADING_OPTIONS: &[&str] = &["-r", "--import", "--loader", "--require"];
/// Programs that have them.
pub(super) const LOADERS: &[&str] = &["bun", "mocha", "node", "nodejs", "ts-node", "tsx"];

/// Programs whose first argument that is no option is a script.
const INTERPRETERS: &[&str] = &[
    "bb",
    "bun",
    "deno",
    "elixir",
    "escript",
    "expect",
    "gjs",
    "groovy",
    "guile",
    "ipython",
    "julia",
    "lua",
    "luajit",
    "node",
    "nodejs",
    "nu",
    "octave",
    "osascript",
    "perl",
    "php",
    "racket",
    "raku",
    "rscript",
    "ruby",
    "rust-script",
    "tclsh",
    "ts-node",
    "tsx",
    "wish",
];
/// Programs that build and run a source which they are given, and the extensions of these.
const BUILDERS: &[(&str, &[&str])] = &[
    ("crystal", &["cr"]),
    ("dart", &["dart"]),
    ("dotnet", &["cs", "csx", "fsx"]),
    ("go", &["go"]),
    ("java", &["jar", "java"]),
    ("kotlin", &["kts"]),
    ("nim", &["nim"]),
    ("scala", &["sc", "scala"]),
    ("swift", &["swift"]),
    ("zig", &["zig"]),
];
/// Programs that read a script of their own behind an option.
const FILTERS: &[&str] = &["awk", "gawk", "jq", "mawk", "sed"];
const FILTER_OPTIONS: &[&str] = &["-f", "--file", "--from-file"];

/// The script that an interpreter of this name starts; none inside where it is given none. None at all where the
/// program is no interpreter, or where code or a module stands on the line.
pub(super) fn script_of<'a>(name: &str, arguments: &[&'a str]) -> Option<Option<&'a str>> {
    if let Some((_, extensions)) = BUILDERS.iter().find(|(known, _)| *known == name) {
        let is_source = |word: &&&str| {
            let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
            extensions.contains(&extension) && !word.starts_with('-')
        };
        // Their other commands format, check or test a source.
        let first = arguments.first();
        let runs = matches!(first, Some(&("r" | "run"))) || first.is_some_and(|it| is_source(&it));
        let runs = runs || name == "java";
        return arguments.iter().find(is_source).filter(|_| runs).map(|script| Some(*script));
    }
    if reads_syntax_only(name, arguments) {
        return None;
    }
    let arguments = match arguments.split_first() {
        Some((&"run", rest)) if name == "coverage" => return script_of_python(rest),
        Some((&("run" | "test"), rest)) if matches!(name, "bun" | "deno") => rest,
        _ if is_python(name) => return script_of_python(arguments),
        _ if INTERPRETERS.contains(&name) => arguments,
        _ => return None,
    };
    let (code, valued) = options(name);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            option if code.contains(&option) => return None,
            option if valued.contains(&option) => drop(arguments.next()),
            option if option.len() > 1 && option.starts_with('-') => {}
            script => return Some(Some(script)),
        }
    }
    Some(None)
}

/// The script that an interpreter or a shell of this name starts. One that is given none reads its input.
pub(super) fn started<'a>(
    name: &str,
    arguments: &[&'a str],
    input: &'a Option<String>,
) -> Option<&'a str> {
    let is_input = |script: &&str| *script == "-" || script.starts_with("/dev/");
    let script = if is_shell(name) {
        match given_to_shell(name, arguments) {
            Some(Given::Text(text)) => return read_whole(text),
            Some(Given::File(_)) if reads_syntax_only(name, arguments) => return None,
            Some(Given::File(script)) => Some(script),
            None => None,
        }
    } else if let Some(("py", code)) = code_of(name, arguments) {
        return read_by_code(code);
    } else {
        script_of(name, arguments)?
    };
    script.filter(|script| !is_input(script)).or(input.as_deref())
}

/// The file whose text a text of a line for a shell is as a whole: `$(cat run)`.
pub(super) fn read_whole(text: &str) -> Option<&str> {
    let text = text.trim();
    let in_brackets = text.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
    let in_quotes = || text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let inner = in_brackets.or_else(in_quotes)?.trim();
    let path = inner.strip_prefix("cat ").or_else(|| inner.strip_prefix('<'))?.trim();
    let path = path.trim_matches(['"', '\'']);
    let is_one = !path.is_empty()
        && !path.starts_with('-')
        && !path.contains([' ', '$', '`', '*', '|', ';', '&', '(']);
    is_one.then_some(path)
}

/// The file that code in Python carries out as a whole, and does nothing else.
fn read_by_code(code: &str) -> Option<&str> {
    const FORMS: &[(&str, &str)] =
        &[("exec(open(", ").read())"), ("import runpy; runpy.run_path(", ")")];
    let mut inner = FORMS.iter().filter_map(|(before, behind)| {
        code.trim().strip_prefix(before).and_then(|rest| rest.strip_suffix(behind))
    });
    let path = inner.next()?.trim_matches(['"', '\'']);
    (!path.contains(['"', '\'', '(', ')', ','])).then_some(path)
}

/// The code that an interpreter of this name finds on its line, with the extension of its sources.
pub(super) fn code_of<'a>(name: &str, arguments: &[&'a str]) -> Option<(&'static str, &'a str)> {
    if is_python(name) {
        return match given_to_python(arguments)?.0 {
            OfPython::Code(text) => Some(("py", text)),
            OfPython::Module(_) | OfPython::File(_) => None,
        };
    }
    let extension = match name {
        "bun" | "deno" | "node" | "nodejs" | "tsx" => "js",
        "perl" => "pl",
        "php" => "php",
        "ruby" => "rb",
        _ => return None,
    };
    let (code, _) = options(name);
    let at = arguments.iter().position(|word| code.contains(word))?;
    let is_first = script_of(name, arguments).is_none();
    let text = arguments.get(at + 1).filter(|_| is_first)?;
    Some((extension, text))
}

fn script_of_python<'a>(arguments: &[&'a str]) -> Option<Option<&'a str>> {
    match given_to_python(arguments) {
        Some((OfPython::File(script), _)) => Some(Some(script)),
        Some((OfPython::Module(_) | OfPython::Code(_), _)) => None,
        None => Some(None),
    }
}

/// Whether a program reads its file for its syntax and does not start it: the file is what the check is about.
pub(super) fn reads_syntax_only(name: &str, arguments: &[&str]) -> bool {
    // The letter, and those behind which stands a value.
    let (letter, valued) = match name {
        "node" | "nodejs" => ('c', ""),
        "perl" | "ruby" => ('c', "0CDEFIKMOdeilmorx"),
        "php" => ('l', ""),
        _ if is_shell(name) => ('n', "co"),
        _ => return false,
    };
    let mut options = arguments.iter().take_while(|word| word.starts_with('-'));
    options.any(|option| match option.strip_prefix("--") {
        Some(long) => matches!(long, "check" | "no-exec" | "noexec" | "syntax-check"),
        // PHP's letters stand alone, and those of its other options are values.
        None if name == "php" => *option == "-l",
        None => {
            let before = option.split_once(letter).map(|(before, _)| before);
            before.is_some_and(|before| !before.chars().any(|it| valued.contains(it)))
        }
    })
}

/// The options of an interpreter behind which no script stands, and those that have a value.
fn options(name: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "bun" | "deno" | "node" | "nodejs" | "ts-node" | "tsx" => (
            &["-e", "-p", "--eval", "--print"],
            &[
                "-C",
                "-P",
                "-r",
                "--conditions",
                "--config",
                "--env-file",
                "--experimental-loader",
                "--import",
                "--import-map",
                "--loader",
                "--preload",
                "--project",
                "--require",
                "--tsconfig",
            ],
        ),
        "php" => (&["-B", "-R", "-r"], &["-c", "-d", "-z"]),
        "ruby" => (&["-e"], &["-C", "-E", "-I", "-r"]),
        "perl" | "raku" => (&["-E", "-e"], &["-I"]),
        "lua" | "luajit" => (&[], &["-e", "-l"]),
        "julia" => (&["-E", "-e"], &["-J", "-L", "-p", "-t"]),
        "elixir" => (&["-S", "-e"], &["-pa", "-pr", "-pz", "-r", "--cookie", "--name", "--sname"]),
        "groovy" => (&["-e"], &["-cp", "--classpath", "-classpath"]),
        "ipython" => (&["-c", "-m"], &["-W", "-X", "--check-hash-based-pycs"]),
        _ => (&["-c", "-e", "--eval"], &[]),
    }
}

/// The scripts that a program reads behind an option.
pub(super) fn loaded<'a>(name: &str, arguments: &[&'a str]) -> Vec<&'a str> {
    if FILTERS.contains(&name) { options_of(arguments, FILTER_OPTIONS) } else { Vec::new() }
}
