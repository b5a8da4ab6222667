//! `esker import FILE`: a row a line, as text or as JSON. A directory goes to `import_dir`.

use crate::args::{Global, Import};
use crate::exit::Outcome;
use crate::feed::{Sink, feed};
use crate::json;
use crate::keytype::KeyType;
use crate::lines::Input;
use crate::store::Store;
use crate::summary::Summary;
use crate::writes::{Refused, Writes};

pub(crate) fn run(global: &Global, args: &Import) -> Outcome {
    if args.source.is_dir() {
        return super::import_dir::run(global, args);
    }
    let input = Input::open(&args.source)?;
    let store = Store::create(global, KeyType::Text)?;
    let summary = Summary::start();
    let mut rows = Rows { store, writes: Writes::new(), json: global.json, count: 0, key: Vec::new() };
    let done = feed(input, args.keep_going, &mut rows);
    // What was read before a malformed line must last as well.
    let finished = rows.store.finish();
    summary.print("rows", rows.count, &[]);
    done.and(finished)
}

/// Takes lines and puts rows.
struct Rows {
    store: Store,
    writes: Writes,
    json: bool,
    count: u64,
    /// Memory for keys, reused from line to line.
    key: Vec<u8>,
}

impl Rows {
    fn put(&mut self, typed: &[u8], value: &[u8]) -> Result<(), Refused> {
        let key = self.store.keys.encode(typed, &mut self.key)?;
        self.writes.put(&mut self.store, key, value)?;
        self.count += 1;
        Ok(())
    }
}

impl Sink for Rows {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.is_empty() {
            return Ok(());
        }
        if self.json {
            let (typed, value) = json::parse_row(line).map_err(|reason| Refused::Malformed(reason.into()))?;
            return self.put(&typed, &value);
        }
        let end = memchr::memchr2(b'\t', b' ', line).unwrap_or(line.len());
        let (typed, value) = line.split_at(end);
        self.put(typed, value.get(1..).unwrap_or_default())
    }

    fn settle(&mut self) -> Outcome {
        self.writes.apply(&mut self.store)
    }
}
