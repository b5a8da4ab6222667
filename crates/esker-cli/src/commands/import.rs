//! `esker import FILE`: reads rows from a file in one of the formats. `import_dir` imports a directory.

use std::borrow::Cow;
use std::io::{self, Cursor, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::HumanCount;
use serde::de::IgnoredAny;

use crate::args::{Global, Import};
use crate::collections::{self, Collections};
use crate::datatype::{DataType, Types};
use crate::encoding::{checked, unmarked_wide};
use crate::exit::{Failure, Outcome, note};
use crate::feed::{Sink, check_line_ends, feed};
use crate::formats::Format;
use crate::formats::columns::Choice;
use crate::formats::reader::{Reader, Row, Text, fields};
use crate::formats::values::{self, Ended};
use crate::interrupt;
use crate::json::{Fields, Given, Parsed};
use crate::lines::{Input, failed, line_max};
use crate::progress::Progress;
use crate::store::Store;
use crate::summary::Summary;
use crate::unpack::what_it_is;
use crate::writes::{Refused, Writes};

/// This many first bytes tell text from archives, images and databases.
const LOOKED_AT: usize = 8 << 10;

/// The length of the longest mark of another kind of file.
const LOOKED_AT_LEAST: usize = 16;

pub(crate) fn run(global: &Global, args: &Import) -> Outcome {
    let columns = &args.columns;
    let choice = Choice {
        key: columns.key_column.clone(),
        value: columns.value_column.clone(),
        expires: columns.expires_column.clone(),
        header: (columns.header || columns.no_header).then_some(columns.header),
    };
    if args.source.is_dir() {
        if args.format.is_some() || !choice.is_empty() || args.encoding.is_some() || args.separator.is_some()
        {
            let message = format!(
                "{} is a directory: formats, columns and encodings are for files",
                args.source.display()
            );
            return Err(Failure::usage(message));
        }
        return super::import_dir::run(global, args);
    }
    let format = Format::of(args.format, global.json, &args.source)?;
    let row_max = line_max(global.memory);
    if args.separator.is_some() && format != Format::Csv {
        return Err(Failure::usage("--separator is for CSV; pass --format csv"));
    }
    let text =
        Text { is_named: args.format.is_some(), encoding: args.encoding, separator: args.separator, row_max };
    let reader = Reader::new(format, choice.clone(), text)?;
    let input = Input::open(&args.source)?.text(args.encoding).lines_at_most(row_max);
    let is_standard_input = args.source.as_os_str() == "-";
    let summary = Summary::start();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut puts = Puts {
        global,
        store: None,
        writes: Writes::new(),
        now_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        key: Vec::new(),
        value: Vec::new(),
        collections: None,
        last: None,
        names_keys: matches!(format, Format::Json | Format::Jsonl),
        had_empty: false,
    };
    let done = match format {
        Format::Json => values(input, args, &fields(choice)?, row_max, &mut puts),
        _ => {
            let takes_all = args.format == Some(Format::Lines);
            let is_guessed = format == Format::Lines && args.format.is_none() && !is_standard_input;
            feed(
                input,
                args.keep_going,
                &mut Lines { reader, format, takes_all, is_guessed, puts: &mut puts },
            )
        }
    };
    if done.is_ok() && puts.store.is_none() {
        // A file without rows makes a store without rows.
        puts.store = Some(Store::create(global, Types::TEXT)?);
    }
    // Rows before a malformed line must become durable too.
    let finished = puts.store.map_or(Ok(()), Store::finish);
    let stored = puts.writes.stored();
    summary.print("rows", stored.puts, &[(stored.expired, "expired before")]);
    let ended = done.and(finished);
    if ended.as_ref().is_err_and(Failure::is_of_store) {
        let count = HumanCount(stored.puts);
        note(&format!(
            "the first {count} rows are stored; after the cause is removed, the same import stores all rows"
        ));
    }
    ended
}

/// Gives every row of a JSON file to `puts`. A refused row ends this with file, row number and reason, after all rows
/// before it were settled. With `keep_going` it is reported and skipped.
fn values(input: Input, args: &Import, fields: &Fields, row_max: usize, puts: &mut Puts<'_>) -> Outcome {
    let (keep_going, is_encoding_named) = (args.keep_going, args.encoding.is_some());
    let (name, path) = (input.name(), input.path().to_path_buf());
    let progress = if input.is_typed() { Progress::hidden() } else { Progress::count("rows") };
    let (mut number, mut malformed) = (0_u64, 0_u64);
    let mut take = |row: Result<Parsed, Cow<'static, str>>| {
        interrupt::check()?;
        number += 1;
        progress.add(1);
        let put = match row {
            Ok((key, value, expires_us)) => puts.put(&key, &value, expires_us),
            Err(reason) => Err(Refused::Malformed(reason.into_owned())),
        };
        match put {
            Ok(()) => Ok(()),
            Err(Refused::Failed(failure)) => Err(failure),
            Err(Refused::Malformed(reason)) => {
                let message = format!("{name}: row {number}: {reason}");
                if !keep_going {
                    return Err(Failure::usage(message));
                }
                note(&message);
                malformed += 1;
                Ok(())
            }
        }
    };
    let mut input = input.stream()?;
    let start = first_bytes(&mut input).map_err(|error| failed(&path, &error))?;
    refuse_others(&start, Format::Json, is_encoding_named)?;
    let read = values::read(checked(Cursor::new(start).chain(input)), fields, row_max, &mut take);
    let settled = puts.settle();
    match read {
        Err(Ended::Taker(failure)) => return Err(failure),
        Err(Ended::Input(error)) if error.is_io() => return Err(failed(&path, &error.into())),
        Err(Ended::Input(error)) => return Err(Failure::usage(format!("{name}: {error}"))),
        Ok(()) => {}
    }
    settled?;
    if malformed > 0 { Err(Failure::usage_reported()) } else { Ok(()) }
}

/// Some first bytes of `input`, enough to recognize a file of another kind. Does not wait for many.
fn first_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = vec![0; LOOKED_AT];
    let mut filled = 0;
    while filled < LOOKED_AT_LEAST {
        match input.read(&mut start[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    start.truncate(filled);
    Ok(start)
}

/// Refuses a file that begins with `start` and is not of the format, or not in the encoding that it has by default.
fn refuse_others(start: &[u8], format: Format, is_encoding_named: bool) -> Outcome {
    if let Some(what) = what_it_is(start) {
        let hint = if format == Format::Lines { "; --format lines imports it as lines anyway" } else { "" };
        return Err(Failure::usage(format!(
            "nothing was imported, because the file is not rows: {what}{hint}"
        )));
    }
    match unmarked_wide(start).filter(|_| !is_encoding_named) {
        Some(encoding) => {
            let how = match encoding.starts_with("utf-16") {
                true => format!("--encoding {encoding} reads it"),
                false => format!("`iconv -f {encoding} -t utf-8 FILE` makes it UTF-8"),
            };
            let what = encoding[..6].to_ascii_uppercase();
            let as_it_is = match format {
                Format::Json | Format::Jsonl => "",
                _ => ", and --encoding bytes imports it as it is",
            };
            Err(Failure::usage(format!(
                "nothing was imported: this looks like {what} without a byte order mark: {how}{as_it_is}"
            )))
        }
        None => Ok(()),
    }
}

/// Whether the first line names the columns of a row, as `export` and others write them to CSV.
fn is_header_of_csv(start: &[u8]) -> bool {
    let line =
        start.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end().to_ascii_lowercase();
    let mut names = line.split(|byte| matches!(byte, b',' | b';'));
    names.next() == Some(b"key") && names.next() == Some(b"value")
}

/// Whether an input that begins with `start`, which may be its first line alone, is JSON: an array of objects, an object over several
/// lines, or one in its first line.
fn looks_like_json(start: &[u8]) -> bool {
    let text = start.trim_ascii();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let inner = text.strip_prefix(b"[").map_or(text, <[u8]>::trim_ascii_start);
    let begins = match inner.strip_prefix(b"{").map(<[u8]>::trim_ascii_start) {
        Some(rest) => matches!(rest, [] | [b'"' | b'}', ..]),
        None => text == b"[",
    };
    let is_row = || serde_json::from_slice::<IgnoredAny>(line).is_ok();
    begins && (matches!(line, [b'[', ..] | b"{") || start.len() == LOOKED_AT || is_row())
}

/// Puts rows.
struct Puts<'a> {
    global: &'a Global,
    /// Opened at the first valid row, so that a file without valid rows leaves neither a new store nor a new tree.
    store: Option<Store>,
    writes: Writes,
    /// When the import began, in microseconds since 1970.
    now_us: u64,
    /// Memory for keys and values, reused for each row.
    key: Vec<u8>,
    value: Vec<u8>,
    /// Opened at the first row of a collection.
    collections: Option<Collections>,
    /// The key of the row before, if that was a collection.
    last: Option<Vec<u8>>,
    /// Whether each row says that its text is a key: an empty key is meant then, and not missing.
    names_keys: bool,
    /// Whether a row had the empty key.
    had_empty: bool,
}

impl Puts<'_> {
    /// Puts a row in its typed form.
    #[inline]
    fn put(&mut self, key: &[u8], value: &Given<'_>, expires_us: Option<u64>) -> Result<(), Refused> {
        if let Given::Collection(row) = value {
            return self.put_collection(key, row, expires_us);
        }
        self.last = None;
        let Puts { global, store, writes, key: of_key, value: of_value, names_keys, had_empty, .. } = self;
        let store = match store {
            Some(store) => store,
            none => {
                let Types { keys, values } = global.types(Types::TEXT);
                check_key_of_row(global, keys, key, *names_keys, of_key)?;
                // A store that exists knows the type of its values, if the user does not say it.
                if global.values.is_some() || (global.url.is_none() && !global.db.exists()) {
                    let value =
                        value.typed(values).map_err(|reason| Refused::Malformed(reason.into_owned()))?;
                    values.encode_value(&value, of_value).map_err(|error| Refused::value(&error))?;
                }
                none.insert(Store::create(global, Types::TEXT)?)
            }
        };
        let key = key_of_row(store, key, *names_keys, had_empty, of_key)?;
        let value =
            value.typed(store.types.values).map_err(|reason| Refused::Malformed(reason.into_owned()))?;
        let value = store.encode_value(&value, of_value).map_err(|error| Refused::value(&error))?;
        writes.put_until(store, key, value, expires_us, self.now_us)
    }

    /// Puts elements of a collection.
    fn put_collection(
        &mut self,
        typed: &[u8],
        row: &collections::Given,
        expires_us: Option<u64>,
    ) -> Result<(), Refused> {
        let last = self.last.take();
        let Puts { global, store, writes, key, collections, names_keys, had_empty, .. } = self;
        let fits =
            |values| if values == DataType::Json { Err(malformed(row.not_among(values))) } else { Ok(()) };
        let store = match store {
            Some(store) => store,
            none => {
                fits(global.types(Types::TEXT).values)?;
                row.commands(b"key", None).map_err(malformed)?;
                check_key_of_row(global, global.types(Types::TEXT).keys, typed, *names_keys, key)?;
                none.insert(Store::create(global, Types::TEXT)?)
            }
        };
        fits(store.types.values)?;
        let key = key_of_row(store, typed, *names_keys, had_empty, key)?.to_vec();
        if row.continues() && last.as_ref() != Some(&key) {
            return Err(malformed("it continues a row that is not the one before it".into()));
        }
        let commands = row.commands(&key, expires_us).map_err(malformed)?;
        writes.apply(store)?;
        store.before_write()?;
        let collections = match collections {
            Some(collections) => collections,
            none => none.insert(Collections::of(&store.tree)?.ok_or_else(|| {
                Failure::usage(format!(
                    "the tree {:?} cannot hold hashes, lists and sets: those of databases are default and db1 to db1023",
                    store.tree.name()
                ))
            })?),
        };
        collections.call(&commands)?;
        if !row.continues() {
            writes.note_put(expires_us.is_some_and(|us| us <= self.now_us));
        }
        self.last = Some(key);
        Ok(())
    }

    fn settle(&mut self) -> Outcome {
        self.store.as_mut().map_or(Ok(()), |store| self.writes.apply(store))
    }
}

/// Refuses a key that no tree can have, before a store is made for it.
#[inline]
fn check_key_of_row(
    global: &Global,
    keys: DataType,
    typed: &[u8],
    names_keys: bool,
    scratch: &mut Vec<u8>,
) -> Result<(), Refused> {
    // A server's database may have the empty key. The store, if there is one, knows whether the tree is one.
    let may_be_empty = names_keys || global.url.is_some() || global.db.exists();
    if !(typed.is_empty() && keys.takes_all() && may_be_empty) {
        keys.encode(typed, scratch)?;
    }
    Ok(())
}

/// The stored bytes of a row's key, in `scratch` or `typed` itself.
#[inline]
fn key_of_row<'a>(
    store: &mut Store,
    typed: &'a [u8],
    names_keys: bool,
    had_empty: &mut bool,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], Refused> {
    if !typed.is_empty() {
        return Ok(store.encode(typed, scratch)?);
    }
    if !store.takes_empty(typed, names_keys)? {
        return Err(malformed(
            "the key is empty: only a database of a server has an empty key (--url, or the files of a store that a server has \
             written to)"
                .into(),
        ));
    }
    // An export has the empty key once.
    if std::mem::replace(had_empty, true) && !names_keys {
        return Err(malformed(
            "the key is empty, as that of an earlier row: do these rows lack their keys?".into(),
        ));
    }
    Ok(typed)
}

fn malformed(reason: Cow<'static, str>) -> Refused {
    Refused::Malformed(reason.into_owned())
}

/// Takes lines and puts rows.
struct Lines<'a, 'b> {
    reader: Reader,
    format: Format,
    /// Whether the user says that these are lines, which may be any bytes.
    takes_all: bool,
    /// Whether neither the file's name nor the user says that these are lines.
    is_guessed: bool,
    puts: &'a mut Puts<'b>,
}

impl Sink for Lines<'_, '_> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let Some(Row { key, value, expires_us }) = self.reader.line(line)? else { return Ok(()) };
        self.puts.put(&key, &value, expires_us)
    }

    fn begin(&mut self, block: &[u8]) -> Outcome {
        // CSV may have carriage returns within quotes.
        if self.format != Format::Csv || memchr::memchr(b'"', block).is_none() {
            check_line_ends(block)?;
        }
        if self.takes_all {
            return Ok(());
        }
        let start = &block[..block.len().min(LOOKED_AT)];
        refuse_others(start, self.format, self.reader.is_encoding_named())?;
        if self.format == Format::Lines && is_header_of_csv(start) {
            return Err(Failure::usage(
                "nothing was imported: the first line is a header of CSV, which --format csv reads; --format lines imports its lines \
                 as keys anyway",
            ));
        }
        if self.format == Format::Lines && looks_like_json(start) {
            return Err(Failure::usage(
                "nothing was imported: this looks like JSON, which --format jsonl reads, an object a line, or --format json; \
                 --format lines imports its lines as keys anyway",
            ));
        }
        match memchr::memchr(0, start).filter(|_| self.is_guessed) {
            Some(at) => Err(Failure::usage(format!(
                "this is not text (byte {at} is zero), so nothing was imported; --format lines imports it as \
                 lines anyway, --encoding utf-16le reads text of two bytes a character, and `esker put KEY --file FILE` \
                 stores it as one value"
            ))),
            None => Ok(()),
        }
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
        self.puts.settle()
    }
}
