//! ACL files: lines `user NAME rule rule ...`, blank lines, and lines that begin with `#`.

use std::collections::HashSet;
use std::fmt;

use super::rules::Rule;

/// The longest name of a user, in bytes.
const NAME_MAX: usize = 256;

/// A user of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The number of the line, from 1 on.
    pub number: usize,
    /// The name of the user.
    pub name: Vec<u8>,
    /// Its rules, each with what may be shown of it.
    pub rules: Vec<(Rule, String)>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Whether a user may have this name: one that a file can hold.
pub fn is_name(name: &[u8]) -> bool {
    let is_bad = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
    !name.is_empty() && name.len() <= NAME_MAX && !name.iter().any(is_bad)
}

/// The users of a file, whose text this is.
///
/// # Errors
/// The first line that is wrong.
pub fn lines(text: &[u8]) -> Result<Vec<Line>, FileError> {
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    for (place, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = place + 1;
        let wrong = |message: String| FileError { line: number, message };
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { continue };
        if first.starts_with(b"#") {
            continue;
        }
        if first != b"user" {
            return Err(wrong("a line begins with `user` and a name".to_owned()));
        }
        let name = words.next().filter(|name| is_name(name));
        let name = name.ok_or_else(|| wrong("`user` needs a name of 1 to 256 bytes".to_owned()))?;
        if !names.insert(name) {
            return Err(wrong(format!("the user '{}' is there twice", String::from_utf8_lossy(name))));
        }
        let rule = |word: &[u8]| match Rule::parse(word) {
            Ok(rule) => Ok((rule, Rule::shown(word))),
            Err(why) => Err(wrong(format!("'{}': {why}", Rule::shown(word)))),
        };
        found.push(Line { number, name: name.to_vec(), rules: words.map(rule).collect::<Result<_, _>>()? });
    }
    Ok(found)
}
