//! One bad snippet per rule, and its good neighbour: a rule that stops biting fails here.

use crate::graph;
use crate::judge;
use crate::lex::{imports, mask};
use crate::rules::{Source, machine_paths};

const LIBRARY: &str = "crates/esker/src/table/reader.rs";
const ROOT: &str = "crates/esker/src/lib.rs";

/// What the rules say of one file in the library, its module tree aside.
fn findings_at(path: &str, text: &str) -> Vec<String> {
    let mut files = vec![Source::new(path, text)];
    let mut found = judge(&mut files);
    found.retain(|finding| !finding.contains("no `mod` names"));
    found
}

#[track_caller]
fn caught(path: &str, text: &str, expected: &str) {
    let found = findings_at(path, text);
    assert!(
        found.len() == 1 && found[0].contains(expected),
        "expected one `{expected}`, found {found:?} in {text}"
    );
}

#[track_caller]
fn passes(path: &str, text: &str) {
    let found = findings_at(path, text);
    assert!(found.is_empty(), "expected nothing, found {found:?} in {text}");
}

#[test]
fn impls_outside_their_room() {
    let found = |home: &str, text: &str| {
        let defined = format!("//! Doc.\npub(crate) struct Reader<T>(T);\n{text}");
        let other = format!("//! Doc.\n{text}");
        let mut files = vec![Source::new(home, &defined), Source::new(LIBRARY, &other)];
        let mut found = judge(&mut files);
        found.retain(|finding| finding.contains("outside its room"));
        found.len()
    };
    let block = "impl<T: Into<Vec<u8>>> Reader<T> {\n    fn a() {}\n}\n";
    assert_eq!(found("crates/esker/src/table/mod.rs", block), 0);
    assert_eq!(found("crates/esker/src/blob/mod.rs", block), 1);
    assert_eq!(found("crates/esker/src/blob/mod.rs", "impl super::Reader<u8> {\n    fn a() {}\n}\n"), 1);
    // A trait's may lie anywhere, and so may what tests add.
    assert_eq!(found("crates/esker/src/blob/mod.rs", "impl<T> Clone for Reader<T> {\n}\n"), 0);
    assert_eq!(
        found("crates/esker/src/blob/mod.rs", "#[cfg(test)]\nmod tests {\n    impl Reader<u8> {}\n}\n"),
        0
    );
    assert_eq!(found("crates/esker/src/blob/mod.rs", "fn f() -> impl Reader { g() }\n"), 0);
}

#[test]
fn fields_of_parts() {
    const SPACE: &str = "crates/esker/src/space/mod.rs";
    passes(SPACE, "//! Doc.\npub(crate) struct Space {\n    dir: PathBuf,\n    pub(super) env: Env,\n}\n");
    caught(
        SPACE,
        "//! Doc.\npub(crate) struct Space {\n    pub(crate) dir: PathBuf,\n}\n",
        "its fields are private",
    );
    passes(SPACE, "//! Doc.\npub(crate) struct LogNeed {\n    pub(crate) new: u64,\n}\n");
}

#[test]
fn banned_calls() {
    let body = |statement: &str| format!("//! Doc.\nfn f() {{\n    {statement}\n}}\n");
    for bad in [
        "std::fs::read(p);",
        "use std::fs;",
        "use std::{fs::File, io};",
        "use std::time::{Duration, Instant};",
        "let t = std::time::SystemTime::now();",
        "std::thread::sleep(d);",
        "thread::spawn(f);",
        "a.unwrap();",
        "a\n        .expect(\"b\");",
        "println!(\"a\");",
        "eprint!(\"a\");",
    ] {
        caught(LIBRARY, &body(bad), "crates/esker/src/table/reader.rs:");
        let tests =
            format!("//! Doc.\n#[cfg(test)]\nmod tests {{\n    fn f() {{\n        {bad}\n    }}\n}}\n");
        passes(LIBRARY, &tests);
        passes("crates/esker/tests/model.rs", &body(bad));
    }
    for good in [
        "let a = \"std::fs::read\"; // a.unwrap()",
        "use crate::fs::FileSystem;",
        "use std::time::Duration;",
        "a.unwrap_or(b);",
        "a.expect_err(b);",
        "myprintln!(a);",
    ] {
        passes(LIBRARY, &body(good));
    }
    passes("crates/esker/src/fs/real.rs", &body("std::fs::read(p);"));
    passes("crates/esker-cli/src/main.rs", &body("println!(\"a\");"));
    caught("crates/esker-cli/src/main.rs", &body("a.unwrap();"), ".unwrap()");
    passes("bench/src/main.rs", &body("a.unwrap();"));
}

#[test]
fn missing_docs() {
    caught(LIBRARY, "use std::io;\n", "opens with `//!`");
    caught(LIBRARY, "// not a doc comment\n", "opens with `//!`");
    passes("crates/esker/src/table/tests.rs", "use super::*;\n");
    caught("crates/esker/src/table/tests/damage.rs", "use super::*;\n", "opens with `//!`");
    passes(LIBRARY, "#![allow(dead_code)]\n//! Doc.\n");
}

#[test]
fn notes_without_owner() {
    for note in ["TODO", "TODO: later", "TODO()", "FIXME", "XXX", "MERGE: remove"] {
        caught(LIBRARY, &format!("//! Doc.\n// {note}\n"), "without an owner");
        caught(LIBRARY, &format!("//! Doc.\n/* a\n {note} */\n"), ":3: ");
    }
    passes(LIBRARY, "//! Doc.\n// TODO(ann): later\nconst A: &str = \"TODO\";\n// TODOS XXXL\n");
}

#[test]
fn stray_whitespace() {
    caught(LIBRARY, "//! Doc.\nfn\ta() {}\n", "a tab");
    caught(LIBRARY, "//! Doc. \n", "end of the line");
    caught(LIBRARY, "//! Doc.\r\n", "end of the line");
    caught(LIBRARY, "//! Doc.", "one newline");
    caught(LIBRARY, "//! Doc.\n\n", "one newline");
}

#[test]
fn files_nobody_compiles() {
    let tree = |root: &str| {
        let mut files = vec![
            Source::new(ROOT, root),
            Source::new("crates/esker/src/table/mod.rs", "//! Doc.\nmod block;\n"),
            Source::new("crates/esker/src/table/block.rs", "//! Doc.\nmod deep;\n#[cfg(test)]\nmod probe;\n"),
            Source::new("crates/esker/src/table/block/deep.rs", "//! Doc.\n"),
            Source::new("crates/esker/src/table/block/probe.rs", "//! Doc.\nfn f() {\n    a.unwrap();\n}\n"),
            Source::new("crates/esker/tests/model.rs", "//! Doc.\nmod common;\n"),
            Source::new("crates/esker/tests/common/mod.rs", "//! Doc.\n"),
            Source::new(
                "crates/esker/tests/all/main.rs",
                "//! Doc.\n#[path = \"../shared/mod.rs\"]\nmod shared;\n",
            ),
            Source::new("crates/esker/tests/shared/mod.rs", "//! Doc.\n"),
        ];
        judge(&mut files)
    };
    assert_eq!(tree("//! Doc.\nmod table;\n"), Vec::<String>::new());
    assert_eq!(tree("//! Doc.\n#[path = \"table/mod.rs\"]\npub mod other;\n"), Vec::<String>::new());
    let dead = tree("//! Doc.\n// mod table;\n");
    assert_eq!(dead.iter().filter(|finding| finding.contains("no `mod` names this file")).count(), 4);
}

#[test]
fn files_that_call_each_other_in_a_circle() {
    let judge = |paths: [&str; 3], last: &str| {
        let file = |path: &str, method: &str, body: &str| {
            let defines = if method == "first" { "struct Store;\n" } else { "" };
            let text = format!(
                "//! Doc.\n{defines}impl Store {{\n    pub(super) fn {method}(&self) {{\n        {body}\n    }}\n}}\n"
            );
            Source::new(&format!("crates/esker/src/{path}"), &text)
        };
        let files = [
            file(paths[0], "first", "self.second();"),
            file(paths[1], "second", "let a = || store.third();"),
            file(paths[2], "third", last),
        ];
        crate::rules::circles(&files)
    };
    let apart = ["store/a.rs", "store/b.rs", "store/c.rs"];
    for back in ["self.first();", "Self::first(self);", "Store::second(self);", "if a { store.first() }"] {
        let found = judge(apart, back);
        assert!(found.iter().all(|finding| finding.contains("a circle of calls: Store::")), "{found:?}");
        assert!(found.len() >= 2, "{back}: {found:?}");
    }
    for sound in ["other.first();", "self.third();", "self.first = 1;", "// self.first();"] {
        assert_eq!(judge(apart, sound), Vec::<String>::new(), "{sound}");
    }
    let of_one_module = ["store/a.rs", "store/a/b.rs", "store/a/c.rs"];
    assert_eq!(judge(of_one_module, "self.first();"), Vec::<String>::new());
    assert!(!judge(["store/mod.rs", "store/b.rs", "store/c.rs"], "self.first();").is_empty());
}

/// What is found of circles in a crate that has `lib.rs`, `a.rs`, `b.rs`, `a/part.rs`, and `tests.rs` of `a`.
fn circles_of(root: &str, a: &str, b: &str, part: &str, known: &[(&str, &[&[&str]])]) -> Vec<String> {
    let file = |path: &str, text: &str| Source::new(&format!("crates/shop/src/{path}"), text);
    let mut files = vec![
        file("lib.rs", &format!("//! Doc.\nmod a;\nmod b;\n{root}\n")),
        file("a.rs", &format!("//! Doc.\nmod part;\n#[cfg(test)]\nmod tests;\n{a}\n")),
        file("b.rs", &format!("//! Doc.\n{b}\n")),
        file("a/part.rs", &format!("//! Doc.\n{part}\n")),
        file("a/tests.rs", "use super::*;\nuse crate::b::B;\n"),
    ];
    judge(&mut files);
    graph::circles(&files, known)
}

#[test]
fn files_that_import_each_other_in_a_circle() {
    let a = "pub(crate) struct A;\nuse crate::b::B;";
    for b in [
        "pub(crate) struct B;\nuse crate::a::A;",
        "pub(crate) struct B;\nfn b() -> crate::a::A {\n    f()\n}",
        "pub(crate) struct B;\nfn b() -> super::a::A {\n    f()\n}",
        "pub(crate) struct B;\nuse super::{a::{A as Other}, x};",
        "pub(crate) struct B;\nuse crate::a;\nfn b() -> a::A {\n    f()\n}",
        "pub(crate) struct B;\nuse crate::a::*;\nfn b() -> A {\n    f()\n}",
        "pub(crate) struct B;\nfn b() {\n    use crate::a::A;\n}",
        "pub(crate) struct B;\nmod inner {\n    use super::super::a::A;\n}",
        "pub(crate) struct B;\nuse crate::A;",
        "pub(crate) struct B;\nuse crate::a::of_a_macro;",
        "pub(crate) struct B;\n#[cfg(unix)]\nuse crate::a::A;",
    ] {
        let found = circles_of("pub use a::A;", a, b, "", &[]);
        assert_eq!(found.len(), 2, "{found:?} in {b}");
        assert!(found[0].starts_with("crates/shop/src/a.rs:6: a circle of files: crate::b::B"), "{found:?}");
        assert!(found[1].starts_with("crates/shop/src/b.rs:"), "{found:?}");
    }
    for b in [
        "pub(crate) struct B;\n// crate::a::A",
        "pub(crate) struct B;\nuse crate::a;",
        "pub(crate) struct B;\nuse crate::a::*;",
        "pub(crate) struct B;\nuse a::A;",
        "pub(crate) struct B;\nuse crate::a::Foreign;",
        "pub(crate) struct B;\nfn b(a: &T) {\n    a.f();\n}",
        "pub(crate) struct B;\n#[cfg(test)]\nuse crate::a::A;",
        "pub(crate) struct B;\n#[cfg(all(test, unix))]\nuse crate::{a::A, x};",
        "pub(crate) struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
        "pub(crate) struct B;\nmod inner {\n    use super::a::A;\n    mod a {}\n}",
    ] {
        let a = format!("{a}\nuse other::Foreign;");
        assert_eq!(circles_of("pub use a::A;", &a, b, "", &[]), Vec::<String>::new(), "{b}");
    }
}

#[test]
fn a_parent_and_its_child_in_a_circle() {
    let a = "pub(crate) struct A;\npub(crate) use crate::b::B;";
    let part = "use super::{A, B};\npub(crate) struct Part;";
    for own in ["pub(crate) use part::Part;", "use part::{self};", "pub use part::*;"] {
        assert_eq!(circles_of("", &format!("{a}\n{own}"), "", part, &[]), Vec::<String>::new(), "{own}");
    }
    for own in ["use part::Part;", "pub use part::Part;\nfn f() -> Part {}", "fn f() -> part::Part {}"] {
        let found = circles_of("", &format!("{a}\n{own}"), "", part, &[]);
        assert_eq!(found.len(), 2, "{found:?} in {own}");
        // What the child takes from its parent may be of a third file.
        let part = "use super::B;\npub(crate) struct Part;";
        let found = circles_of("", &format!("{a}\n{own}"), "pub(crate) struct B;", part, &[]);
        assert_eq!(found, Vec::<String>::new(), "{own}");
    }
}

#[test]
fn a_circle_that_is_known_is_listed_as_it_is() {
    let found = |b: &str, part: &str, known: &[&str]| {
        let a = "pub(crate) struct A;\nuse crate::b::B;\nuse part::Part;";
        circles_of("", a, b, part, &[("crates/shop/src", &[known])])
    };
    let b = "pub(crate) struct B;\nuse crate::a::A;";
    assert_eq!(found(b, "", &["a.rs", "b.rs"]), Vec::<String>::new());
    for (b, part) in [("", ""), (b, "use super::A;"), ("", "use super::A;")] {
        let found = found(b, part, &["a.rs", "b.rs"]);
        let gone = found.last().is_some_and(|finding| finding.contains("no circle of exactly these files"));
        assert!(gone, "{found:?}");
    }
    assert_eq!(found(b, "use super::A;", &["a.rs", "b.rs", "a/part.rs"]), Vec::<String>::new());
}

#[test]
fn imports_that_reach_up() {
    for bad in [
        "use crate::db::Db;",
        "use crate::{error::Result, db::{Db}};",
        "fn f(db: &crate::db::Db) {}",
        "use super::super::db::Db;",
    ] {
        caught(LIBRARY, &format!("//! Doc.\n{bad}\n"), "table reaches up to db");
    }
    caught("crates/esker/src/table/mod.rs", "//! Doc.\nuse super::db::Db;\n", "table reaches up to db");
    caught(
        "crates/esker/src/codec.rs",
        "//! Doc.\nuse crate::checksum::xxh3;\n",
        "codec reaches up to checksum",
    );
    caught(LIBRARY, "//! Doc.\nuse crate::Error;\n", "crate::Error is no room");
    caught("crates/esker/src/attic.rs", "//! Doc.\n", "room attic has no floor");
    for good in [
        "use crate::error::Result;",
        "use crate::table::block::Block;",
        "use super::block::Block;",
        "pub(crate) fn f() {}",
        "// crate::db::Db",
        "#[cfg(test)]\nmod tests {\n    use crate::db::Db;\n}",
        "mod inner {\n    use super::super::helper;\n}",
    ] {
        passes(LIBRARY, &format!("//! Doc.\n{good}\n"));
    }
}

#[test]
fn places_on_one_machine() {
    for place in ["wo|rk/a", "ro|ot/.cargo", "ho|me/ann"] {
        let text = format!("fine\nsee /{}\n", place.replace('|', ""));
        assert!(machine_paths("docs/a.md", &text)[0].starts_with("docs/a.md:2: "), "{text}");
    }
    assert!(machine_paths("docs/a.md", "a network/b, the root, ~/.cargo\n").is_empty());
}

#[test]
fn masking_keeps_lines_and_code() {
    let text = "a\"b\\\"c\"d'e'f'\\''g<'h>r#\"i\"j\"#k/*l/*m*/n\n*/o//p\nr#type b\"q\" br\"s\" 't'u";
    let (code, comments) = mask(text);
    let kept: String = code.chars().filter(|c| *c != ' ').collect();
    assert_eq!(kept, "a\"\"d''f''g<'h>r#\"\"#k\no\nr#typeb\"\"br\"\"''u");
    assert_eq!(comments, [(0, "/*l/*m*/n\n*/".to_string()), (1, "//p".to_string())]);
}

#[test]
fn use_trees_unfold() {
    let found: Vec<String> =
        imports("use a::{b, c::{d as e, f}, self};\nuse g;").into_iter().map(|(_, p)| p).collect();
    assert_eq!(found, ["a::b", "a::c::d", "a::c::f", "a::self", "g"]);
}
