//! No two modules of a crate import from one another, directly or through other modules, so that each
//! module can be understood without the modules that use it.

mod modules;

use modules::Modules;
use std::fs;
use std::path::Path;

#[test]
fn no_modules_of_a_crate_import_from_one_another() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !folder.join("src/lib.rs").exists() {
            continue;
        }
        count += 1;
        let cycles = Modules::read(&folder.join("src")).unwrap().cycles();
        found.extend(cycles.iter().map(|cycle| format!("{name}: {cycle}")));
    }
    assert!(count >= 5, "{count} crates were read");
    assert!(found.is_empty(), "modules import from one another:\n{}", found.join("\n"));
}

/// The cycles of a crate made of these files.
fn cycles(files: &[(&str, &str)]) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("parent"))?;
    for (file, text) in files {
        fs::write(folder.path().join(file), text)?;
    }
    let cycles = Modules::read(folder.path())?.cycles();
    Ok(cycles.iter().map(ToString::to_string).collect())
}

#[test]
fn a_cycle_is_named_and_what_is_none_is_not() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod c;");
    let (pair, none) = (vec!["crate::a -> crate::b -> crate::a".to_owned()], Vec::new());
    let b = ("b.rs", "use crate::a::A;\npub struct B(A);");
    let c = ("c.rs", "pub struct C;");
    for (a, expected) in [
        ("use crate::b::B;\npub struct A;", &pair),
        ("use super::{b::B, c::C};\npub struct A;", &pair),
        ("use crate::b;\npub struct A;\nfn f(_: b::B) {}", &pair),
        ("pub struct A;\nfn f() { use crate::b::B; }", &pair),
        ("pub struct A;\nfn f() { print!(\"{}\", crate::b::B::new()) }", &pair),
        ("pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }", &none),
        ("pub use crate::b::B;\npub struct A;", &none),
        ("use crate::b;\npub struct A;", &none),
        ("use crate::c::C;\npub struct A(C);", &none),
        ("use std::fmt::Debug;\npub struct A;", &none),
    ] {
        assert_eq!(cycles(&[root, ("a.rs", a), b, c]).unwrap(), *expected, "{a}");
    }
}

#[test]
fn a_name_is_followed_to_where_it_is_defined() {
    let child = |parent: &str| {
        cycles(&[
            ("lib.rs", "mod parent;"),
            ("parent/mod.rs", parent),
            ("parent/child.rs", "use super::Thing;\npub fn f(_: Thing) {}"),
            ("parent/thing.rs", "pub struct Thing;"),
        ])
        .unwrap()
    };
    assert_eq!(
        child("mod child;\nmod thing;\npub use thing::Thing;\nfn g() { child::f(Thing) }"),
        [""; 0]
    );
    assert_eq!(
        child("mod child;\npub struct Thing;\nfn g() { child::f(Thing) }"),
        ["crate::parent -> crate::parent::child -> crate::parent"]
    );
}
