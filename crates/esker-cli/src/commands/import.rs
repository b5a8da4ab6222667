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
use crate::writes::{Refused, Writes};

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
    let summary = Summary::start();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = Rows {
        global,
        store: None,
        writes: Writes::new(),
        reader,
        now_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        count: 0,
        expired: 0,
        key: Vec::new(),
        value: Vec::new(),
    };
    let done = feed(input, args.keep_going, &mut rows);
    if done.is_ok() && rows.store.is_none() {
        // A file without rows makes a store without rows.
        rows.store = Some(Store::create(global, Types::TEXT)?);
    }
    // What was read before a malformed line must last as well.
    let finished = rows.store.map_or(Ok(()), Store::finish);
    summary.print("rows", rows.count, &[(rows.expired, "expired before")]);
    done.and(finished)
}

/// Takes lines and puts rows.
struct Rows<'a> {
    global: &'a Global,
    /// Opened when a row is there that can be one: a file that is none leaves neither a new store nor a new tree behind.
    store: Option<Store>,
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

impl Sink for Rows<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let Rows { global, store, writes, reader, key: of_key, value: of_value, .. } = self;
        let Some(Row { key, value, expires_us }) = reader.line(line)? else { return Ok(()) };
        let store = match store {
            Some(store) => store,
            none => {
                let Types { keys, values } = global.types(Types::TEXT);
                keys.encode(&key, of_key)?;
                values.encode_value(&value, of_value).map_err(|error| Refused::value(&error))?;
                none.insert(Store::create(global, Types::TEXT)?)
            }
        };
        let key = store.encode(&key, of_key)?;
        let value = store.encode_value(&value, of_value).map_err(|error| Refused::value(&error))?;
        writes.put_until(store, key, value, expires_us)?;
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
        self.store.as_mut().map_or(Ok(()), |store| self.writes.apply(store))
    }
}
