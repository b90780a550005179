//! The pages of `docs/` that are made from the code say what it says.

mod api;
mod authorization;
mod configuration;
mod errors;
mod metrics;

use std::path::Path;

/// Fails where a page of `docs/` is another text than it should be; with `UPDATE_DOCS` it writes the page before.
fn assert_page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let written = std::fs::write(&path, text);
        assert!(written.is_ok(), "docs/{name} cannot be written: {written:?}");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, text, "run UPDATE_DOCS=1 cargo test -p surety-common --test pages");
}
