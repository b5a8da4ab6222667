//! `esker import FILE`: rows out of a file in one of the formats. A directory goes to `import_dir`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{Global, Import};
use crate::datatype::Types;
use crate::exit::{Failure, Outcome};
use crate::feed::{Sink, feed};
use crate::formats::Format;
use crate::formats::columns::Choice;
use crate::formats::reader::{Reader, Row};
use crate::lines::Input;
use crate::store::Store;
use crate::summary::Summary;
use crate::writes::{Refused, Writes, value_of};

pub(crate) fn run(global: &Global, args: &Import) -> Outcome {
    let columns = &args.columns;
    let choice = Choice {
        key: columns.key_column.clone(),
        value: columns.value_column.clone(),
        expires: columns.expires_column.clone(),
        header: (columns.header || columns.no_header).then_some(columns.header),
    };
    if args.source.is_dir() {
        if args.format.is_some() || !choice.is_empty() {
            let message =
                format!("{} is a directory: it has no format and no columns", args.source.display());
            return Err(Failure::usage(message));
        }
        return super::import_dir::run(global, args);
    }
    let reader = Reader::new(Format::of(args.format, global.json, &args.source)?, choice)?;
    let input = Input::open(&args.source)?;
    let store = Store::create(global, Types::TEXT)?;
    let summary = Summary::start();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = Rows {
        store,
        writes: Writes::new(),
        reader,
        now_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        count: 0,
        expired: 0,
        key: Vec::new(),
        value: Vec::new(),
    };
    let done = feed(input, args.keep_going, &mut rows);
    // What was read before a malformed line must last as well.
    let finished = rows.store.finish();
    summary.print("rows", rows.count, &[(rows.expired, "expired before")]);
    done.and(finished)
}

/// Takes lines and puts rows.
struct Rows {
    store: Store,
    writes: Writes,
    reader: Reader,
    /// When the import began, in microseconds since 1970.
    now_us: u64,
    count: u64,
    /// How many of them had expired by then: their keys are absent.
    expired: u64,
    /// Memory for keys and values, reused from row to row.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Sink for Rows {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let Some(Row { key, value, expires_us }) = self.reader.line(line)? else { return Ok(()) };
        let types = self.store.types;
        let key = types.keys.encode(&key, &mut self.key)?;
        let value = value_of(types.values, &value, &mut self.value)?;
        self.writes.put_until(&mut self.store, key, value, expires_us)?;
        self.count += 1;
        self.expired += u64::from(expires_us.is_some_and(|us| us <= self.now_us));
        Ok(())
    }

    fn keeps_ends(&self) -> bool {
        self.reader.keeps_ends()
    }

    fn held(&self) -> u64 {
        self.reader.held()
    }

    fn end(&mut self) -> Result<(), Refused> {
        self.reader.end()
    }

    fn settle(&mut self) -> Outcome {
        self.writes.apply(&mut self.store)
    }
}
