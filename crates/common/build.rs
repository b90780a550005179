//! Rebuilds when a migration is added: `sqlx::migrate!` cannot see new files by itself.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
