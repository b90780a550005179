//! The files that a command lists for another one, as paths and globs.

use super::wrappers::base_name;

/// What a command writes out as names of files; nothing where that is not known.
///
/// A glob stands for what a shell or `find` makes of it. `ls` of a folder without a glob writes names without their folder.
pub fn listed(words: &[&str]) -> Vec<String> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let operands = arguments.iter().copied().filter(|word| !word.starts_with('-'));
    let owned = |word: &str| word.to_owned();
    match (base_name(program), arguments) {
        ("find", _) => found(arguments),
        ("ls", _) => {
            let is_file = |word: &str| word.contains(['*', '?']) || word.contains('.');
            let mut names: Vec<String> =
                operands.map(|word| if is_file(word) { word } else { "*" }.to_owned()).collect();
            if names.is_empty() {
                names.push("*".to_owned());
            }
            names
        }
        ("echo", _) => operands.map(owned).collect(),
        ("printf", _) => operands.skip(1).map(owned).collect(),
        ("git", ["ls-files", rest @ ..]) => {
            rest.iter().filter(|word| !word.starts_with('-')).map(|word| owned(word)).collect()
        }
        _ => Vec::new(),
    }
}

/// The globs of what `find` finds.
fn found(arguments: &[&str]) -> Vec<String> {
    let folders = arguments.iter().take_while(|word| !word.starts_with(['-', '(', '!']));
    let folders: Vec<&str> = folders.copied().collect();
    let names = arguments.iter().zip(arguments.iter().skip(1));
    let names: Vec<&str> =
        names.filter(|(option, _)| **option == "-name").map(|(_, name)| *name).collect();
    let folders = if folders.is_empty() { vec!["."] } else { folders };
    let names = if names.is_empty() { vec!["*"] } else { names };
    let in_folder = |folder: &&str| {
        let folder = folder.trim_end_matches('/').to_owned();
        names.iter().map(move |name| format!("{folder}/**/{name}")).collect::<Vec<_>>()
    };
    folders.iter().flat_map(in_folder).collect()
}
