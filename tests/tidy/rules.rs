//! The rules. Each takes a file, or all of them, and returns what it found: path, line, what to do.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::{BANS, Ban, FLOORS, HOUSE, PARTS, SPREAD, TOOLS};
use crate::lex::{
    Comment, Region, body, imports, inline_modules, is_word, leading_word, line_at, mask, test_regions, words,
};

/// Where and what: `path:line: reason`.
pub(crate) type Finding = String;

/// A Rust file and what was made of it.
pub(crate) struct Source {
    /// From the workspace's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) code: String,
    comments: Vec<Comment>,
    test_regions: Vec<Region>,
    /// Whether the whole file is compiled for tests only.
    pub(crate) is_test: bool,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let (code, comments) = mask(text);
        Source {
            path: path.to_string(),
            text: text.to_string(),
            test_regions: test_regions(&code),
            code,
            comments,
            is_test: path.contains("/tests/") || path.ends_with("/tests.rs") || path.starts_with("tests/"),
        }
    }

    pub(crate) fn finding(&self, line: usize, what: impl std::fmt::Display) -> Finding {
        format!("{}:{}: {what}", self.path, line + 1)
    }

    pub(crate) fn in_test(&self, offset: usize) -> bool {
        self.is_test || self.test_regions.iter().any(|region| region.contains(&offset))
    }

    fn is_tool(&self) -> bool {
        TOOLS.iter().any(|tool| self.path.starts_with(tool))
    }
}

/// Banned calls stand only where the house allows them.
pub(crate) fn banned_calls(file: &Source) -> Vec<Finding> {
    if file.is_tool() {
        return vec![];
    }
    let uses = imports(&file.code);
    let mut found = vec![];
    for ban in
        BANS.iter().filter(|ban| !ban.allowed_in.iter().any(|beginning| file.path.starts_with(beginning)))
    {
        let mut at: Vec<usize> = occurrences(&file.code, ban).collect();
        let inside = format!("{}::", ban.what);
        at.extend(uses.iter().filter(|(_, p)| p == ban.what || p.starts_with(&inside)).map(|(at, _)| *at));
        let mut lines: Vec<usize> =
            at.into_iter().filter(|&at| !file.in_test(at)).map(|at| line_at(&file.code, at)).collect();
        lines.sort_unstable();
        lines.dedup();
        found.extend(
            lines.into_iter().map(|line| file.finding(line, format!("{}: {}", ban.what, ban.reason))),
        );
    }
    found
}

/// Method calls are found anywhere; paths and macros as whole words, and a path's last two names too
/// (`thread::sleep` after `use std::thread`).
fn occurrences<'a>(code: &'a str, ban: &Ban) -> Box<dyn Iterator<Item = usize> + 'a> {
    if ban.what.starts_with('.') {
        return Box::new(code.match_indices(ban.what).map(|(at, _)| at));
    }
    let tail = ban.what.strip_prefix("std::").filter(|tail| tail.contains("::"));
    let whole = words(code, ban.what);
    match tail {
        Some(tail) => Box::new(whole.chain(words(code, tail))),
        None => Box::new(whole),
    }
}

/// A file says what it is for before anything else; of a `tests.rs` its neighbour says it.
pub(crate) fn opens_with_doc(file: &Source) -> Vec<Finding> {
    if file.path.ends_with("/tests.rs") {
        return vec![];
    }
    let first = file.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    match first {
        Some(line) if line.starts_with("//!") => vec![],
        _ => vec![file.finding(0, "a module opens with `//!`: what it guarantees, what it relies on")],
    }
}

/// Work left undone has an owner.
pub(crate) fn owned_notes(file: &Source) -> Vec<Finding> {
    let mut found = vec![];
    for (line, text) in &file.comments {
        for note in ["TODO", "FIXME", "XXX", "MERGE:"] {
            for at in words(text, note) {
                let rest = &text[at + note.len()..];
                let owner =
                    rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(name, _)| name);
                if note != "TODO" || owner.is_empty() {
                    let line = line + text[..at].matches('\n').count();
                    found.push(
                        file.finding(line, format!("{note} without an owner: do it, or write `TODO(name)`")),
                    );
                }
            }
        }
    }
    found
}

/// No tabs, no blanks at the end of a line, no carriage returns, one newline at the end.
pub(crate) fn whitespace(file: &Source) -> Vec<Finding> {
    let mut found = vec![];
    for (line, text) in file.text.split('\n').enumerate() {
        if text.contains('\t') {
            found.push(file.finding(line, "a tab"));
        }
        if text.ends_with(char::is_whitespace) {
            found.push(file.finding(line, "blanks at the end of the line"));
        }
    }
    if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
        found.push(file.finding(file.text.lines().count().saturating_sub(1), "one newline ends a file"));
    }
    found
}

/// Nothing names a place on somebody's machine. Runs over every kind of text, not Rust alone.
pub(crate) fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let places =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Use", "rs/")];
    let mut found = vec![];
    for (line, text) in text.lines().enumerate() {
        let places = places.iter().filter(|place| text.contains(**place));
        found.extend(places.map(|place| format!("{path}:{}: {place} is a place on one machine", line + 1)));
    }
    found
}

/// A file that a `mod` line may name.
pub(crate) struct NamedFile {
    /// The module's name.
    pub(crate) name: String,
    pub(crate) path: String,
    /// Whether tests alone see it.
    pub(crate) is_test: bool,
}

/// The files that the `mod` lines of `file` may name.
pub(crate) fn named_files(file: &Source) -> Vec<NamedFile> {
    let (folder, stem) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let is_root = is_crate_root(&file.path) || stem == "mod.rs";
    let home =
        if is_root { folder.to_string() } else { format!("{folder}/{}", stem.trim_end_matches(".rs")) };
    let raw_lines: Vec<&str> = file.text.lines().collect();
    let code_lines: Vec<&str> = file.code.lines().collect();
    let mut found = vec![];
    for at in words(&file.code, "mod") {
        let name = leading_word(&file.code[at + 3..]);
        let after = file.code[at + 3..].trim_start().strip_prefix(name).unwrap_or("").trim_start();
        if name.is_empty() || !after.starts_with(';') {
            continue;
        }
        let mut test = file.is_test;
        let mut line = line_at(&file.code, at);
        let mut moved = None;
        while line > 0 && code_lines[line - 1].trim_start().starts_with("#[") {
            line -= 1;
            test |= code_lines[line].contains("cfg(test)") || code_lines[line].contains("cfg(all(test");
            moved =
                raw_lines[line].split("path = \"").nth(1).and_then(|rest| rest.split('"').next()).or(moved);
        }
        let paths = match moved {
            Some(path) => vec![resolved(&format!("{folder}/{path}"))],
            None => vec![format!("{home}/{name}.rs"), format!("{home}/{name}/mod.rs")],
        };
        found.extend(paths.into_iter().map(|path| NamedFile { name: name.to_owned(), path, is_test: test }));
    }
    found
}

/// A path without its `..` parts.
fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Cargo finds these by itself.
pub(crate) fn is_crate_root(path: &str) -> bool {
    let parts: Vec<&str> = path.rsplit('/').collect();
    match parts[..] {
        ["lib.rs" | "main.rs", "src", ..] | ["build.rs", ..] => true,
        // Test programs of packages below `tests/`.
        ["main.rs", .., "tests"] => true,
        ["main.rs", _, "tests" | "examples" | "benches" | "bin", ..] => true,
        [_, "tests" | "examples" | "benches" | "fuzz_targets", ..] => !path.contains("/src/"),
        [_, "bin", "src", ..] => true,
        _ => false,
    }
}

/// Marks the files that only tests compile and reports those that nothing compiles.
pub(crate) fn dead_files(files: &mut [Source]) -> Vec<Finding> {
    let mut reached = vec![None; files.len()];
    let mut queue: Vec<usize> = (0..files.len()).filter(|&i| is_crate_root(&files[i].path)).collect();
    queue.iter().for_each(|&i| reached[i] = Some(files[i].is_test));
    while let Some(i) = queue.pop() {
        for named in named_files(&files[i]) {
            let Some(j) = files.iter().position(|f| f.path == named.path) else { continue };
            if reached[j].is_none() {
                files[j].is_test |= named.is_test;
                reached[j] = Some(named.is_test);
                queue.push(j);
            }
        }
    }
    let dead = files.iter().zip(&reached).filter(|(_, reached)| reached.is_none());
    dead.map(|(file, _)| file.finding(0, "no `mod` names this file: nothing compiles it")).collect()
}

/// Imports run downwards.
pub(crate) fn rooms(file: &Source) -> Vec<Finding> {
    let Some(inside) = file.path.strip_prefix(HOUSE).filter(|inside| *inside != "lib.rs") else {
        return vec![];
    };
    let module: Vec<&str> = inside.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    let floor = |room: &str| FLOORS.iter().position(|floor| floor.contains(&room));
    let Some(ours) = floor(module[0]) else {
        return vec![file.finding(0, format!("room {} has no floor in tests/tidy/house.rs", module[0]))];
    };
    let mut found = vec![];
    let mut seen = vec![];
    for (at, theirs) in names_in_crate(file, module.len()) {
        if file.in_test(at) || theirs == module[0] || seen.contains(&theirs) {
            continue;
        }
        let line = line_at(&file.code, at);
        match floor(&theirs) {
            Some(floor) if floor < ours => {}
            Some(_) => found.push(file.finding(line, format!("{} reaches up to {theirs}", module[0]))),
            None => found
                .push(file.finding(line, format!("crate::{theirs} is no room: name the room it lives in"))),
        }
        seen.push(theirs);
    }
    found
}

/// The room of a file, if it is in the house.
fn room(file: &Source) -> Option<&str> {
    let inside = file.path.strip_prefix(HOUSE)?;
    Some(inside.split(['/', '.']).next().unwrap_or(inside))
}

/// The types that a file defines: where, whether as a struct with named fields, and the name.
fn types(file: &Source) -> Vec<(usize, &str)> {
    let named = |word| {
        words(&file.code, word).map(move |at: usize| (at, leading_word(&file.code[at + word.len()..])))
    };
    named("struct").chain(named("enum")).chain(named("union")).filter(|(_, name)| !name.is_empty()).collect()
}

/// The inherent `impl` blocks of a type lie in the room that defines it.
pub(crate) fn impls(files: &[Source]) -> Vec<Finding> {
    let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test) {
        let Some(room) = room(file) else { continue };
        for (_, name) in types(file) {
            homes.entry(name).or_default().insert(room);
        }
    }
    let mut found = vec![];
    for file in files.iter().filter(|file| !file.is_test) {
        let Some(room) = room(file) else { continue };
        for at in words(&file.code, "impl").filter(|&at| !file.in_test(at)) {
            let before = file.code[..at].trim_end();
            let is_item = before.is_empty() || before.ends_with(['}', ';', ']', '{']);
            let Some(name) = inherent(&file.code[at + "impl".len()..]).filter(|_| is_item) else { continue };
            let is_away = homes.get(name).is_some_and(|homes| !homes.contains(room));
            if is_away && !SPREAD.iter().any(|(spread, _)| *spread == name) {
                let what = format!("an `impl` of {name} outside its room: make it a function, or move it");
                found.push(file.finding(line_at(&file.code, at), what));
            }
        }
    }
    found
}

/// The type of an inherent `impl` block, from what follows the word; `None` for a trait's.
fn inherent(rest: &str) -> Option<&str> {
    let mut rest = rest.trim_start();
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    }
    let head = rest.split('{').next()?;
    if !rest.contains('{') || head.contains(" for ") || !head.starts_with(is_word) {
        return None;
    }
    let path = head.split(['<', ' ']).next()?;
    path.rsplit("::").next().filter(|name| !name.is_empty())
}

/// The methods that the inherent `impl` blocks in a file define, by type.
fn methods(file: &Source) -> Vec<(&str, Vec<&str>)> {
    let mut found = vec![];
    for at in words(&file.code, "impl").filter(|&at| !file.in_test(at)) {
        let Some(name) = inherent(&file.code[at + "impl".len()..]) else { continue };
        let Some(region) = body(&file.code, at) else { continue };
        let inside = &file.code[region];
        // Deeper functions are not methods of the type.
        let own = words(inside, "fn").filter(|&at| {
            let line = inside[..at].rsplit('\n').next().unwrap_or("");
            line.starts_with("    ") && !line.starts_with("     ")
        });
        found.push((name, own.map(|at| leading_word(&inside[at + "fn".len()..])).collect()));
    }
    found
}

/// Whether `upper` is the file of a module and `lower` belongs to a module within it: both are one idea. The file of a
/// room, `mod.rs`, does not count.
fn encloses(upper: &str, lower: &str) -> bool {
    let within = upper.strip_suffix(".rs").filter(|module| !module.ends_with("/mod"));
    within.is_some_and(|module| lower.strip_prefix(module).is_some_and(|rest| rest.starts_with('/')))
}

/// The files over which a type is divided do not call each other in a circle through its methods.
pub(crate) fn circles(files: &[Source]) -> Vec<Finding> {
    let inside: Vec<&Source> = files.iter().filter(|file| room(file).is_some() && !file.is_test).collect();
    // By type, which is a name and the file that defines it: the methods in each file.
    let mut divided: BTreeMap<(&str, &str), BTreeMap<usize, BTreeSet<&str>>> = BTreeMap::new();
    for (number, file) in inside.iter().enumerate() {
        for (name, own) in methods(file) {
            let defines =
                |home: &&&Source| room(home) == room(file) && types(home).iter().any(|(_, n)| *n == name);
            let alike =
                |home: &Source| home.path.bytes().zip(file.path.bytes()).take_while(|(a, b)| a == b).count();
            let Some(home) = inside.iter().filter(defines).max_by_key(|home| alike(home)) else { continue };
            divided.entry((name, &home.path)).or_default().entry(number).or_default().extend(own);
        }
    }
    let mut found = vec![];
    for ((name, _), homes) in divided.iter().filter(|(_, homes)| homes.len() > 1) {
        let calls = |from: usize, to: usize| {
            let file = inside[from];
            homes[&to].iter().copied().find(|method| {
                words(&file.code, method).any(|at| {
                    let before = &file.code[..at];
                    let receiver = before
                        .strip_suffix('.')
                        .map_or("", |before| before.rsplit(|c: char| !is_word(c)).next().unwrap_or(""));
                    let is_called = file.code[at + method.len()..].starts_with('(');
                    let is_own = ["self", name.to_lowercase().as_str()].contains(&receiver)
                        || before.ends_with("Self::")
                        || before.ends_with(&format!("{name}::"));
                    is_called && is_own && !file.in_test(at)
                })
            })
        };
        let next: BTreeMap<usize, Vec<(usize, &str)>> = homes
            .keys()
            .map(|&from| {
                let others = homes.keys().filter(|&&to| {
                    let (from, to) = (&inside[from].path, &inside[to].path);
                    from != to && !encloses(from, to) && !encloses(to, from)
                });
                (from, others.filter_map(|&to| Some((to, calls(from, to)?))).collect())
            })
            .collect();
        for (&start, calls) in &next {
            for &(to, method) in calls {
                let (mut seen, mut left) = (BTreeSet::from([to]), vec![to]);
                while let Some(at) = left.pop() {
                    left.extend(next[&at].iter().map(|&(to, _)| to).filter(|&to| seen.insert(to)));
                }
                if seen.contains(&start) {
                    let what = format!(
                        "a circle of calls: {name}::{method} is in {}, which calls back to here",
                        inside[to].path
                    );
                    found.push(inside[start].finding(0, what));
                }
            }
        }
    }
    found
}

/// No field of a part is visible outside its room.
pub(crate) fn fields(file: &Source) -> Vec<Finding> {
    if room(file).is_none() || file.is_test {
        return vec![];
    }
    let mut found = vec![];
    for (at, name) in types(file).into_iter().filter(|(_, name)| PARTS.contains(name)) {
        let Some(region) = body(&file.code, at) else { continue };
        let visible = words(&file.code[region.clone()], "pub").map(|offset| region.start + offset);
        let visible = visible.filter(|&at| !file.code[at..].starts_with("pub(super)"));
        found.extend(visible.map(|at| {
            file.finding(
                line_at(&file.code, at),
                format!("{name} is a part of a store: its fields are private"),
            )
        }));
    }
    found
}

/// The first names below the crate's root that a file uses, by `crate::` or by enough `super::`.
fn names_in_crate(file: &Source, depth: usize) -> Vec<(usize, String)> {
    let supers = "super::".repeat(depth);
    let inline = inline_modules(&file.code);
    let mut found = vec![];
    let mut paths = imports(&file.code);
    for (beginning, at) in
        ["crate::", supers.as_str()].into_iter().flat_map(|b| words(&file.code, b).map(move |at| (b, at)))
    {
        let rest: String = file.code[at..].chars().take_while(|&c| is_word(c) || c == ':').collect();
        let is_macro = file.code[at + rest.len()..].starts_with('!');
        if rest.len() > beginning.len() && !is_macro {
            paths.push((at, rest));
        }
    }
    for (at, path) in paths {
        let below = match path.strip_prefix("crate::") {
            Some(below) => Some(below),
            None if inline.iter().any(|module| module.contains(&at)) => None,
            None => path.strip_prefix(&supers),
        };
        let name = below.map_or("", leading_word);
        if !name.is_empty() && name != "super" {
            found.push((at, name.to_string()));
        }
    }
    found.sort();
    found
}

/// Every rule that looks at one file.
pub(crate) const FILE_RULES: &[fn(&Source) -> Vec<Finding>] =
    &[banned_calls, opens_with_doc, owned_notes, whitespace, rooms, fields];
