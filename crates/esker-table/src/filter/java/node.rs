//! Parts of an expression, and how they are written for the engine.

use regex_syntax::hir::ClassUnicode;

use super::class;

/// Line ends without an equal among the assertions of the engine: next line, line separator and paragraph separator.
const OTHER_LINE_ENDS: &str = r"[\x{85}\x{2028}\x{2029}]";

/// The longest pattern that is written, in bytes. Names of sets of characters are short, and the sets long.
const WRITTEN_LEN_MAX: usize = 1 << 20;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Empty,
    /// One character of a set.
    One(ClassUnicode),
    /// `^`, `\A`, `\G`
    Start,
    /// `\z`
    End,
    /// `$`, `\Z`: the end, or before a line end that is the last. With `(?d)`, only line feeds are line ends.
    LastLine {
        is_unix: bool,
    },
    /// `^` with `(?m)`
    LineStart {
        is_unix: bool,
    },
    /// `$` with `(?m)`
    LineEnd {
        is_unix: bool,
    },
    /// `\b` or `\B`
    Word {
        is_boundary: bool,
    },
    All(Vec<Node>),
    Any(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    /// `(?>X)`, `X*+`: gives back nothing of what it has taken.
    Atomic(Box<Node>),
}

/// What surrounds a part of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    /// Whether all that is before it may be empty.
    pub(super) is_first: bool,
    /// Whether all that is after it may be empty.
    pub(super) is_last: bool,
    /// Whether a character must follow.
    pub(super) has_more: bool,
}

impl Node {
    /// Whether it has a match without a character and without an assertion.
    pub(super) fn may_be_empty(&self) -> bool {
        match self {
            Node::Empty => true,
            Node::All(nodes) => nodes.iter().all(Node::may_be_empty),
            Node::Any(nodes) => nodes.iter().any(Node::may_be_empty),
            Node::Repeat { node, min, .. } => *min == 0 || node.may_be_empty(),
            Node::Atomic(node) => node.may_be_empty(),
            _ => false,
        }
    }

    /// Whether each of its matches has a character.
    pub(super) fn has_character(&self) -> bool {
        match self {
            Node::One(_) => true,
            Node::All(nodes) => nodes.iter().any(Node::has_character),
            Node::Any(nodes) => nodes.iter().all(Node::has_character),
            Node::Repeat { node, min, .. } => *min > 0 && node.has_character(),
            Node::Atomic(node) => node.has_character(),
            _ => false,
        }
    }

    /// Whether both are the same assertion about a place.
    pub(super) fn is_same_assertion(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Start, Node::Start) | (Node::End, Node::End) => true,
            (Node::LastLine { is_unix }, Node::LastLine { is_unix: other })
            | (Node::LineStart { is_unix }, Node::LineStart { is_unix: other })
            | (Node::LineEnd { is_unix }, Node::LineEnd { is_unix: other }) => is_unix == other,
            (Node::Word { is_boundary }, Node::Word { is_boundary: other }) => is_boundary == other,
            _ => false,
        }
    }

    /// Writes it for the engine.
    pub(super) fn write(&self, around: Around, to: &mut String) -> Result<(), String> {
        let refused = |what: &str| Err(what.to_owned());
        if to.len() > WRITTEN_LEN_MAX {
            return refused("it is too large");
        }
        match self {
            Node::Empty => to.push_str("(?:)"),
            Node::One(set) => class::write(set, to),
            Node::Start => to.push_str(r"\A"),
            Node::End => to.push_str(r"\z"),
            Node::Word { is_boundary } => to.push_str(if *is_boundary { r"\b" } else { r"\B" }),
            Node::LastLine { .. } if !around.is_last => {
                return refused("there is something after `$` or \\Z that cannot be empty");
            }
            Node::LastLine { is_unix: true } => to.push_str(r"(?:\n?\z)"),
            Node::LastLine { is_unix: false } => {
                // The assertion does not hold between a carriage return and a line feed.
                *to += &format!(r"(?:(?Rm:$)(?:\r\n|\r|\n)?\z|{OTHER_LINE_ENDS}\z)");
            }
            Node::LineStart { .. } if !around.has_more => {
                return refused(
                    "after `^` with (?m), there is something that may be empty: `^` does not match at the end",
                );
            }
            Node::LineStart { is_unix: true } => to.push_str("(?m:^)"),
            Node::LineStart { is_unix: false } if around.is_first => {
                *to += &format!("(?:(?Rm:^)|{OTHER_LINE_ENDS})");
            }
            Node::LineStart { is_unix: false } => return refused("there is something before `^` with (?m)"),
            Node::LineEnd { is_unix: true } => to.push_str("(?m:$)"),
            Node::LineEnd { is_unix: false } if around.is_last => {
                *to += &format!("(?:(?Rm:$)|{OTHER_LINE_ENDS})");
            }
            Node::LineEnd { is_unix: false } => {
                return refused("there is something after `$` with (?m) that cannot be empty");
            }
            Node::All(nodes) => {
                to.push_str("(?:");
                // What is after each of them.
                let mut after = vec![around; nodes.len()];
                for at in (1..nodes.len()).rev() {
                    let (is_last, has_more) = (after[at].is_last, after[at].has_more);
                    after[at - 1].is_last = is_last && nodes[at].may_be_empty();
                    after[at - 1].has_more = has_more || nodes[at].has_character();
                }
                let mut is_first = around.is_first;
                for (node, after) in nodes.iter().zip(after) {
                    node.write(Around { is_first, ..after }, to)?;
                    is_first &= node.may_be_empty();
                }
                to.push(')');
            }
            Node::Any(nodes) => {
                to.push_str("(?:");
                for (at, node) in nodes.iter().enumerate() {
                    if at > 0 {
                        to.push('|');
                    }
                    node.write(around, to)?;
                }
                to.push(')');
            }
            Node::Repeat { node, min, max } => {
                let is_alone = *min <= 1 || node.may_be_empty();
                let around = Around {
                    is_first: around.is_first && is_alone,
                    is_last: around.is_last && is_alone,
                    ..around
                };
                to.push_str("(?:");
                node.write(around, to)?;
                *to += &match max {
                    Some(max) => format!("){{{min},{max}}}"),
                    None => format!("){{{min},}}"),
                };
            }
            Node::Atomic(node) if around.is_last => node.write(around, to)?,
            Node::Atomic(_) => {
                return refused(
                    "an atomic group or a quantifier with `+` gives back nothing, and something after it cannot be empty: write it \
                     without `>` or `+`",
                );
            }
        }
        Ok(())
    }
}
