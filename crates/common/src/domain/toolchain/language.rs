//! The languages of instructions.

use super::words::words;
use std::fmt;

words! {
    /// The language in which an agent is handed its instructions.
    Language {
        /// English.
        En = "en",
        /// Chinese.
        Zh = "zh",
    }
}
