//! Lets writers into the directory of a store until the store is closed, then none.
//!
//! What is written in bulk or piece by piece outlives calls, and its handle may outlive the store: then the directory is
//! another opening's, or another store's. So each piece of it is written inside the gate, and closing waits until nobody is.
//! So it is with files that calls make, resize and remove: a call may go on while another thread closes the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{ThreadId, current};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::WriteFile;

/// See the module's comment.
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
    /// How many are inside.
    inside: usize,
}

/// What closes the store: its thread may enter until this is dropped, and no other.
#[derive(Debug)]
pub(crate) struct Last<'a>(&'a Gate);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closer = None;
    }
}

/// The store is not closed before this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        if state.closed && state.inside == 0 {
            self.0.left.notify_all();
        }
    }
}

impl Gate {
    /// Stands open.
    pub(crate) fn new(dir: &Path) -> Arc<Gate> {
        Arc::new(Gate { dir: dir.to_path_buf(), state: Mutex::default(), left: Condvar::new() })
    }

    /// Goes inside, or finds the store closed. Who is inside may enter again.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        let mut state = self.state.lock();
        if state.closed && state.closer != Some(current().id()) {
            return Err(Error::new(ErrorKind::Closed, "the store is closed").at(&self.dir));
        }
        state.inside += 1;
        Ok(Inside(self))
    }

    /// Nobody else enters from now on; returns when nobody is inside.
    pub(crate) fn close(&self) -> Last<'_> {
        let mut state = self.state.lock();
        (state.closed, state.closer) = (true, Some(current().id()));
        while state.inside > 0 {
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
    fn who_closes_waits_for_those_who_are_inside() {
        let gate = Gate::new(Path::new("/db"));
        std::thread::scope(|scope| {
            let inside = gate.enter().unwrap();
            let closing = scope.spawn(|| {
                let last = gate.close();
                assert!(gate.enter().is_ok(), "whoever closes has something left to do");
                drop(last);
                assert!(gate.enter().is_err());
            });
            while gate.enter().is_ok() {}
            assert!(!closing.is_finished(), "somebody is inside");
            drop(inside);
            closing.join().unwrap();
        });
        assert_eq!(gate.enter().unwrap_err().kind(), ErrorKind::Closed);
    }
}
