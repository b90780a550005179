//! Other names of tools, which drivers know from elsewhere. A name is resolved once, before a decision is
//! validated: everything after it, from the journal to the policy, sees the tool's own name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::problem::{Warning, WarningCode};

/// The aliases of every executor: of tools that only read.
const BUILTIN: [(&str, &str); 7] = [
    ("find_definition", "find_symbol"),
    ("find_files", "glob"),
    ("find_references", "find_symbol"),
    ("go_to_definition", "find_symbol"),
    ("ls", "list_dir"),
    ("search", "grep"),
    ("view", "read_file"),
];

/// Why the aliases of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AliasError {
    /// The name of a tool cannot stand for another.
    #[error("--executor-tool-aliases: {0:?} is the name of a tool; choose another alias")]
    IsTool(String),
    /// An alias stands for no tool.
    #[error(
        "--executor-tool-aliases: {alias:?} stands for {tool:?}, which is no tool; name one that ListTools shows"
    )]
    OfNothing {
        /// The alias.
        alias: String,
        /// What it stands for.
        tool: String,
    },
}

/// Names of tools by their aliases.
#[derive(Debug, Clone, Default)]
pub(super) struct Aliases(BTreeMap<String, String>);

impl Aliases {
    /// The built-in aliases, and those of the operator, `alias=tool` separated by commas. One of the operator
    /// replaces a built-in one.
    ///
    /// # Errors
    /// [`AliasError`] for the name of a tool as an alias, and for the alias of no tool.
    pub(super) fn new(
        configured: Option<&str>,
        is_tool: impl Fn(&str) -> bool,
    ) -> Result<Self, AliasError> {
        let builtin = BUILTIN.map(|(alias, tool)| (alias.to_owned(), tool.to_owned()));
        let mut aliases = BTreeMap::from(builtin);
        for pair in configured.unwrap_or_default().split(',').filter(|pair| !pair.trim().is_empty())
        {
            let (alias, tool) = pair.split_once('=').unwrap_or((pair, ""));
            let (alias, tool) = (alias.trim(), tool.trim());
            if is_tool(alias) {
                return Err(AliasError::IsTool(alias.to_owned()));
            }
            if !is_tool(tool) {
                let (alias, tool) = (alias.to_owned(), tool.to_owned());
                return Err(AliasError::OfNothing { alias, tool });
            }
            aliases.insert(alias.to_owned(), tool.to_owned());
        }
        Ok(Self(aliases))
    }

    /// The tool that a name stands for: the name itself unless it is an alias.
    pub(super) fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }

    /// The aliases of a tool, sorted.
    pub(super) fn of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(_, named)| *named == tool).map(|(alias, _)| alias.as_str())
    }

    /// The same names without aliases.
    pub(super) fn resolve_all<'a>(&self, names: &'a [String]) -> Cow<'a, [String]> {
        if names.iter().any(|name| self.0.contains_key(name)) {
            names.iter().map(|name| self.resolve(name).to_owned()).collect()
        } else {
            Cow::Borrowed(names)
        }
    }

    /// The decision with the tool's own name, and the warning where it had another.
    pub(super) fn resolve_call(
        &self,
        mut decision: ExecuteDecision,
    ) -> (ExecuteDecision, Option<Warning>) {
        let Some(call) = &mut decision.tool_call else { return (decision, None) };
        let Some(tool) = self.0.get(&call.name) else { return (decision, None) };
        let detail = Some(format!("{} is an alias; the tool is {tool}", call.name));
        let field = Some("tool_call.name".to_owned());
        call.name.clone_from(tool);
        (decision, Some(Warning { code: WarningCode::ToolAlias, field, detail }))
    }
}
