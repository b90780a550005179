//! The two forms of requests and replies.

pub(crate) mod anthropic;
mod calls;
mod counts;
pub(crate) mod failure;
pub(crate) mod form;
pub(crate) mod openai;
pub(crate) mod sse;
mod strict;
mod types;

pub(crate) use types::{
    Arrived, Broken, Counted, End, FUNCTION_MEANING, Level, OnPart, Prepared, Received,
};
