//! How Node finds the script that a line names.

/// The files that a name may mean to Node: itself, with its extension, and what a folder is started by.
pub fn names_of_node(script: &str) -> Vec<String> {
    let script = script.trim_end_matches('/');
    let name = script.rsplit('/').next().unwrap_or(script);
    let mut names = vec![script.to_owned()];
    if !name.contains('.') {
        names.extend([format!("{script}.js"), format!("{script}/index.js")]);
    }
    names
}
