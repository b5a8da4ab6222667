//! Circles of files by imports, in every crate.
//!
//! ```text
//! a.rs: use crate::b::B;      b.rs: fn b() { crate::a::f() }      a.rs -> b.rs -> a.rs: a circle
//! ```
//! A file *imports* another if its code names something that the other file defines: in a `use`, or by a path such as
//! `crate::b::f` or `super::B`. Code that only tests compile does not count. What counts:
//!
//! - A name counts for the file that defines it. `use crate::Error` in a crate whose `lib.rs` has `pub use error::Error`
//!   imports `error.rs`, not `lib.rs`. The same holds for a name that a parent only imports, and that its child takes by
//!   `super::`.
//! - A module and its own child are two files like any others. `mod child;` alone imports nothing, nor does a `pub use` of
//!   a name that the file itself does not mention again. A child may therefore use `super::` freely if its parent only
//!   declares and re-exports it. If the parent also calls the child (`child::f()`, or `use child::Part` and a `Part` in its
//!   own code) and the child names something that the parent defines, the two are a circle.
//! - `use` of a module imports nothing: the paths that begin with its name do. `use x::*` imports the names of `x` that
//!   occur in the file.
//! - A name that no item, `use` or `mod` of a module explains, for example one that a macro defines, counts as defined in
//!   the file of the module.
//! - Methods are not names: `a.f()` imports nothing. `rules::circles` looks at the methods of a type in several files.
//!
//! The files of a circle are a strongly connected component of this graph. `debts::KNOWN` lists those that are left.

use std::collections::{BTreeMap, BTreeSet};

use crate::lex::{Region, Use, body, is_word, leading_word, line_at, uses, words};
use crate::rules::{Finding, Source, is_crate_root, named_files};

/// A module: that of a file, or one that is written inside a file.
struct Module {
    file: usize,
    parent: Option<usize>,
    /// Its code in the file.
    region: Region,
    children: BTreeMap<String, usize>,
    /// The names of items that it defines.
    items: BTreeSet<String>,
    uses: Vec<Use>,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// Something that this file defines.
    Item(usize),
    /// Something of another crate.
    Foreign,
}

/// Words before the name of an item.
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules!"];

/// A crate's modules outside tests. The first is the root.
struct Tree<'a> {
    files: &'a [Source],
    modules: Vec<Module>,
}

impl<'a> Tree<'a> {
    fn new(files: &'a [Source], root: usize) -> Tree<'a> {
        let mut tree = Tree { files, modules: vec![] };
        tree.add(root, None, 0..files[root].code.len());
        tree
    }

    /// Adds a module and those within it.
    fn add(&mut self, file: usize, parent: Option<usize>, region: Region) -> usize {
        let number = self.modules.len();
        let source = &self.files[file];
        let inline = inline_modules(source, &region);
        let in_module = |at: usize| {
            region.contains(&at)
                && !source.in_test(at)
                && !inline.iter().any(|(_, module)| module.contains(&at))
        };
        let mut uses = uses(&source.code);
        uses.retain(|found| in_module(found.item.start));
        let items = items(&source.code, &region).into_iter().filter(|(at, _)| in_module(*at));
        let items = items.map(|(_, name)| name).collect();
        let is_file = region == (0..source.code.len());
        self.modules.push(Module { file, parent, region, children: BTreeMap::new(), items, uses });
        let mut children = BTreeMap::new();
        for (name, region) in inline.into_iter().filter(|(_, region)| !source.in_test(region.start)) {
            children.insert(name, self.add(file, Some(number), region));
        }
        for named in named_files(source).into_iter().filter(|named| is_file && !named.is_test) {
            let Some(child) = self.files.iter().position(|file| file.path == named.path) else { continue };
            let region = 0..self.files[child].code.len();
            children.insert(named.name, self.add(child, Some(number), region));
        }
        self.modules[number].children = children;
        number
    }

    /// What `path` leads to from within a module; `None` if it leaves the crate. `seen` holds the names on the way here.
    fn resolve(&self, from: usize, path: &str, seen: &mut Vec<(usize, String)>) -> Option<Target> {
        let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        let mut at = Target::Module(from);
        for (i, part) in parts.iter().enumerate() {
            let Target::Module(module) = at else { break };
            at = match *part {
                "crate" => Target::Module(0),
                "self" => at,
                "super" => Target::Module(self.modules[module].parent?),
                name => match self.look_up(module, name, i + 1 == parts.len(), seen) {
                    Some(found) => found,
                    None if i == 0 => return None,
                    None => Target::Item(self.modules[module].file),
                },
            };
        }
        Some(at)
    }

    /// What a name means in a module. As the last part of a path it is an item before it is a module.
    fn look_up(
        &self,
        module: usize,
        name: &str,
        is_last: bool,
        seen: &mut Vec<(usize, String)>,
    ) -> Option<Target> {
        let key = (module, name.to_owned());
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
        let here = &self.modules[module];
        let child = here.children.get(name).map(|&child| Target::Module(child));
        let item = here.items.contains(name).then_some(Target::Item(here.file));
        let used = here.uses.iter().find(|found| found.name == name && !found.path.ends_with('*'));
        let used = used.map(|found| self.resolve(module, &found.path, seen).unwrap_or(Target::Foreign));
        let inside = used.filter(|target| *target != Target::Foreign);
        let found = if is_last { inside.or(item).or(child) } else { child.or(inside).or(item) };
        found.or(used).or_else(|| {
            let globs = here.uses.iter().filter(|found| found.path.ends_with("::*"));
            globs.filter_map(|glob| self.look_up_in_glob(module, glob, name, seen)).next()
        })
    }

    fn look_up_in_glob(
        &self,
        module: usize,
        glob: &Use,
        name: &str,
        seen: &mut Vec<(usize, String)>,
    ) -> Option<Target> {
        match self.resolve(module, glob.path.strip_suffix("::*")?, seen)? {
            Target::Module(of) => self.look_up(of, name, true, seen),
            _ => None,
        }
    }

    /// The names that a module offers, those of its globs aside.
    fn names(&self, module: usize) -> BTreeSet<&str> {
        let here = &self.modules[module];
        let used = here.uses.iter().map(|found| found.name.as_str());
        used.chain(here.items.iter().map(String::as_str)).collect()
    }

    /// The imports of all files: from which file, at which offset, of which other file, by which path.
    fn imports(&self) -> Vec<(usize, usize, usize, String)> {
        let mut found = vec![];
        for (number, module) in self.modules.iter().enumerate() {
            let source = &self.files[module.file];
            let mut note = |at: usize, path: String| {
                if let Some(Target::Item(to)) = self.resolve(number, &path, &mut vec![])
                    && to != module.file
                {
                    found.push((module.file, at, to, path));
                }
            };
            for import in &module.uses {
                let at = import.item.start;
                if let Some(whole) = import.path.strip_suffix("::*") {
                    match self.resolve(number, whole, &mut vec![]) {
                        Some(Target::Module(of)) => {
                            let names =
                                self.names(of).into_iter().filter(|name| mentions(source, module, name));
                            names.for_each(|name| note(at, format!("{whole}::{name}")));
                        }
                        _ => note(at, whole.to_owned()),
                    }
                } else if !import.is_export || mentions(source, module, &import.name) {
                    note(at, import.path.clone());
                }
            }
            for (at, path) in inline_paths(source, module) {
                if !self.modules.iter().any(|inner| {
                    inner.file == module.file
                        && inner.region.len() < module.region.len()
                        && inner.region.contains(&at)
                }) {
                    note(at, path);
                }
            }
        }
        found
    }
}

/// The modules with a body directly inside a part of a file: name and body.
fn inline_modules(source: &Source, outer: &Region) -> Vec<(String, Region)> {
    let mut found: Vec<(String, Region)> = vec![];
    for at in words(&source.code, "mod").filter(|&at| outer.start < at + 1 && at < outer.end) {
        let Some(region) = body(&source.code, at) else { continue };
        if !found.iter().any(|(_, other)| other.contains(&at)) {
            found.push((leading_word(&source.code[at + "mod".len()..]).to_owned(), region));
        }
    }
    found
}

/// The items directly inside a part of a file: where, and the name.
fn items(code: &str, region: &Region) -> Vec<(usize, String)> {
    let is_file = region.len() == code.len();
    let top = if is_file { 0 } else { 1 };
    let mut depths = vec![0i32; code.len() + 1];
    let mut depth = 0;
    for (at, c) in code.char_indices().filter(|(at, _)| region.contains(at)) {
        depth -= i32::from(c == '}');
        depths[at] = depth;
        depth += i32::from(c == '{');
    }
    let named = ITEMS
        .iter()
        .flat_map(|word| words(code, word).map(move |at| (at, leading_word(&code[at + word.len()..]))));
    let own = named.filter(|(at, name)| region.contains(at) && depths[*at] == top && !name.is_empty());
    own.map(|(at, name)| (at, name.to_owned())).collect()
}

/// Whether a module's code outside tests and `use` items has `name` as the beginning of a path.
fn mentions(source: &Source, module: &Module, name: &str) -> bool {
    let code = &source.code;
    words(code, name).any(|at| {
        let before = code[..at].trim_end();
        let is_member = before.ends_with('.') && !before.ends_with("..") || before.ends_with("::");
        let is_defined =
            ["fn", "mod", "let", "as"].contains(&before.rsplit(|c| !is_word(c)).next().unwrap_or(""));
        let after = code[at + name.len()..].trim_start();
        let is_field = after.starts_with(':') && !after.starts_with("::");
        module.region.contains(&at)
            && !(is_member || is_defined || is_field || source.in_test(at))
            && !module.uses.iter().any(|found| found.item.contains(&at))
    })
}

/// The paths of at least two parts in a module's code outside tests and `use` items.
fn inline_paths(source: &Source, module: &Module) -> Vec<(usize, String)> {
    let code = &source.code;
    let mut found = vec![];
    let mut end = 0;
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|c| !is_word(c)).map_or(0, |before| before + 1);
        let is_inner =
            at < end || start == at || code[..start].ends_with("::") || code[..start].ends_with('.');
        if is_inner || !module.region.contains(&at) || source.in_test(at) {
            continue;
        }
        let path: String = code[start..].chars().take_while(|&c| is_word(c) || c == ':').collect();
        end = start + path.len();
        let is_macro = code[end..].starts_with('!') && !path.starts_with("crate::");
        let in_use = module.uses.iter().any(|found| found.item.contains(&at));
        let is_visibility = code[..start].ends_with("pub(in ");
        if !(is_macro || in_use || is_visibility) {
            found.push((start, path.trim_end_matches(':').to_owned()));
        }
    }
    found
}

/// The circles of a crate's files: the files of each, and the finding for each import within it.
fn circles_of(files: &[Source], root: usize) -> Vec<(BTreeSet<String>, Vec<Finding>)> {
    let imports = Tree::new(files, root).imports();
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for &(from, _, to, _) in &imports {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> = next
        .keys()
        .map(|&start| {
            let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
            while let Some(at) = left.pop() {
                left.extend(next.get(&at).into_iter().flatten().filter(|&&to| seen.insert(to)));
            }
            (start, seen)
        })
        .collect();
    let reaches = |from: usize, to: usize| reached.get(&from).is_some_and(|seen| seen.contains(&to));
    let mut circles: BTreeMap<BTreeSet<usize>, Vec<Finding>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for (from, at, to, path) in imports {
        if reaches(to, from) && lines.insert((from, to)) {
            let circle = next.keys().copied().filter(|&other| reaches(from, other) && reaches(other, from));
            let what =
                format!("a circle of files: {path} is in {}, which leads back to here", files[to].path);
            circles
                .entry(circle.collect())
                .or_default()
                .push(files[from].finding(line_at(&files[from].code, at), what));
        }
    }
    let named = |circle: BTreeSet<usize>| circle.into_iter().map(|file| files[file].path.clone()).collect();
    circles.into_iter().map(|(circle, findings)| (named(circle), findings)).collect()
}

/// The circles that `known` does not list, and those that it lists and that are gone or have other files. `known` has the
/// circles of each crate, by names below the crate's sources.
pub(crate) fn circles(files: &[Source], known: &[(&str, &[&[&str]])]) -> Vec<Finding> {
    let is_root = |path: &str| path.starts_with("crates/") && path.contains("/src/") && is_crate_root(path);
    let roots = (0..files.len()).filter(|&i| is_root(&files[i].path));
    let circles: Vec<_> = roots.flat_map(|root| circles_of(files, root)).collect();
    let known: Vec<BTreeSet<String>> = known
        .iter()
        .flat_map(|(folder, circles)| circles.iter().map(move |circle| (folder, circle)))
        .map(|(folder, circle)| circle.iter().map(|file| format!("{folder}/{file}")).collect())
        .collect();
    let new = circles.iter().filter(|(circle, _)| !known.contains(circle));
    let mut found: Vec<Finding> = new.flat_map(|(_, findings)| findings.clone()).collect();
    for gone in known.iter().filter(|known| !circles.iter().any(|(circle, _)| circle == *known)) {
        found.push(format!("tests/tidy/debts.rs: there is no circle of exactly these files: {gone:?}"));
    }
    found
}
