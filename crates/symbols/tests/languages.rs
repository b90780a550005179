//! Definitions and uses in each language, found by the grammars as they are published.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::time::{Duration, Instant};
use surety_symbols::{Found, Language, Name, Parser, Role, Room, Stopped, Symbol};

const ROOM: Room = Room { definitions: 100, uses: 100 };

fn parsed(path: &str, name: &str, source: &str) -> Result<Found, Stopped> {
    let language = Language::of(Path::new(path)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    Parser::new(Name::read(name).unwrap()).parse((path, language), source, ROOM, deadline)
}

/// Each place as `line:column role kind container`.
fn places(path: &str, name: &str, source: &str) -> Vec<String> {
    let found = parsed(path, name, source).unwrap();
    assert_eq!(found.definitions + found.uses, found.symbols.len() as u64);
    found.symbols.iter().map(place).collect()
}

fn place(symbol: &Symbol) -> String {
    let Symbol { line, column, role, kind, container, .. } = symbol;
    let role = match role {
        Role::Definition => "def",
        Role::Use => "use",
    };
    let container = container.as_ref().map(|container| format!(" in {container}"));
    format!("{line}:{column} {role} {kind}{}", container.unwrap_or_default())
}

#[test]
fn every_grammar_loads_with_its_query() {
    for language in Language::ALL {
        for extension in language.extensions() {
            let path = format!("a.{extension}");
            assert_eq!(Language::of(Path::new(&path)), Some(language));
            assert_eq!(parsed(&path, "x", "x\n").map(|_| ()), Ok(()), "{language:?}");
        }
    }
    assert_eq!(Language::of(Path::new("README.md")), None);
    assert_eq!(Language::of(Path::new("rs")), None);
}

const RUST: &str = r#"//! Registry in a comment.
pub struct Registry<T> {
    get: T,
}

impl<T> Registry<T> {
    const LIMIT: usize = 5;

    /// get
    pub fn get(&self) -> &T {
        println!("get {}", get(1));
        &self.get
    }
}

fn get(n: usize) -> usize {
    n + Registry::<u8>::LIMIT
}

enum Shape { Round, Registry }

trait Finds {
    fn get(&self);
    type Registry;
}

mod inner {
    pub static GET: u8 = 1;
    use super::Registry as Other;
}
macro_rules! registry { () => { get() } }
"#;

#[test]
fn rust() {
    let found = |name| places("a.rs", name, RUST);
    assert_eq!(
        found("get"),
        [
            "3:5 def field in Registry",
            "10:12 def method in Registry",
            "11:28 use name",
            "12:15 use name",
            "16:4 def function",
            "23:8 def method in Finds",
            "31:33 use name",
        ]
    );
    assert_eq!(
        found("Registry"),
        [
            "2:12 def class",
            "6:9 use name",
            "17:9 use name",
            "20:21 def constant in Shape",
            "24:10 def type in Finds",
            "29:16 use name",
        ]
    );
    assert_eq!(found("LIMIT"), ["7:11 def constant in Registry", "17:25 use name"]);
    assert_eq!(
        found("Registry::get"),
        found("get")
            .into_iter()
            .filter(|place| { !place.contains(" def ") || place.ends_with(" in Registry") })
            .collect::<Vec<_>>()
    );
    assert_eq!(found("inner"), ["27:5 def module"]);
    assert_eq!(found("GET"), ["28:16 def constant in inner"]);
    assert_eq!(found("registry"), ["31:14 def macro"]);
    assert_eq!(found("Missing"), [""; 0]);
}

#[test]
fn python() {
    let source = r#"LIMIT = 5

class Store(Base):
    """A store: put."""
    size = LIMIT

    def put(self, key):
        # put
        self.size = key
        return put(key)

def put(store):
    store.put("put")
    return Store
"#;
    let found = |name| places("a.py", name, source);
    assert_eq!(
        found("put"),
        ["7:9 def function in Store", "10:16 use call", "12:5 def function", "13:11 use call",]
    );
    assert_eq!(found("LIMIT"), ["1:1 def constant", "5:12 use name"]);
    assert_eq!(found("Store"), ["3:7 def class", "14:12 use name"]);
    assert_eq!(found("size"), ["5:5 def field in Store", "9:14 use name"]);
    assert_eq!(found("Base"), ["3:13 use name"]);
}

#[test]
fn javascript() {
    let source = r#"import { open } from "./open";
const limit = 3;
export class Store extends Base {
  size = 1;
  put(key) { return open(key, this.size, "put"); }
}
const put = (store) => store.put(limit);
function open2() { return new Store(); }
// put
"#;
    let found = |name| places("a.js", name, source);
    assert_eq!(found("put"), ["5:3 def method in Store", "7:7 def function", "7:30 use call"]);
    assert_eq!(found("open"), ["1:10 use name", "5:21 use call"]);
    assert_eq!(found("limit"), ["2:7 def variable", "7:34 use name"]);
    assert_eq!(found("Store"), ["3:14 def class", "8:31 use class"]);
    assert_eq!(found("size"), ["4:3 def field in Store", "5:36 use name"]);
    assert_eq!(found("open2"), ["8:10 def function"]);
}

#[test]
fn typescript() {
    let source = r#"interface Shape { area(): number; side: number }
type Side = "left" | "right";
enum Color { Red, Green = 2 }
export abstract class Square implements Shape {
  side: number = 1;
  area(): number { return this.side ** 2; }
}
export function total(shapes: Shape[]): number {
  const area = shapes.map((s) => s.area());
  return area.length + Color.Red + Color.Green;
}
"#;
    let found = |path, name| places(path, name, source);
    for path in ["a.ts", "a.tsx"] {
        assert_eq!(
            found(path, "area"),
            [
                "1:19 def method in Shape",
                "6:3 def method in Square",
                "9:9 def variable in total",
                "9:36 use call",
                "10:10 use name",
            ]
        );
        assert_eq!(found(path, "Shape"), ["1:11 def interface", "4:41 use name", "8:31 use name"]);
        assert_eq!(found(path, "Side"), ["2:6 def type"]);
        assert_eq!(found(path, "Color"), ["3:6 def enum", "10:24 use name", "10:36 use name"]);
        assert_eq!(found(path, "Red"), ["3:14 def constant in Color", "10:30 use name"]);
        assert_eq!(found(path, "Green"), ["3:19 def constant in Color", "10:42 use name"]);
        assert_eq!(found(path, "total"), ["8:17 def function"]);
        assert_eq!(
            found(path, "side"),
            ["1:35 def field in Shape", "5:3 def field in Square", "6:32 use name"]
        );
    }
}

#[test]
fn go() {
    let source = r#"package store

const Limit, Other = 3, 4

type Store[T any] struct {
	size, rest int
}

type Putter interface{ Put(key string) }

// Put puts.
func (s *Store[T]) Put(key string) { s.size = Limit }

func Put(s Store[int]) { s.Put("Put") }
"#;
    let found = |name| places("a.go", name, source);
    assert_eq!(
        found("Put"),
        [
            "9:24 def method in Putter",
            "12:20 def method in Store",
            "14:6 def function",
            "14:28 use call",
        ]
    );
    assert_eq!(found("Store"), ["5:6 def type", "12:10 use type", "14:12 use type"]);
    assert_eq!(found("Limit"), ["3:7 def constant", "12:47 use name"]);
    assert_eq!(found("Other"), ["3:14 def constant"]);
    assert_eq!(found("size"), ["6:2 def field in Store", "12:40 use name"]);
    assert_eq!(found("rest"), ["6:8 def field in Store"]);
    assert_eq!(found("store"), ["1:9 def module"]);
}

#[test]
fn java() {
    let source = r#"package a;
enum Color { RED }
record Pair(int left) {}
interface Shape { int area(); }
class Square implements Shape {
  private int side = 1;
  Square(int side) { this.side = side; }
  public int area() { return side * side; } // area
  static int total(Shape s) { return s.area() + new Square(2).side; }
}
"#;
    let found = |name| places("A.java", name, source);
    assert_eq!(
        found("area"),
        ["4:23 def method in Shape", "8:14 def method in Square", "9:40 use call"]
    );
    assert_eq!(found("Square"), ["5:7 def class", "7:3 def method in Square", "9:53 use class"]);
    assert_eq!(found("RED"), ["2:14 def constant in Color"]);
    assert_eq!(found("Pair"), ["3:8 def class"]);
    assert_eq!(found("Shape"), ["4:11 def interface", "5:25 use implementation", "9:20 use name"]);
    assert_eq!(found("side").first().unwrap(), "6:15 def field in Square");
}

#[test]
fn c() {
    let source = r#"#define LIMIT 5
#define TWICE(x) ((x) * 2)
typedef struct point { int x; } point_t;
enum color { RED };
static int total = LIMIT;
int area(point_t *p);
/* area */
int area(point_t *p) { return TWICE(p->x) + total + RED; }
int main(void) { struct point p; return area(&p); }
"#;
    let found = |path, name| places(path, name, source);
    for path in ["a.c", "a.h"] {
        assert_eq!(found(path, "area"), ["6:5 def function", "8:5 def function", "9:41 use call"]);
        assert_eq!(found(path, "LIMIT"), ["1:9 def macro", "5:20 use name"]);
        assert_eq!(found(path, "TWICE"), ["2:9 def macro", "8:31 use call"]);
        assert_eq!(found(path, "point"), ["3:16 def class", "9:25 use name"]);
        assert_eq!(found(path, "point_t"), ["3:33 def type", "6:10 use name", "8:10 use name"]);
        assert_eq!(found(path, "RED"), ["4:14 def constant in color", "8:53 use name"]);
        assert_eq!(found(path, "total"), ["5:12 def variable", "8:45 use name"]);
        assert_eq!(found(path, "x"), ["2:15 use name", "3:28 def field in point", "8:40 use name"]);
    }
}

#[test]
fn a_file_with_errors_shows_what_can_be_read() {
    let source = "fn broken( {{{ ]]\nfn whole() { broken() }\n";
    let found = places("a.rs", "whole", source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(!places("a.rs", "broken", source).is_empty());
}

#[test]
fn a_file_that_takes_too_long_is_given_up() {
    let source = format!("name{}", "(".repeat(1 << 20));
    let mut parser = Parser::new(Name::read("name").unwrap());
    let found = parser.parse(("a.c", Language::C), &source, ROOM, Instant::now());
    assert_eq!(found, Err(Stopped::TooSlow));
    // The next file is not affected by the state of the one that was given up.
    let deadline = Instant::now() + Duration::from_secs(60);
    let found = parser.parse(("b.c", Language::C), "int name;\n", ROOM, deadline).unwrap();
    assert_eq!(found.definitions, 1);
}

#[test]
fn only_what_has_room_is_described_and_all_is_counted() {
    let source = "fn f() {}\n".repeat(3) + &"fn g() { f(); }\n".repeat(4);
    let room = Room { definitions: 1, uses: 2 };
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut parser = Parser::new(Name::read("f").unwrap());
    let found = parser.parse(("a.rs", Language::Rust), &source, room, deadline).unwrap();
    assert_eq!((found.definitions, found.uses, found.symbols.len()), (3, 4, 3));
}
