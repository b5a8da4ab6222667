//! Sets of characters, by the names that Java has for them.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The characters from one to another.
pub(super) fn range(from: char, to: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(from, to)])
}

/// The characters that `text` has, and those between the two of each pair that a `-` joins.
pub(super) fn of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(from, to)| ClassUnicodeRange::new(*from, *to)))
}

pub(super) fn all() -> ClassUnicode {
    range('\0', char::MAX)
}

pub(super) fn union(mut one: ClassUnicode, other: &ClassUnicode) -> ClassUnicode {
    one.union(other);
    one
}

pub(super) fn complement(mut set: ClassUnicode) -> ClassUnicode {
    set.negate();
    set
}

/// Writes the set for the engine.
pub(super) fn write(set: &ClassUnicode, to: &mut String) {
    if set.ranges().is_empty() {
        // Nothing.
        to.push_str(r"[^\x{0}-\x{10ffff}]");
        return;
    }
    if let [one] = set.ranges()
        && one.start() == one.end()
    {
        *to += &format!(r"\x{{{:x}}}", u32::from(one.start()));
        return;
    }
    to.push('[');
    for range in set.ranges() {
        *to += &format!(r"\x{{{:x}}}", u32::from(range.start()));
        if range.end() > range.start() {
            *to += &format!(r"-\x{{{:x}}}", u32::from(range.end()));
        }
    }
    to.push(']');
}

/// The set that Unicode's property has, as the engine names it.
fn unicode(name: &str) -> Option<ClassUnicode> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ' | b'-' | b'=');
    if !name.bytes().all(is_plain) {
        return None;
    }
    match regex_syntax::parse(&format!(r"\p{{{name}}}")).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set),
        // A set of one character.
        HirKind::Literal(literal) => {
            let character = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(range(character, character))
        }
        _ => None,
    }
}

const LINE_ENDS: [(char, char); 4] =
    [('\n', '\n'), ('\r', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

/// What `.` has without DOTALL.
pub(super) fn within_line(is_unix: bool) -> ClassUnicode {
    complement(if is_unix { range('\n', '\n') } else { of(&LINE_ENDS) })
}

/// The set of `\d`, `\w`, `\s`, `\h` or `\v`.
pub(super) fn named_by(letter: char) -> Option<ClassUnicode> {
    Some(match letter {
        'd' => range('0', '9'),
        'w' => of(&[('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]),
        's' => of(&[('\t', '\r'), (' ', ' ')]),
        'h' => of(&[
            ('\t', '\t'),
            (' ', ' '),
            ('\u{a0}', '\u{a0}'),
            ('\u{1680}', '\u{1680}'),
            ('\u{180e}', '\u{180e}'),
            ('\u{2000}', '\u{200a}'),
            ('\u{202f}', '\u{202f}'),
            ('\u{205f}', '\u{205f}'),
            ('\u{3000}', '\u{3000}'),
        ]),
        'v' => of(&[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')]),
        _ => return None,
    })
}

/// The set of `\p{name}`; `ignores_case` is that of `(?i)`.
///
/// # Errors
/// Why there is none.
pub(super) fn property(name: &str, ignores_case: bool) -> Result<ClassUnicode, String> {
    let unknown = || format!("there is no property {name:?}");
    if let Some((what, value)) = name.split_once('=') {
        return match what.to_ascii_lowercase().as_str() {
            "sc" | "script" => unicode(&format!("sc={value}")),
            "gc" | "general_category" => category(value, ignores_case),
            "blk" | "block" => {
                return Err("blocks of Unicode are not known: name a script, or a range".to_owned());
            }
            _ => None,
        }
        .ok_or_else(unknown);
    }
    if name.starts_with("In") {
        return Err("blocks of Unicode are not known: name a script, or a range".to_owned());
    }
    if name.starts_with("java") {
        return Err("properties of Java's Character are not known: name one of Unicode".to_owned());
    }
    let set = match name.strip_prefix("Is") {
        Some(name) => binary(name, ignores_case)
            .or_else(|| category(name, ignores_case))
            .or_else(|| unicode(&format!("sc={name}"))),
        None => category(name, ignores_case).or_else(|| posix(name, ignores_case)),
    };
    set.ok_or_else(unknown)
}

/// A general category of Unicode, by its short name, or one of Java's own.
fn category(name: &str, ignores_case: bool) -> Option<ClassUnicode> {
    const SHORT: [&str; 37] = [
        "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
        "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z",
        "Zl", "Zp", "Zs",
    ];
    Some(match name {
        "Ll" | "Lu" | "Lt" if ignores_case => unicode("LC")?,
        "LC" => unicode("LC")?,
        "LD" => union(unicode("L")?, &unicode("Nd")?),
        "L1" => range('\0', '\u{ff}'),
        "all" => all(),
        // No text that was decoded has a surrogate.
        "Cs" => ClassUnicode::empty(),
        _ => return SHORT.contains(&name).then(|| unicode(name)).flatten(),
    })
}

/// The sets of POSIX, of ASCII.
fn posix(name: &str, ignores_case: bool) -> Option<ClassUnicode> {
    let letters = [('A', 'Z'), ('a', 'z')];
    Some(match name {
        "Lower" | "Upper" if ignores_case => of(&letters),
        "Lower" => range('a', 'z'),
        "Upper" => range('A', 'Z'),
        "ASCII" => range('\0', '\x7f'),
        "Alpha" => of(&letters),
        "Digit" => range('0', '9'),
        "Alnum" => of(&[letters[0], letters[1], ('0', '9')]),
        "Punct" => of(&[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        "Graph" => range('!', '~'),
        "Print" => range(' ', '~'),
        "Blank" => of(&[(' ', ' '), ('\t', '\t')]),
        "Cntrl" => of(&[('\0', '\x1f'), ('\x7f', '\x7f')]),
        "XDigit" => of(&[('0', '9'), ('A', 'F'), ('a', 'f')]),
        "Space" => of(&[('\t', '\r'), (' ', ' ')]),
        _ => return None,
    })
}

/// A property of Unicode that a character has or has not.
fn binary(name: &str, ignores_case: bool) -> Option<ClassUnicode> {
    let upper = name.to_ascii_uppercase();
    Some(match upper.as_str() {
        "LOWERCASE" | "UPPERCASE" | "TITLECASE" if ignores_case => {
            union(union(unicode("Lowercase")?, &unicode("Uppercase")?), &unicode("Lt")?)
        }
        "LOWERCASE" => unicode("Lowercase")?,
        "UPPERCASE" => unicode("Uppercase")?,
        "TITLECASE" => unicode("Lt")?,
        "ALPHABETIC" => unicode("Alphabetic")?,
        "LETTER" => unicode("L")?,
        "IDEOGRAPHIC" => unicode("Ideographic")?,
        "PUNCTUATION" => unicode("P")?,
        "CONTROL" => unicode("Cc")?,
        "DIGIT" => unicode("Nd")?,
        "ASSIGNED" => complement(unicode("Cn")?),
        "WHITE_SPACE" | "WHITESPACE" => unicode("White_Space")?,
        "HEX_DIGIT" | "HEXDIGIT" => union(unicode("Nd")?, &unicode("Hex_Digit")?),
        "NONCHARACTER_CODE_POINT" | "NONCHARACTERCODEPOINT" => unicode("Noncharacter_Code_Point")?,
        "JOIN_CONTROL" | "JOINCONTROL" => unicode("Join_Control")?,
        _ => return None,
    })
}
