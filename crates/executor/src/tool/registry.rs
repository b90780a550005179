//! The tools by name, and the validation of their arguments.

use crate::tool::builtin;
use crate::tool::{Tool, ToolSpec};
use jsonschema::Validator;
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::json::Value;
use surety_common::schema;

/// Why a tool was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The name is already registered.
    #[error("a tool named {0:?} is registered already")]
    DuplicateName(String),
    /// The schema of its arguments is invalid, or refers to another document.
    #[error("the input schema of {name:?} does not compile: {reason}")]
    SchemaInvalid {
        /// The tool's name.
        name: String,
        /// What is wrong with the schema.
        reason: String,
    },
    /// The client of `http_get` could not be made.
    #[error("http_get: TLS cannot be used: {0}")]
    Tls(#[from] reqwest::Error),
}

/// Tools by name. Each schema is compiled once.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Arc<Validator>,
}

impl Registry {
    /// A registry with the built-in tools. `http_allowed` are the addresses that `http_get` may read,
    /// `host:port` separated by commas.
    ///
    /// # Errors
    /// [`RegistryError`] if a built-in tool's schema is invalid, or TLS cannot be used.
    pub fn with_builtin(http_allowed: Option<&str>) -> Result<Self, RegistryError> {
        let mut registry = Self::default();
        for tool in builtin::all(http_allowed)? {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// Registers a tool.
    ///
    /// # Errors
    /// [`RegistryError`] for a name that is already registered or a schema that does not compile.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        if self.tools.contains_key(&name) {
            return Err(RegistryError::DuplicateName(name));
        }
        // A worker's schema is untrusted.
        let schema = schema::compile(&spec.input_schema)
            .map_err(|reason| RegistryError::SchemaInvalid { name: name.clone(), reason })?;
        let schema = Arc::new(schema);
        self.tools.insert(name, Entry { tool, schema });
        Ok(())
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| Arc::clone(&entry.tool))
    }

    /// The descriptions of all tools, sorted by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|entry| entry.tool.spec())
    }

    /// Validates arguments against a tool's schema. An unknown tool accepts none.
    ///
    /// # Errors
    /// One sentence for each error, without the values: it may become the cause of a run's end,
    /// which is logged and traced.
    pub fn validate(&self, name: &str, arguments: &Value) -> Result<(), Vec<String>> {
        let Some(entry) = self.tools.get(name) else {
            return Err(vec![format!("there is no tool named {name:?}")]);
        };
        let wrong = schema::faults(&entry.schema, arguments);
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
