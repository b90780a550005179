//! The text of a script of a shell with what it writes for its own folder, and for constants, in place.
//!
//! ```text
//!   DIR="$(cd "$(dirname "$0")" && pwd)"; . "$DIR/common.sh"   -->   . "scripts/common.sh"
//! ```

/// How a script names itself.
const SELVES: &[&str] = &[
    "\"${BASH_SOURCE[0]}\"",
    "\"${BASH_SOURCE}\"",
    "\"$BASH_SOURCE\"",
    "\"${0}\"",
    "\"$0\"",
    "${BASH_SOURCE[0]}",
    "$BASH_SOURCE",
    "$0",
];
/// Programs that only resolve what links of a path lead to.
const RESOLVING: &[&str] = &["readlink -f ", "readlink -e ", "realpath "];
/// How it names the root of a repository.
const ROOTS: &[&str] =
    &["\"$(git rev-parse --show-toplevel)\"", "$(git rev-parse --show-toplevel)"];
/// How it names its folder, where it cuts its own name.
const CUT: &[&str] = &["${0%/*}", "${BASH_SOURCE%/*}", "${BASH_SOURCE[0]%/*}"];
/// The most constants of a script that are put in place.
const MAX_CONSTANTS: usize = 64;

/// The lines of a script that lies in this folder, seen from where it runs. Lines that go on are joined, and comments
/// left out.
pub(super) fn script_lines(text: &str, folder: &str) -> Vec<String> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    let folder = if folder.is_empty() { "." } else { folder };
    lines.iter_mut().for_each(|line| *line = with_folder(line, folder));
    let mut constants: Vec<(String, String)> = Vec::new();
    for line in &mut lines {
        for (name, value) in &constants {
            *line = line.replace(&format!("${{{name}}}"), value);
            *line = with_name(line, name, value);
        }
        if let Some((name, value)) = assignment(line) {
            constants.retain(|(known, _)| *known != name);
            if constants.len() < MAX_CONSTANTS {
                constants.extend(value.map(|value| (name, value)));
            }
        }
    }
    lines
}

/// A line with the folder of its script in the place of each expression for it.
fn with_folder(line: &str, folder: &str) -> String {
    let mut line = line.to_owned();
    for root in ROOTS {
        line = line.replace(root, ".");
    }
    for (own, program) in SELVES.iter().flat_map(|own| RESOLVING.iter().map(move |it| (own, it))) {
        line = line.replace(&format!("\"$({program}{own})\""), "$0");
        line = line.replace(&format!("$({program}{own})"), "$0");
    }
    for own in SELVES {
        for program in ["dirname ", "dirname -- "] {
            line = line.replace(&format!("$({program}{own})"), folder);
            line = line.replace(&format!("`{program}{own}`"), folder);
        }
    }
    for cut in CUT {
        line = line.replace(cut, folder);
    }
    // Where a substitution only asks for the whole path of a folder.
    while let Some(from) = line.find("$(cd ") {
        let (before, inside) = line.split_at(from);
        let Some((inside, rest)) = inside.split_at(5).1.split_once("pwd") else { break };
        let rest = rest.trim_start_matches(" -P");
        let mut words = inside.split_whitespace().filter(|word| !word.starts_with('-'));
        let Some((to, rest)) = words.next().zip(rest.strip_prefix(')')) else { break };
        line = format!("{before}{}{rest}", to.trim_matches(['"', ';']));
    }
    line
}

/// A line with the value of a constant in the place of its name without braces.
fn with_name(line: &str, name: &str, value: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mark = format!("${name}");
    while let Some(at) = rest.find(&mark) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        rest = after.get(mark.len()..).unwrap_or_default();
        let goes_on = rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        out.push_str(if goes_on { &mark } else { value });
    }
    out + rest
}

/// The name that a line sets, and its value where that is a path.
fn assignment(line: &str) -> Option<(String, Option<String>)> {
    let words = ["export ", "readonly ", "local ", "declare -r "];
    let line = line.trim().trim_end_matches(';');
    let line = words.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let value = value.trim_matches('"').trim_matches('\'');
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let is_path = !value.is_empty() && value.chars().all(is_of_path);
    is_name.then(|| (name.to_owned(), is_path.then(|| value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::script_lines;

    #[test]
    fn a_scripts_own_folder_and_its_constants_are_put_in_place() {
        for (text, expected) in [
            ("# x\n. \"$(dirname \"$0\")/common.sh\"", ". \"scripts/common.sh\""),
            (". `dirname $0`/common.sh", ". scripts/common.sh"),
            ("cd \"$(dirname \"${BASH_SOURCE[0]}\")/..\"", "cd \"scripts/..\""),
            ("sh ${0%/*}/a.sh", "sh scripts/a.sh"),
            (". \"$(dirname \"$(readlink -f \"$0\")\")/a.sh\"", ". \"scripts/a.sh\""),
            ("R=$(git rev-parse --show-toplevel)\n. \"$R/a.sh\"", "R=.\n. \"./a.sh\""),
            (
                "D=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\npython3 \"$D/check.py\" $DIR",
                "D=\"scripts\"\npython3 \"scripts/check.py\" $DIR",
            ),
            (
                "ROOT=$(cd -P -- \"$(dirname -- \"$0\")/..\" && pwd -P)\nLIB=${ROOT}/lib\n. $LIB/a.sh",
                "ROOT=scripts/..\nLIB=scripts/../lib\n. scripts/../lib/a.sh",
            ),
            (
                "A=x\nsh $A/b.sh\nA=$(y \"$0\")\nsh $A/b.sh",
                "A=x\nsh x/b.sh\nA=$(y \"$0\")\nsh $A/b.sh",
            ),
            ("D=$(cd $(dirname $0) >/dev/null 2>&1; pwd)", "D=scripts"),
            ("HERE=$1\nsh \"$HERE/a.sh\"", "HERE=$1\nsh \"$HERE/a.sh\""),
            ("sh \\\n  a.sh", "sh    a.sh"),
        ] {
            assert_eq!(script_lines(text, "scripts").join("\n"), expected, "{text}");
        }
        assert_eq!(script_lines(". \"$(dirname \"$0\")/a.sh\"", ""), [". \"./a.sh\""]);
    }
}
