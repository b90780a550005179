//! The server of `surety mcp`: tools of a contract for an agent that speaks MCP.
//!
//! ```text
//!   stdio: lines ----+                          +--> contract   (crate::contract)
//!                    +--> Server --> Observer --+--> round      (crate::verify)
//!   HTTP: POST /mcp -+    (rmcp)  |             +--> person     (a form of the client)
//!                                 +-> Driver ------> executor   (a remote driver of runs)
//! ```
//!
//! Only `server`, `answers`, `lines`, `http`, `ask`, `progress` and `unread` know the crate `rmcp`. The rest is what the tools
//! do, and is the same for every transport.

mod answers;
mod arguments;
mod ask;
mod driver;
mod driver_plan;
mod fit;
mod http;
mod judged;
mod leases;
mod lines;
mod observer;
mod progress;
mod server;
mod tools;
mod unread;

pub use driver::Driver;
pub use http::{Listening, listen};
pub use lines::serve_lines;
pub use observer::Observer;
pub use server::{Role, Server};
