//! Files that are found in the place of a standard module, of a library of tests or of a program.

use super::interpreter::started;
use super::language::{extension, language_of};
use super::origins::is_library_of_java;
use super::visits::{Visits, join};
use crate::domain::shell_line::{base_name, is_python};
use std::collections::BTreeSet;

/// Modules of Python's standard library and of its runners, without names that programs use for themselves.
const MODULES: &str = "__future__ _pytest abc aifc argparse ast asynchat asyncio asyncore atexit audioop base64 \
     bdb binascii bisect builtins bz2 cProfile cgitb cmath codecs codeop collections \
     compileall contextlib contextvars copy copyreg csv ctypes curses dataclasses datetime \
     dbm decimal difflib dis doctest encodings enum errno faulthandler fcntl filecmp \
     fileinput fnmatch fractions ftplib functools gc genericpath getopt gettext glob gzip \
     hashlib heapq hmac hypothesis imaplib importlib iniconfig inspect io itertools json \
     keyword linecache locale logging lzma marshal math mimetypes mmap modulefinder nntplib \
     nose nose2 ntpath nturl2path numpy opcode operator optparse os pathlib pdb pickle \
     pickletools pkgutil plistlib pluggy poplib posix posixpath pprint pstats py_compile \
     pyclbr pydoc pyexpat pytest quopri random re reprlib rlcompleter runpy shlex shutil \
     signal site sitecustomize smtpd smtplib socket socketserver sqlite3 sre_compile \
     sre_constants sre_parse ssl stat string stringprep struct subprocess sys sysconfig \
     tabnanny tempfile termios textwrap threading time timeit tokenize tomllib trace \
     traceback tracemalloc types typing unicodedata unittest urllib usercustomize warnings \
     weakref wsgiref xmlrpc zipimport zlib zoneinfo";

/// Modules of the standard library whose names programs use for themselves: such a file is a shadow only
/// where a file of the start meant the module.
const COMMON_MODULES: &str = "antigravity array calendar cgi chunk cmd code colorsys concurrent configparser crypt \
     email getpass graphlib grp html http imghdr imp ipaddress mailbox mailcap msilib \
     multiprocessing netrc nis nt numbers pipes platform profile pty pwd queue \
     readline resource sched secrets select selectors shelve sndhdr spwd statistics sunau \
     symtable syslog tarfile test this token tty turtle uu uuid venv wave \
     webbrowser xml zipapp zipfile";

/// Extensions of what is made from one source and is taken in its place, with the languages of such sources.
const MADE: &[(&[&str], &[&str])] = &[
    (&["gch", "obj", "pch"], &["c"]),
    (&["lo", "o"], &["c", "go", "haskell", "rust", "swift", "zig"]),
    (&["pyc", "pyo"], &["python"]),
];

/// Programs that checks start by their bare names.
const PROGRAMS: &str = "bash bun cargo cat cmake ctest deno diff dotnet env git go gradle grep jest just make mocha mvn \
     ninja node npm npx nox phpunit pnpm pytest python python3 rake rspec ruby rustc sh test tox tsc uv \
     vitest yarn";
/// Programs of the system that scripts of checks call by their bare names, and that are no names of a project's own tools.
const SYSTEM_PROGRAMS: &str = "awk basename bash cat cmp comm curl cut diff dirname egrep env expr fgrep find gawk git grep \
     head jq ls make mktemp node npm npx perl php printf python python3 readlink realpath ruby sed seq sha1sum sha256sum \
     sh sort stat tail tee timeout tr uniq wc wget xargs";
/// Folders, beside the root, that are put in front of Python's own: those of products without a package.
const PYTHON_ROOTS: &[&str] = &["", "src", "lib", "python"];

/// Whether a path shadows a module or a program. Python finds modules in the folder that it is started in
/// before its own; elsewhere such a name may be a part of a package.
pub(super) fn shadows(folders: &str, lower: &str) -> bool {
    let module = module_file(lower);
    let is_module = |module: &str| has(MODULES, module);
    let always = |module: &str| matches!(module, "sitecustomize" | "usercustomize");
    if module.is_some_and(|module| always(module) || folders.is_empty() && is_module(module)) {
        return true;
    }
    let first = folders.split('/').next().unwrap_or_default();
    // Without this file the folder is found after the library's own module.
    let in_package = module == Some("__init__") && folders == first && is_module(first);
    let is_metadata =
        |folder: &str| [".dist-info", ".egg-info"].iter().any(|end| folder.ends_with(end));
    in_package
        || folders.split('/').any(is_metadata)
        || lower.ends_with(".pth")
        // What Java loads for its tests by itself.
        || folders.ends_with("META-INF/services") && is_library_of_java(lower)
        || (matches!(folders, "" | "bin" | "vendor/bin") || folders.ends_with("node_modules/.bin"))
            && has(PROGRAMS, lower)
}

/// Headers of C's standard library and of its tests, in whose place a compiler takes one that it finds by `-I`.
const HEADERS: &str = "assert.h ctype.h errno.h float.h inttypes.h limits.h math.h setjmp.h signal.h stdarg.h stdbool.h \
     stddef.h stdint.h stdio.h stdlib.h string.h time.h unistd.h";
/// Classes of `java.lang` by which tests compare and fail: one without a package comes before them.
const CLASSES: &str = "AssertionError Boolean Double Error Exception Float Integer Long Math Object RuntimeException \
     StrictMath String System Thread Throwable";
/// The folders of sources of Java that are in no package.
const WITHOUT_PACKAGE: &[&str] = &["", "src", "src/main/java", "src/main/kotlin"];

/// The folders, beside the root, in which Python looks for modules before its own: those of the scripts that a line
/// starts, those that it starts Python in, and those of `PYTHONPATH`.
pub(super) fn python_folders(line: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for visit in Visits::of(line, root).commands {
        let named = visit.all.iter().filter_map(|word| word.strip_prefix("PYTHONPATH="));
        let named = named.flat_map(|folders| folders.split(':'));
        found.extend(named.map(|folder| join(root, &visit.folder, folder)));
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let Some((program, arguments)) = words.split_first() else { continue };
        let name = base_name(program).to_ascii_lowercase();
        if !is_python(&name) {
            continue;
        }
        let script = started(&name, arguments, &visit.input);
        let script = script.map(|script| join(root, &visit.folder, script));
        found.insert(match script {
            Some(script) => {
                script.rsplit_once('/').map_or_else(String::new, |(it, _)| it.to_owned())
            }
            None => visit.folder.clone(),
        });
    }
    found.retain(|folder| !folder.is_empty());
    found
}

/// What a compiler of C or Java has for itself, of which a test makes use.
pub(super) fn compilers_own_in<'t>(
    path: &str,
    text: &'t str,
) -> impl Iterator<Item = &'static str> + 't {
    let (names, is_header) = match language_of(path) {
        Some("c") => (HEADERS, true),
        Some("jvm") => (CLASSES, false),
        Some(_) | None => ("", false),
    };
    let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    names.split_ascii_whitespace().filter(move |name| {
        text.match_indices(*name).any(|(at, name)| {
            let before = text.get(..at).unwrap_or_default();
            let after = text.get(at + name.len()..).unwrap_or_default();
            match is_header {
                true => before.ends_with('<'),
                false => !before.ends_with(is_of_name) && !after.starts_with(is_of_name),
            }
        })
    })
}

/// The header or the class that an added file is in the place of what a compiler of C or Java has for itself. A project
/// that is such a library has others beside it. A class comes before that of Java for the sources of its own package:
/// `has_tests` says whether one has tests, by the last name of its folder.
pub(super) fn compilers_own(
    path: &str,
    was_there: impl Fn(&str) -> bool,
    has_tests: impl Fn(&str) -> bool,
) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let beside = |name: &str| match folder {
        "" => was_there(name),
        folder => was_there(&format!("{folder}/{name}")),
    };
    if has(HEADERS, name) {
        let is_library = HEADERS.split_ascii_whitespace().any(beside);
        return (!is_library).then_some(name);
    }
    let class = name.strip_suffix(".java").or_else(|| name.strip_suffix(".kt"));
    let package = folder.rsplit('/').next().unwrap_or_default();
    let is_before = || WITHOUT_PACKAGE.contains(&folder) || has_tests(package);
    class.filter(|class| has(CLASSES, class) && is_before())
}

/// Whether an added program has the name of one of the system, wherever it lies: a script may put its folder in front.
pub(super) fn is_system_program(path: &str) -> bool {
    has(SYSTEM_PROGRAMS, path.rsplit('/').next().unwrap_or(path))
}

/// The languages of the sources from which such a file is made, and in whose place it is taken: from them it is made
/// again.
pub(super) fn made_from(path: &str) -> Option<&'static [&'static str]> {
    let extension = extension(path.rsplit('/').next().unwrap_or(path))?.to_ascii_lowercase();
    let is_one = |(made, _): &&(&[&str], &[&str])| made.contains(&extension.as_str());
    MADE.iter().find(is_one).map(|(_, languages)| *languages)
}

/// The source that a file below `__pycache__` is the byte code of; none for any other file.
pub fn source_of_byte_code(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once("__pycache__/")?;
    let is_one = !name.contains('/') && (name.ends_with(".pyc") || name.ends_with(".pyo"));
    let (module, _) = name.split_once('.').filter(|_| is_one)?;
    Some(format!("{folder}{module}.py"))
}

/// Whether an added file is a compiled module that Python takes before the source of that name: byte code beside the
/// sources, and a library where the start has the source.
pub(super) fn is_before_source(path: &str, was_there: impl Fn(&str) -> bool) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".pyc") || lower.ends_with(".pyo") {
        // Python takes byte code without its source from there alone.
        return !folders.split('/').any(|folder| folder == "__pycache__");
    }
    if !lower.ends_with(".so") && !lower.ends_with(".pyd") {
        return false;
    }
    let module = name.split_once('.').map_or(name, |(module, _)| module);
    let place = match (folders, module) {
        (folders, "__init__") => folders.to_owned(),
        ("", module) => module.to_owned(),
        (folders, module) => format!("{folders}/{module}"),
    };
    was_there(&format!("{place}.py")) || was_there(&format!("{place}/__init__.py"))
}

/// Whether a file of the start that shadows a module is a product: only an added one takes the place of what the start
/// meant. What Python loads for every program stays a part of the check.
pub(super) fn is_own_module(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let module = match module_file(&name.to_ascii_lowercase()) {
        Some("__init__") => folders.to_owned(),
        Some(module) if folders.is_empty() => module.to_owned(),
        Some(_) | None => return false,
    };
    has(MODULES, &module) && !matches!(module.as_str(), "sitecustomize" | "usercustomize")
}

/// Whether a folder of products is itself a package: then its files are no modules that Python finds by their names.
pub(super) fn is_inside_package(path: &str, was_there: impl Fn(&str) -> bool) -> bool {
    let root = path.split_once('/').map(|(root, _)| root);
    root.is_some_and(|root| {
        PYTHON_ROOTS.contains(&root) && was_there(&format!("{root}/__init__.py"))
    })
}

/// The standard module that an added file takes the place of, where its name or its folder is one that
/// programs use for themselves too.
pub(super) fn module_in_place(path: &str) -> Option<&str> {
    let known = |module: &str| has(COMMON_MODULES, module) || has(MODULES, module);
    modules_of(path).find(|(_, module)| known(module)).map(|(_, module)| module)
}

/// The standard module that an added file takes the place of where Python looks in this folder first, and whether
/// programs use its name for themselves too.
pub(super) fn module_in_folder<'p>(path: &'p str, folder: &str) -> Option<(&'p str, bool)> {
    let module = module_from(folder, path)?;
    let is_common = has(COMMON_MODULES, module);
    (is_common || has(MODULES, module)).then_some((module, is_common))
}

/// The place, without an extension, of a module of Python that an added file is a part of, where its name is one of
/// these.
pub(super) fn python_place(path: &str, is_one: impl Fn(&str) -> bool) -> Option<String> {
    let (root, module) = modules_of(path).find(|(_, module)| is_one(module))?;
    Some(if root.is_empty() { module.to_owned() } else { format!("{root}/{module}") })
}

/// The modules that a file may be a part of, each with the folder that it is found from.
fn modules_of(path: &str) -> impl Iterator<Item = (&'static str, &str)> {
    PYTHON_ROOTS.iter().filter_map(move |root| Some((*root, module_from(root, path)?)))
}

/// The module that a file may be a part of where Python finds it from this folder.
fn module_from<'p>(root: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(root)?;
    let rest = if root.is_empty() { rest } else { rest.strip_prefix('/')? };
    match rest.split_once('/') {
        Some((package, inside)) => inside.ends_with(".py").then_some(package),
        None => module_file(rest),
    }
}

/// The place of a library of tests that an added source of Java, PHP or Ruby is a part of, by the folders that such a
/// program looks for it in.
pub(super) fn library_place(path: &str) -> Option<String> {
    let language = language_of(path)?;
    let places: &[&str] = match language {
        "jvm" => &[
            "com/google/common/truth",
            "io/kotest",
            "junit/framework",
            "kotlin/test",
            "org/assertj",
            "org/hamcrest",
            "org/junit",
            "org/mockito",
            "org/spockframework",
            "org/testng",
        ],
        "php" => &["Mockery", "PHPUnit", "Prophecy"],
        "ruby" => &["lib/cucumber", "lib/minitest", "lib/rspec", "lib/shoulda", "lib/test/unit"],
        _ => return None,
    };
    places.iter().find_map(|place| {
        let at = path.match_indices(place).map(|(at, _)| at).find(|at| {
            let before = path.get(..*at).unwrap_or_default();
            let after = path.get(at + place.len()..).unwrap_or_default();
            (before.is_empty() || before.ends_with('/')) && after.starts_with(['/', '.'])
        })?;
        path.get(..at + place.len()).map(str::to_owned)
    })
}

/// Whether a name is one of a module that [`module_in_place`] knows.
pub(super) fn is_standard_module(name: &str) -> bool {
    has(COMMON_MODULES, name) || has(MODULES, name)
}

/// The module that a file is by its name.
fn module_file(name: &str) -> Option<&str> {
    let module = [".py", ".pyc", ".so"].iter().find_map(|end| name.strip_suffix(end))?;
    module.split('.').next()
}

fn has(words: &str, wanted: &str) -> bool {
    words.split_ascii_whitespace().any(|word| word == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_looks_for_modules_first_in_the_folders_of_a_line() {
        for (line, expected) in [
            ("python3 scripts/check.py", &["scripts"][..]),
            ("cd backend && python3 -m unittest", &["backend"]),
            ("cd backend && python3 ../scripts/check.py", &["scripts"]),
            ("PYTHONPATH=src:tests/support python3 -m unittest", &["src", "tests/support"]),
            ("python3 check.py", &[]),
            ("node scripts/check.js", &[]),
        ] {
            let found: Vec<String> = python_folders(line, "").into_iter().collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_library_of_headers_may_have_another_one() {
        let was_there = |path: &str| path == "libc/stdio.h";
        let has_tests = |package: &str| package == "app";
        for (path, expected) in [
            ("src/math.h", Some("math.h")),
            ("libc/math.h", None),
            ("src/Error.java", Some("Error")),
            ("src/app/Error.java", Some("Error")),
            ("src/web/Error.java", None),
            ("src/app/Failure.java", None),
        ] {
            assert_eq!(compilers_own(path, was_there, has_tests), expected, "{path}");
        }
        for (path, text, expected) in [
            ("tests/a.c", "#include <math.h>\n#include \"time.h\"\n", &["math.h"][..]),
            ("ATest.java", "assert Math.abs(x) < 1;", &["Math"]),
            ("ATest.java", "throw new AssertionError(1);", &["AssertionError"]),
            ("test_a.py", "Math <math.h>", &[]),
        ] {
            assert_eq!(compilers_own_in(path, text).collect::<Vec<_>>(), expected, "{path}");
        }
        assert_eq!(module_in_folder("scripts/difflib.py", "scripts"), Some(("difflib", false)));
        assert_eq!(module_in_folder("b/statistics/a.py", "b"), Some(("statistics", true)));
        assert_eq!(module_in_folder("scripts/own.py", "scripts"), None);
        assert_eq!(module_in_folder("scripts/difflib.py", "b"), None);
    }
}
