//! Changes of tables that are held up while they make or drop trees: writes of other tables do not wait for them.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker::fs::{DirLock, Entry, FileSystem, LockMode, MappedFile, RandomFile, ReadFile, WriteFile};
use esker_table::{Family, Read, RowMutation, Schema, Tables};

/// The name of the thread that is held up where it appends to a file. It appends to the manifest alone: each tree that it makes or
/// drops is noted there.
const CHANGER: &str = "changer";

/// A write that has not ended by then waits for the change, which waits for the write.
const NEVER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
struct Gated {
    disk: SimFs,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    arrived: Mutex<Sender<()>>,
    open: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn WriteFile>,
    gate: Arc<Gate>,
}

impl WriteFile for GatedFile {
    fn append(&mut self, bytes: &[u8]) -> esker::Result<()> {
        if std::thread::current().name() == Some(CHANGER) {
            // If the test has failed, nobody is there any more.
            let _ = self.gate.arrived.lock().unwrap().send(());
            let _ = self.gate.open.lock().unwrap().recv();
        }
        self.file.append(bytes)
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn sync(&mut self) -> esker::Result<()> {
        self.file.sync()
    }
    fn start_writeback(&mut self) {
        self.file.start_writeback();
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl FileSystem for Gated {
    fn within(&self, _dir: &Path) -> esker::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.clone()))
    }
    fn outside(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.clone())
    }
    fn entries(&self, dir: &Path) -> esker::Result<Vec<Entry>> {
        self.disk.entries(dir)
    }
    fn open_read(&self, path: &Path) -> esker::Result<Arc<dyn ReadFile>> {
        self.disk.open_read(path)
    }
    fn create(&self, path: &Path) -> esker::Result<Box<dyn WriteFile>> {
        Ok(Box::new(GatedFile { file: self.disk.create(path)?, gate: Arc::clone(&self.gate) }))
    }
    fn create_mapped(&self, path: &Path, len: u64) -> esker::Result<Arc<dyn MappedFile>> {
        self.disk.create_mapped(path, len)
    }
    fn open_mapped(&self, path: &Path) -> esker::Result<Arc<dyn MappedFile>> {
        self.disk.open_mapped(path)
    }
    fn create_random(&self, path: &Path) -> esker::Result<Arc<dyn RandomFile>> {
        self.disk.create_random(path)
    }
    fn open_random(&self, path: &Path) -> esker::Result<Arc<dyn RandomFile>> {
        self.disk.open_random(path)
    }
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> esker::Result<()> {
        self.disk.punch_hole(path, offset, len)
    }
    fn link_count(&self, path: &Path) -> esker::Result<u64> {
        self.disk.link_count(path)
    }
    fn allocated_bytes(&self, path: &Path) -> esker::Result<u64> {
        self.disk.allocated_bytes(path)
    }
    fn set_allocated(&self, path: &Path, len: u64) -> esker::Result<()> {
        self.disk.set_allocated(path, len)
    }
    fn exists(&self, path: &Path) -> esker::Result<bool> {
        self.disk.exists(path)
    }
    fn file_len(&self, path: &Path) -> esker::Result<u64> {
        self.disk.file_len(path)
    }
    fn create_dir_all(&self, dir: &Path) -> esker::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.create_dir(dir)
    }
    fn is_regular(&self, path: &Path) -> esker::Result<bool> {
        self.disk.is_regular(path)
    }
    fn remove_file(&self, path: &Path) -> esker::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> esker::Result<()> {
        self.disk.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> esker::Result<()> {
        self.disk.hard_link(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> esker::Result<Box<dyn DirLock>> {
        self.disk.lock(path, mode)
    }
    fn free_space(&self, dir: &Path) -> esker::Result<u64> {
        self.disk.free_space(dir)
    }
    fn boot_id(&self) -> [u8; 16] {
        self.disk.boot_id()
    }
}

/// Groups with a family each.
fn groups(names: &[&str]) -> Schema {
    names.iter().fold(Schema::new(), |schema, name| schema.group(*name, [Family::new(*name)]))
}

#[test]
fn writes_do_not_wait_while_trees_of_other_tables_are_made_and_dropped() {
    let (arrived, has_arrived) = channel();
    let (open, opened) = channel();
    let gate = Arc::new(Gate { arrived: Mutex::new(arrived), open: Mutex::new(opened) });
    let env = Env { fs: Arc::new(Gated { disk: SimFs::new(1), gate }), ..Env::system() };
    let tables = Tables::open("store", esker::Options::default().env(env).memory_budget(8 << 20)).unwrap();
    // One more family for each time that the change is held up: its first delete of a version changes the catalog.
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let families = names.iter().map(|name| Family::new(name.as_str()));
    let other = tables.create("other", Schema::new().group("a", families)).unwrap();
    tables.create("t", groups(&["kept", "a", "b", "c"])).unwrap();

    let (done, is_done) = channel();
    let mut held_up = 0;
    std::thread::scope(|scope| {
        // Dropped when this fails, so that the threads end.
        let open = open;
        let change = || {
            tables.alter("t", groups(&["kept", "d", "e", "f", "g"])).unwrap();
            tables.create("u", groups(&["a", "b"])).unwrap();
            tables.drop_table("t").unwrap();
        };
        let changer =
            std::thread::Builder::new().name(CHANGER.to_owned()).spawn_scoped(scope, change).unwrap();
        // Until the change has ended, nobody but it can arrive.
        while !changer.is_finished() {
            match has_arrived.recv_timeout(Duration::from_millis(10)) {
                Ok(()) => {}
                Err(_) => continue,
            }
            let (done, other, name) = (done.clone(), other.clone(), &names[held_up]);
            scope.spawn(move || {
                let rows = (0..20).map(|row| RowMutation::new(format!("r{row}")).put(name, "", "v"));
                other.mutate_rows(&rows.collect::<Vec<_>>()).unwrap();
                other.mutate(&RowMutation::new("r0").delete_version(name, "", 1)).unwrap();
                assert_eq!(other.get("r19", &Read::family(name)).unwrap().len(), 1);
                done.send(()).unwrap();
            });
            assert!(is_done.recv_timeout(NEVER).is_ok(), "a write waits for the change of another table");
            held_up += 1;
            open.send(()).unwrap();
        }
    });
    // Four trees made and three dropped, two made, and five dropped; each is written to the manifest and to its copy.
    assert_eq!(held_up, 2 * 14);
    assert_eq!(
        (tables.names(), tables.db().tree_names().len()),
        (vec!["other".to_owned(), "u".to_owned()], 5)
    );
}
