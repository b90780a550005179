//! Mail between agents: threads, deadlines, and databases that stop.

mod apart;
mod killed;
mod post;
mod threads;
