//! Lines inside of a command: the text of `sh -c`, of `eval` and of what a shell puts in.

use super::wrappers::base_name;

/// Options of shells that have a value in the next word.
const LONG_VALUED: &[&str] = &["--init-file", "--init-command", "--rcfile"];
/// The same of PowerShell, in lower case.
const POWER_VALUED: &[&str] = &[
    "-configurationname",
    "-ep",
    "-ex",
    "-executionpolicy",
    "-inputformat",
    "-outputformat",
    "-settingsfile",
    "-version",
    "-wd",
    "-windowstyle",
    "-workingdirectory",
];

/// What a shell is given to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given<'a> {
    /// This line.
    Text(&'a str),
    /// The script at this path.
    File(&'a str),
}

/// Whether a program of this name is a shell.
pub fn is_shell(name: &str) -> bool {
    let known = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"];
    known.contains(&name) || is_power(name)
}

fn is_power(name: &str) -> bool {
    matches!(name, "pwsh" | "powershell")
}

/// What a shell of this name is given by its arguments; none where it reads its input, or is no shell.
pub fn given_to_shell<'a>(name: &str, arguments: &[&'a str]) -> Option<Given<'a>> {
    if is_power(name) {
        return given_to_power(arguments);
    }
    if !is_shell(name) {
        return None;
    }
    let (mut at, mut is_text) = (0, false);
    while let Some(word) = arguments.get(at) {
        if matches!(*word, "-" | "--") {
            at += 1;
            break;
        }
        if let Some((_, text)) = word.split_once("--command=") {
            return Some(Given::Text(text));
        }
        if word.starts_with("--") {
            is_text |= *word == "--command";
            at += if LONG_VALUED.contains(word) { 2 } else { 1 };
        } else if word.starts_with(['-', '+']) {
            is_text |= word.starts_with('-') && word.contains('c');
            // Each of these letters takes one of the next words: `-eo pipefail`.
            at += 1 + word.matches(['o', 'O']).count();
        } else {
            break;
        }
    }
    let first = arguments.get(at)?;
    Some(if is_text { Given::Text(first) } else { Given::File(first) })
}

fn given_to_power<'a>(arguments: &[&'a str]) -> Option<Given<'a>> {
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.to_ascii_lowercase().as_str() {
            "-c" | "-command" => return arguments.next().map(|text| Given::Text(text)),
            "-f" | "-file" => return arguments.next().map(|path| Given::File(path)),
            option if POWER_VALUED.contains(&option) => drop(arguments.next()),
            option if option.starts_with('-') => {}
            _ => return Some(Given::File(word)),
        }
    }
    None
}

/// The lines that a command carries out which its words spell, wrappers apart.
pub fn texts(words: &[&str]) -> Vec<String> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let name = base_name(program);
    let behind = |options: &[&str]| {
        let at = arguments.iter().position(|word| options.contains(word))?;
        arguments.get(at + 1).map(|text| (*text).to_owned())
    };
    let found = match name {
        "eval" => Some(arguments.join(" ")),
        "trap" => arguments.iter().find(|word| !word.starts_with('-')).map(|it| (*it).to_owned()),
        "env" => behind(&["-S", "--split-string"]),
        "watch" => {
            let options = arguments.iter().take_while(|word| word.starts_with('-')).count();
            arguments.get(options..).map(|words| words.join(" "))
        }
        "nix-shell" => behind(&["--run", "--command"]),
        "npx" | "npm" => behind(&["-c", "--call"]),
        "flock" | "runuser" | "script" | "su" => {
            let is_one = |word: &&str| {
                let letters = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
                letters.is_some_and(|it| it.ends_with('c')) || **word == *"--command"
            };
            let at = arguments.iter().position(is_one);
            at.and_then(|at| arguments.get(at + 1)).map(|text| (*text).to_owned())
        }
        "concurrently" | "parallel" => {
            let lines = arguments.iter().take_while(|word| !word.starts_with(":::"));
            return lines.filter(|word| word.contains(' ')).map(|it| (*it).to_owned()).collect();
        }
        _ => match given_to_shell(name, arguments) {
            Some(Given::Text(text)) => Some(text.to_owned()),
            Some(Given::File(_)) | None => None,
        },
    };
    found.into_iter().collect()
}

/// The lines that a shell carries out inside a word.
pub fn substitutions(word: &str) -> Vec<&str> {
    if word.contains('`') {
        return word.split('`').skip(1).step_by(2).collect();
    }
    let mut found = Vec::new();
    let mut rest = word;
    while let Some((_, after)) = rest.split_once("$(") {
        let mut depth = 1_u32;
        let end = after.char_indices().find(|(_, letter)| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let (inner, behind) = after.split_at(end.map_or(after.len(), |(at, _)| at));
        found.push(inner);
        rest = behind;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_carries_out_a_text_or_a_script() {
        use Given::{File, Text};
        for (line, expected) in [
            ("sh a.sh -c x", Some(File("a.sh"))),
            ("sh -c text a", Some(Text("text"))),
            ("bash -eo pipefail a.sh", Some(File("a.sh"))),
            ("bash -o errexit -O extglob a.sh", Some(File("a.sh"))),
            ("bash -euo pipefail -c text", Some(Text("text"))),
            ("bash +x --rcfile rc a.sh", Some(File("a.sh"))),
            ("bash --norc -lc text", Some(Text("text"))),
            ("bash -- a.sh", Some(File("a.sh"))),
            ("fish --command=text", Some(Text("text"))),
            ("pwsh -NoProfile -ExecutionPolicy Bypass -File a.ps1", Some(File("a.ps1"))),
            ("pwsh -Command text", Some(Text("text"))),
            ("sh -x", None),
            ("node -c a", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(given_to_shell(words[0], &words[1..]), expected, "{line}");
        }
    }

    #[test]
    fn the_texts_of_a_command_are_lines() {
        for (words, expected) in [
            (&["eval", "./a.sh", "x"][..], &["./a.sh x"][..]),
            (&["trap", "./a.sh", "EXIT"], &["./a.sh"]),
            (&["env", "-S", "python3 a.py"], &["python3 a.py"]),
            (&["script", "-qec", "./a.sh", "log"], &["./a.sh"]),
            (&["nix-shell", "--run", "./a.sh"], &["./a.sh"]),
            (&["bash", "-c", "./a.sh"], &["./a.sh"]),
            (&["python3", "-c", "x"], &[]),
        ] {
            assert_eq!(texts(words), expected, "{words:?}");
        }
        assert_eq!(substitutions("x`./a.sh`y"), ["./a.sh"]);
        assert_eq!(substitutions("x$(./a.sh $(b))y"), ["./a.sh $(b)"]);
    }
}
