//! Fuses: what ends or pauses work, each a small state and a pure function that counts. The one for
//! repeats is stored with its step; timeouts are counted in the process; completion and corrections
//! are for drivers that write text, which are not served yet.

pub mod completion;
pub mod correction;
pub mod limits;
pub mod repeat;
pub mod timeout;
