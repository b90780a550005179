//! Programs that start the program behind their own options: `env A=1`, `timeout 60`, `uv run`.

use super::segment::is_assignment;

/// Programs that take nothing but their own options in front of the program.
const PLAIN: &[&str] = &[
    "builtin",
    "busybox",
    "caffeinate",
    "catchsegv",
    "chronic",
    "command",
    "dbus-run-session",
    "eatmydata",
    "exec",
    "fakeroot",
    "firejail",
    "ionice",
    "linux32",
    "linux64",
    "nice",
    "nohup",
    "setsid",
    "stdbuf",
    "strace",
    "time",
    "unbuffer",
    "unshare",
    "winpty",
    "xvfb-run",
];
/// Options of these that have a value.
const VALUED: &[&str] = &[
    "--adjustment",
    "--auth-file",
    "--class",
    "--classdata",
    "--error",
    "--error-file",
    "--input",
    "--output",
    "--server-args",
    "--server-num",
    "-a",
    "-c",
    "-e",
    "-f",
    "-i",
    "-n",
    "-o",
    "-p",
    "-s",
    "-t",
    "-w",
];
/// Of these options, those that are flags of some programs.
const FLAGS: &[(&str, &[&str])] = &[
    ("builtin", VALUED),
    ("caffeinate", &["-i", "-s"]),
    ("command", VALUED),
    ("exec", &["-c"]),
    ("setsid", VALUED),
    ("strace", &["-c", "-f", "-i", "-n", "-t", "-w"]),
    ("time", &["-a", "-p"]),
    ("unshare", VALUED),
    ("xvfb-run", &["-a"]),
];
/// Programs that take one word of their own behind their options: a duration, a user, a folder.
const WITH_WORD: &[&str] =
    &["chrt", "faketime", "flock", "gosu", "setarch", "su-exec", "taskset", "timeout"];
/// Tools whose `run` starts a program in the environment of a project.
const RUNNING: &[&str] = &[
    "conda",
    "hatch",
    "mamba",
    "micromamba",
    "pdm",
    "pipenv",
    "pixi",
    "poetry",
    "rye",
    "uv",
    "volta",
];
/// Tools whose `exec` does.
const EXECUTING: &[&str] = &["asdf", "bundle", "mise", "nodenv", "pyenv", "rbenv", "rtx"];

/// Options of `xargs` that have a value.
const XARGS_VALUED: &[&str] = &["-E", "-I", "-L", "-P", "-a", "-d", "-n", "-s"];

/// Options with a value of programs that measure the coverage of a program in JavaScript.
const COVERAGE_VALUED: &[&str] = &[
    "--branches",
    "--config",
    "--cwd",
    "--exclude",
    "--extension",
    "--functions",
    "--include",
    "--lines",
    "--nycrc-path",
    "--report-dir",
    "--reporter",
    "--reports-dir",
    "--require",
    "--src",
    "--statements",
    "--temp-dir",
    "--temp-directory",
    "-c",
    "-e",
    "-i",
    "-n",
    "-o",
    "-r",
    "-x",
];

/// The name of a program without the folders above it.
pub fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// Whether a program of this name is Python.
pub fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    name == "py" || version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// A command without what only prepares it.
pub fn unwrapped<'w, 'a>(mut words: &'w [&'a str]) -> &'w [&'a str] {
    // Each round takes at least one word off.
    while let Some((program, rest)) = words.split_first() {
        let Some(taken) = own_words(base_name(program), rest) else { return words };
        words = rest.get(taken..).unwrap_or_default();
    }
    words
}

/// The folder in which what stands in front of a program starts it.
pub fn folder_of_wrapper<'a>(words: &[&'a str]) -> Option<&'a str> {
    const OPTIONS: &[&str] = &["--chdir", "--directory", "--project-directory", "-C", "-D"];
    let own = words.len() - unwrapped(words).len();
    let mut wrapper = words.get(..own)?.iter();
    while let Some(word) = wrapper.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (*word, None),
        };
        if OPTIONS.contains(&option) {
            return value.or_else(|| wrapper.next().copied());
        }
    }
    None
}

/// How many words behind a wrapper are its own; none where it is no wrapper.
fn own_words(name: &str, rest: &[&str]) -> Option<usize> {
    let first = rest.first().copied().unwrap_or_default();
    let behind = |valued: &[&str]| 1 + options(rest.get(1..).unwrap_or_default(), valued, false);
    Some(match name {
        // It only says where a program is.
        "command" if matches!(first, "-v" | "-V") => return None,
        "env" | "cross-env" | "sudo" | "doas" => {
            const OWN: &[&str] = &[
                "--chdir", "--group", "--unset", "--user", "-C", "-D", "-S", "-U", "-g", "-h",
                "-p", "-u",
            ];
            options(rest, OWN, true)
        }
        _ if PLAIN.contains(&name) => {
            let flags = FLAGS.iter().find(|(known, _)| *known == name).map_or(&[][..], |it| it.1);
            let valued: Vec<&str> =
                VALUED.iter().copied().filter(|option| !flags.contains(option)).collect();
            options(rest, &valued, false)
        }
        _ if WITH_WORD.contains(&name) => {
            const OWN: &[&str] = &["--kill-after", "--signal", "--timeout", "-E", "-k", "-s", "-w"];
            options(rest, OWN, false) + 1
        }
        "c8" | "nyc" => options(rest, COVERAGE_VALUED, false),
        "npx" | "bunx" | "pnpx" => options(rest, &["-p", "--package"], false),
        "npm" | "pnpm" | "yarn" | "bun" if matches!(first, "exec" | "dlx" | "x") => {
            behind(&["--package"])
        }
        _ if RUNNING.contains(&name) && first == "run" => behind(&[
            "--cwd",
            "--directory",
            "--env-file",
            "--environment",
            "--extra",
            "--group",
            "--name",
            "--package",
            "--prefix",
            "--project",
            "--python",
            "--with",
            "--with-editable",
            "--with-requirements",
            "-e",
            "-n",
            "-p",
        ]),
        "direnv" if first == "exec" => behind(&[]) + 1,
        _ if EXECUTING.contains(&name) && matches!(first, "exec" | "x") => {
            let end = rest.iter().position(|word| *word == "--");
            end.map_or_else(|| behind(&[]), |at| at + 1)
        }
        _ => return None,
    })
}

/// The command that a program starts for each of the files that it finds or is given.
pub fn started_by<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let until = |end: &[&str], rest: &[&'a str]| -> Vec<&'a str> {
        rest.iter().copied().take_while(|word| !end.contains(word)).collect()
    };
    match base_name(program) {
        "xargs" => {
            let at = options(arguments, XARGS_VALUED, false);
            arguments.get(at..).unwrap_or_default().to_vec()
        }
        "parallel" => {
            let at = options(arguments, &["-j", "-n"], false);
            until(&[":::", "::::"], arguments.get(at..).unwrap_or_default())
        }
        "find" => {
            let is_start = |word: &&str| ["-exec", "-execdir", "-ok", "-okdir"].contains(word);
            let at = arguments.iter().position(is_start);
            at.map_or_else(Vec::new, |at| {
                until(&[";", "+"], arguments.get(at + 1..).unwrap_or_default())
            })
        }
        "nix" => {
            let at = arguments.iter().position(|word| matches!(*word, "-c" | "--command"));
            at.and_then(|at| arguments.get(at + 1..)).unwrap_or_default().to_vec()
        }
        _ => Vec::new(),
    }
}

/// How many words at the front are options, values of options that have one, or assignments.
pub fn options(words: &[&str], valued: &[&str], assignments: bool) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if *word == "--" {
            return at + 1;
        }
        let option = word.starts_with('-') || assignments && is_assignment(word);
        if !option {
            break;
        }
        at += if valued.contains(word) { 2 } else { 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_prepares_a_program_is_taken_off() {
        for (line, expected) in [
            ("env -u A B=1 timeout -s KILL 60 nice -n 5 ./a.sh x", "./a.sh x"),
            ("/usr/bin/env python3 a.py", "python3 a.py"),
            ("timeout --signal KILL 60 ./a.sh", "./a.sh"),
            ("time -p ./a.sh", "./a.sh"),
            ("exec -a name ./a.sh", "./a.sh"),
            ("command ./a.sh", "./a.sh"),
            ("command -v a", "command -v a"),
            ("xvfb-run -a -s '-screen' ./a.sh", "./a.sh"),
            ("stdbuf -oL ./a.sh", "./a.sh"),
            ("ionice -c 3 ./a.sh", "./a.sh"),
            ("uv run --with x a.py", "a.py"),
            ("conda run -n env python a.py", "python a.py"),
            ("poetry run python a.py", "python a.py"),
            ("poetry check", "poetry check"),
            ("mise exec node@20 -- node a.js", "node a.js"),
            ("bundle exec ruby a.rb", "ruby a.rb"),
            ("npx --no-install tsx a.ts", "tsx a.ts"),
            ("c8 --100 -r lcov node --test", "node --test"),
            ("npx nyc --reporter text mocha", "mocha"),
            ("flock -w 5 lock ./a.sh", "./a.sh"),
            ("python3 a.py", "python3 a.py"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(unwrapped(&words).join(" "), expected, "{line}");
        }
    }
}
