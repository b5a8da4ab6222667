//! Text that is pasted at a terminal. Terminals mark it (bracketed paste), so that it does not count as editing.
//!
//! ```text
//! ESC[200~  put a 1 CR put b 2 CR get  ESC[201~      what the terminal sends
//!           |------'|-------'|--'
//!           lines that are run, in order;  the last one, which nobody has ended, is left to be edited
//! ```
//!
//! Characters that are keys elsewhere (tab completes, Ctrl-D ends the shell) stand for themselves, if a line can hold
//! them. The editor gets the first line and the last one; the lines between never appear in it.

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustyline::{
    Cmd, ConditionalEventHandler, Event, EventContext, EventHandler, KeyCode, KeyEvent, Modifiers,
    RepeatCount,
};

/// The pasted text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pasted {
    /// The lines to run. The first one begins with the text in front of the cursor.
    pub(super) lines: Vec<String>,
    /// The unfinished line, in front of and behind the cursor.
    pub(super) unfinished: (String, String),
}

/// The state of a paste in progress.
#[derive(Debug, Default)]
struct State {
    is_pasting: bool,
    pasted: Pasted,
    /// The text after the last line's end.
    text: String,
    /// Whether the last key was a carriage return: a line feed after it belongs to it.
    ends_with_return: bool,
    /// How many characters were left out because no line can hold them.
    left_out: u64,
}

/// Receives pasted text. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Paste(Arc<Mutex<State>>);

impl Paste {
    /// The handler to bind to every key.
    pub(super) fn handler(&self) -> EventHandler {
        EventHandler::Conditional(Box::new(self.clone()))
    }

    /// The text pasted since the last call, if it had line ends, and how many characters were left out.
    pub(super) fn take(&self) -> (Option<Pasted>, u64) {
        let state = take(&mut *self.state());
        let pasted = (!state.pasted.lines.is_empty()).then_some(state.pasted);
        (pasted, state.left_out)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConditionalEventHandler for Paste {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        self.state().key(*event.get(0)?, context.line(), context.pos())
    }
}

impl State {
    /// Handles a key that was pressed, or pasted, at `at` in the edited `line`. `None`: it is not part of a paste.
    fn key(&mut self, key: KeyEvent, line: &str, at: usize) -> Option<Cmd> {
        if key.0 == KeyCode::BracketedPasteStart {
            self.is_pasting = true;
            return Some(Cmd::Noop);
        }
        if !self.is_pasting {
            return None;
        }
        let follows_return = take(&mut self.ends_with_return);
        match key {
            KeyEvent(KeyCode::BracketedPasteEnd, _) => return Some(self.end()),
            // A way out if the end never comes.
            KeyEvent(KeyCode::Char('C'), Modifiers::CTRL) => {
                *self = State::default();
                return Some(Cmd::Interrupt);
            }
            KeyEvent(KeyCode::Enter, _) => {
                self.ends_with_return = true;
                return Some(self.end_line(line, at));
            }
            KeyEvent(KeyCode::Char('J'), Modifiers::CTRL) if follows_return => {}
            KeyEvent(KeyCode::Char('J'), Modifiers::CTRL) => return Some(self.end_line(line, at)),
            KeyEvent(KeyCode::Tab, Modifiers::NONE) => self.text.push('\t'),
            KeyEvent(KeyCode::Char(c), Modifiers::NONE | Modifiers::SHIFT) => self.text.push(c),
            _ => self.left_out += 1,
        }
        Some(Cmd::Noop)
    }

    /// Inserts the first line into the edited one, so that the user sees the line that is run.
    fn end_line(&mut self, line: &str, at: usize) -> Cmd {
        let text = take(&mut self.text);
        if !self.pasted.lines.is_empty() {
            self.pasted.lines.push(text);
            return Cmd::Noop;
        }
        let (before, behind) = line.split_at_checked(at).unwrap_or((line, ""));
        self.pasted.lines.push(format!("{before}{text}"));
        self.pasted.unfinished.1 = behind.to_owned();
        insert(text)
    }

    fn end(&mut self) -> Cmd {
        self.is_pasting = false;
        let text = take(&mut self.text);
        if self.pasted.lines.is_empty() {
            return insert(text);
        }
        self.pasted.unfinished.0 = text;
        Cmd::AcceptLine
    }
}

fn insert(text: String) -> Cmd {
    if text.is_empty() { Cmd::Noop } else { Cmd::Insert(1, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pastes `text` at the `|` in `line`. Returns the editor's commands without `Noop`s.
    fn paste(state: &mut State, line: &str, text: &str) -> Vec<Cmd> {
        let at = line.find('|').unwrap();
        let line = line.replace('|', "");
        let mut keys = vec![KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE)];
        keys.extend(text.chars().map(|c| KeyEvent::new(c, Modifiers::NONE)));
        keys.push(KeyEvent(KeyCode::BracketedPasteEnd, Modifiers::NONE));
        let told = keys.into_iter().map(|key| state.key(key, &line, at).unwrap());
        told.filter(|cmd| *cmd != Cmd::Noop).collect()
    }

    fn pasted(line: &str, text: &str) -> (Vec<Cmd>, Vec<String>, (String, String)) {
        let mut state = State::default();
        let told = paste(&mut state, line, text);
        (told, state.pasted.lines, state.pasted.unfinished)
    }

    #[test]
    fn text_without_a_line_end_stands_in_the_line() {
        let (told, lines, _) = pasted("a|b", "x\ty é");
        assert_eq!(told, [Cmd::Insert(1, "x\ty é".to_owned())]);
        assert!(lines.is_empty());
        assert!(pasted("a|b", "").0.is_empty());
    }

    #[test]
    fn lines_are_ended_by_any_kind_of_end() {
        for text in ["one\rtwo\r\rthree", "one\ntwo\n\nthree", "one\r\ntwo\r\n\r\nthree"] {
            let (told, lines, unfinished) = pasted("put |z", text);
            assert_eq!(told, [Cmd::Insert(1, "one".to_owned()), Cmd::AcceptLine]);
            assert_eq!(lines, ["put one", "two", ""]);
            assert_eq!(unfinished, ("three".to_owned(), "z".to_owned()));
        }
    }

    #[test]
    fn what_no_line_can_hold_is_counted_and_left_out() {
        let mut state = State::default();
        assert_eq!(paste(&mut state, "|", "a\x04\x1b\x7f\u{9b}b"), [Cmd::Insert(1, "ab".to_owned())]);
        assert_eq!(state.left_out, 4);
        assert!(state.key(KeyEvent::new('x', Modifiers::NONE), "ab", 2).is_none(), "it is over");
    }

    #[test]
    fn ctrl_c_ends_a_paste_that_does_not_end() {
        let mut state = State::default();
        state.key(KeyEvent(KeyCode::BracketedPasteStart, Modifiers::NONE), "", 0);
        state.key(KeyEvent::new('x', Modifiers::NONE), "", 0);
        assert_eq!(state.key(KeyEvent::new('\x03', Modifiers::NONE), "", 0), Some(Cmd::Interrupt));
        assert!(!state.is_pasting && state.text.is_empty());
    }
}
