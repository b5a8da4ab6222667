//! Lets writers into the directory of a store until the store is closed. After that it lets no writer in.
//!
//! An ingest, an import or a value that is written in pieces has a handle that may outlive the store. By then the
//! directory may belong to another opening, or to another store. Therefore each piece is written inside the gate, and
//! `close` waits until every thread has left it. Calls that create, resize or remove files enter the gate too, because
//! another thread may close the store while they run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{ThreadId, current};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::WriteFile;

#[derive(Debug)]
pub(crate) struct Gate {
    dir: PathBuf,
    state: Mutex<GateState>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    /// The thread that closes the store, until it has done its last work there.
    closer: Option<ThreadId>,
    /// The threads that are inside, one as often as it has entered.
    inside: Vec<ThreadId>,
}

/// Lets the thread that closes the store, and no other, enter the gate until this is dropped.
#[derive(Debug)]
pub(crate) struct Last<'a>(&'a Gate);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closer = None;
    }
}

/// Keeps the store from being closed until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
    thread: ThreadId,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        if let Some(at) = state.inside.iter().rposition(|thread| *thread == self.thread) {
            state.inside.swap_remove(at);
        }
        if state.closed && state.inside.is_empty() {
            self.gate.left.notify_all();
        }
    }
}

impl Gate {
    /// An open gate of the store in `dir`.
    pub(crate) fn new(dir: &Path) -> Arc<Gate> {
        Arc::new(Gate { dir: dir.to_path_buf(), state: Mutex::default(), left: Condvar::new() })
    }

    /// Enters the gate; fails with `Closed` once the store is closing. A thread that is inside may enter again even
    /// then, to finish its work: `close` waits for it.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        let (mut state, thread) = (self.state.lock(), current().id());
        if state.closed && state.closer != Some(thread) && !state.inside.contains(&thread) {
            return Err(Error::new(ErrorKind::Closed, "the store is closed").at(&self.dir));
        }
        state.inside.push(thread);
        Ok(Inside { gate: self, thread })
    }

    /// Shuts the gate to all other threads and waits until every thread has left it.
    pub(crate) fn close(&self) -> Last<'_> {
        let mut state = self.state.lock();
        (state.closed, state.closer) = (true, Some(current().id()));
        while !state.inside.is_empty() {
            self.left.wait(&mut state);
        }
        Last(self)
    }
}

/// A file that is written inside the gate.
#[derive(Debug)]
pub(crate) struct GatedFile {
    gate: Arc<Gate>,
    file: Box<dyn WriteFile>,
}

impl GatedFile {
    pub(crate) fn new(gate: &Arc<Gate>, file: Box<dyn WriteFile>) -> Box<GatedFile> {
        Box::new(GatedFile { gate: Arc::clone(gate), file })
    }
}

impl WriteFile for GatedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let _inside = self.gate.enter()?;
        self.file.append(bytes)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn sync(&mut self) -> Result<()> {
        let _inside = self.gate.enter()?;
        self.file.sync()
    }

    fn start_writeback(&mut self) {
        if let Ok(_inside) = self.gate.enter() {
            self.file.start_writeback();
        }
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_for_the_threads_inside() {
        let gate = Gate::new(Path::new("/db"));
        std::thread::scope(|scope| {
            let inside = gate.enter().unwrap();
            let closing = scope.spawn(|| {
                let last = gate.close();
                assert!(gate.enter().is_ok(), "the thread that closes has something left to do");
                drop(last);
                assert!(gate.enter().is_err());
            });
            let stranger = scope.spawn(|| while gate.enter().is_ok() {});
            stranger.join().unwrap();
            assert!(gate.enter().is_ok(), "a thread that is inside ends what it has begun");
            assert!(!closing.is_finished(), "somebody is inside");
            drop(inside);
            closing.join().unwrap();
        });
        assert_eq!(gate.enter().unwrap_err().kind(), ErrorKind::Closed);
    }
}
