//! Just enough of Rust's lexical rules to judge a file by its text.
//!
//! [`mask`] blanks comments and the insides of string and character literals and keeps every line where
//! it was, so that a word found in the result is code:
//!
//! ```text
//! let a = "fn b() {"; // c   ->   let a = "        ";
//! ```
//!
//! What remains is searched by hand below: words, brace regions, attributes, `use` trees. None of it
//! parses Rust; it relies on the tree being formatted by rustfmt and on its compiling.

/// A comment's first line (zero-based) and its text.
pub(crate) type Comment = (usize, String);

/// Half-open range of byte offsets.
pub(crate) type Region = std::ops::Range<usize>;

/// The code with comments and literals blanked, and the comments.
pub(crate) fn mask(text: &str) -> (String, Vec<Comment>) {
    let mut masker =
        Masker { chars: text.chars().collect(), at: 0, line: 0, code: String::new(), comments: vec![] };
    while let Some(here) = masker.peek(0) {
        match (here, masker.peek(1)) {
            ('/', Some('/')) => masker.line_comment(),
            ('/', Some('*')) => masker.block_comment(),
            ('"', _) => masker.string(),
            ('r', Some('"' | '#')) if !masker.after_word() => masker.raw_string(),
            ('\'', _) => masker.quote(),
            _ => masker.keep(),
        }
    }
    (masker.code, masker.comments)
}

struct Masker {
    chars: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    comments: Vec<Comment>,
}

impl Masker {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        if let Some(c) = self.peek(0) {
            self.line += usize::from(c == '\n');
            self.code.push(c);
            self.at += 1;
        }
    }

    fn blank(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.line += usize::from(c == '\n');
        self.code.push(if c == '\n' { '\n' } else { ' ' });
        self.at += 1;
        Some(c)
    }

    /// Whether the character before belongs to a word other than the prefixes `b` and `c` of a literal.
    fn after_word(&self) -> bool {
        let back = |n: usize| self.at.checked_sub(n).and_then(|i| self.chars.get(i)).copied();
        match back(1) {
            Some('b' | 'c') => back(2).is_some_and(is_word),
            Some(c) => is_word(c),
            None => false,
        }
    }

    fn line_comment(&mut self) {
        let (line, start) = (self.line, self.at);
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.blank();
        }
        self.comments.push((line, self.chars[start..self.at].iter().collect()));
    }

    fn block_comment(&mut self) {
        let (line, start) = (self.line, self.at);
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => break,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                break;
            }
        }
        self.comments.push((line, self.chars[start..self.at].iter().collect()));
    }

    fn string(&mut self) {
        self.keep();
        while let Some(c) = self.peek(0) {
            if c == '"' {
                self.keep();
                return;
            }
            if self.blank() == Some('\\') {
                self.blank();
            }
        }
    }

    fn raw_string(&mut self) {
        let hashes = self.chars[self.at + 1..].iter().take_while(|&&c| c == '#').count();
        self.keep();
        if self.peek(hashes) != Some('"') {
            return; // a raw identifier such as r#type
        }
        (0..=hashes).for_each(|_| self.keep());
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"') && (1..=hashes).all(|n| self.peek(n) == Some('#'));
            if closes {
                (0..=hashes).for_each(|_| self.keep());
                return;
            }
            self.blank();
        }
    }

    /// A character literal, or the mark of a lifetime.
    fn quote(&mut self) {
        self.keep();
        if self.peek(0) == Some('\\') {
            self.blank();
            self.blank();
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.blank();
            }
            self.keep();
        } else if self.peek(1) == Some('\'') {
            self.blank();
            self.keep();
        }
    }
}

/// Whether `c` can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The zero-based line of a byte offset.
pub(crate) fn line_at(code: &str, offset: usize) -> usize {
    code[..offset].matches('\n').count()
}

/// Offsets at which `word` stands alone.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let ends_in_word = word.chars().next_back().is_some_and(is_word);
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !(before.is_some_and(is_word) || ends_in_word && after.is_some_and(is_word))
    })
}

/// The identifier that begins at the first non-blank of `code`.
pub(crate) fn leading_word(code: &str) -> &str {
    let code = code.trim_start();
    &code[..code.find(|c| !is_word(c)).unwrap_or(code.len())]
}

/// From the first `{` at or after `from` to its `}`; nothing where a `;` outside brackets comes first.
pub(crate) fn body(code: &str, from: usize) -> Option<Region> {
    let mut brackets = 0i32;
    let open = code[from..].char_indices().find_map(|(i, c)| {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 => return Some(None),
            '{' if brackets == 0 => return Some(Some(from + i)),
            _ => {}
        }
        None
    })??;
    let mut depth = 0i32;
    let close = code[open..].char_indices().find(|&(_, c)| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    })?;
    Some(open..open + close.0 + 1)
}

/// What only tests compile: the items behind `#[cfg(test)]`, `#[cfg(all(test, ...))]` and `#[test]`.
pub(crate) fn test_regions(code: &str) -> Vec<Region> {
    ["#[cfg(test)]", "#[cfg(all(test", "#[test]"]
        .iter()
        .flat_map(|attribute| code.match_indices(attribute))
        .filter_map(|(at, _)| {
            let item = skip_attributes(code, at);
            let is_use = words(head(&code[item..]), "use").next().is_some();
            let block = if is_use { None } else { body(code, item).map(|found| found.end) };
            Some(at..block.or_else(|| Some(item + code[item..].find(';')? + 1))?)
        })
        .collect()
}

/// Where the item begins whose attributes begin at `at`.
fn skip_attributes(code: &str, at: usize) -> usize {
    let rest = code[at..].trim_start();
    let at = code.len() - rest.len();
    if !rest.starts_with("#[") {
        return at;
    }
    let mut depth = 0i32;
    let close = rest.find(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ']' && depth == 0
    });
    close.map_or(at, |close| skip_attributes(code, at + close + 1))
}

/// An item up to what names it: `pub(crate) use a::`, `fn f`.
fn head(item: &str) -> &str {
    &item[..item.find([':', '{', ';', '=', '<']).unwrap_or(item.len())]
}

/// The bodies of modules written inside another module's file.
pub(crate) fn inline_modules(code: &str) -> Vec<Region> {
    words(code, "mod").filter_map(|at| body(code, at)).collect()
}

/// A name that a `use` item brings into its module.
pub(crate) struct Use {
    /// The whole item, from `use` to `;`.
    pub(crate) item: Region,
    /// What is named, with `*` or `self` as the last part of some.
    pub(crate) path: String,
    /// The name in this module: the last part of the path, or what follows `as`.
    pub(crate) name: String,
    /// Whether the item begins with `pub`, so that other modules find the name here.
    pub(crate) is_export: bool,
}

/// Every path that a file's `use` items name, with the offset of the item: `use a::{b, c::d}` gives
/// `a::b` and `a::c::d`.
pub(crate) fn imports(code: &str) -> Vec<(usize, String)> {
    uses(code).into_iter().map(|found| (found.item.start, found.path)).collect()
}

/// The names that a file's `use` items bring in, in their order.
pub(crate) fn uses(code: &str) -> Vec<Use> {
    let mut found = vec![];
    // `use<'a>` captures lifetimes.
    for at in words(code, "use").filter(|at| !code[at + 3..].starts_with('<')) {
        let Some(end) = code[at..].find(';') else { continue };
        let tree = code[at + 3..at + end].split_whitespace().collect::<Vec<_>>().join(" ");
        let line = code[..at].rsplit('\n').next().unwrap_or("");
        let is_export = leading_word(line) == "pub";
        let mut paths = vec![];
        expand("", &tree, &mut paths);
        let item = at..at + end + 1;
        found.extend(paths.into_iter().map(|(path, name)| Use { item: item.clone(), path, name, is_export }));
    }
    found
}

/// The paths of a tree, each with the name that it brings in.
fn expand(prefix: &str, tree: &str, out: &mut Vec<(String, String)>) {
    let Some(open) = tree.find('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = format!("{prefix}{}", path.trim());
        let last = path.strip_suffix("::self").unwrap_or(&path).rsplit("::").next().unwrap_or(&path);
        let name = if alias.is_empty() { last } else { alias.trim() }.to_owned();
        if !tree.trim().is_empty() {
            out.push((path, name));
        }
        return;
    };
    let close = tree.rfind('}').unwrap_or(tree.len());
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let (mut depth, mut start) = (0i32, open + 1);
    for (i, c) in tree.char_indices().take_while(|&(i, _)| i <= close).skip_while(|&(i, _)| i <= open) {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                expand(&prefix, tree[start..i].trim(), out);
                start = i + 1;
            }
            _ => {}
        }
    }
}
