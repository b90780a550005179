//! Strict JSON that keeps what a proof needs: the spelling of numbers, the order of keys, and
//! whether a key stood there twice.

/// The deepest level an object or array may stand at; the outermost one is level 1.
pub const MAX_DEPTH: usize = 128;

/// One JSON value, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number in its own spelling, so that no digit is lost.
    Number(String),
    /// Text, unescaped.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Keys and values in the order of their first appearance; of a repeated key the last value.
    Object(Vec<(String, Value)>),
}
