//! Mail between agents: threads, deadlines, and databases that stop.

mod apart;
mod full;
mod killed;
mod post;
mod threads;
