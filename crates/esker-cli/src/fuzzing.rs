//! Readers of typed bytes that `fuzz/` can call, only with `--cfg fuzzing`. Not part of the interface.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use clap::{Parser, ValueEnum};

use crate::args::{self, Cli};
use crate::commands::{escape, run};
use crate::datatype::{DataType, Types};
use crate::formats::Format;
use crate::formats::columns::{Choice, Column};
use crate::formats::reader::{Reader, Text};
use crate::formats::values;
use crate::formats::writer::{self, Writer};
use crate::ranges::{ByteRange, KeyBounds};
use crate::{escapes, json, kind, shell};

/// Text about which the user says only the format.
const TEXT: Text = Text { is_named: true, encoding: None, separator: None, row_max: 1 << 20 };

/// A file of rows in any format, and then its rows in any format and back.
pub fn rows(data: &[u8]) {
    let [format, choice, file @ ..] = data else { return };
    let format = Format::value_variants()[usize::from(*format) % Format::value_variants().len()];
    let name = |bit: u8| (choice & bit != 0).then(|| (if choice & 1 == 0 { "1" } else { "b" }).to_owned());
    let choice = Choice {
        key: name(2),
        value: name(4),
        expires: name(8),
        header: (choice & 16 != 0).then_some(choice & 32 != 0),
    };
    let Ok(mut reader) = Reader::new(format, choice, TEXT) else { return };
    let keeps_ends = reader.keeps_ends();
    for line in file.split_inclusive(|&byte| byte == b'\n') {
        let line = if keeps_ends { line } else { line.strip_suffix(b"\n").unwrap_or(line) };
        let Ok(row) = reader.line(line) else { break };
        if let Some(row) = row {
            let (key, expires_us) = (row.key.into_owned(), row.expires_us);
            let Ok(value) = row.value.typed(DataType::Text) else { continue };
            let value = value.into_owned();
            there_and_back(&key, &value, expires_us);
        }
        reader.held();
    }
    drop(reader.end());
}

/// Whatever is written for a row, reading it returns the row.
fn there_and_back(key: &[u8], value: &[u8], expires_us: Option<u64>) {
    let columns = [Column::Key, Column::Value, Column::Expires];
    for format in [Format::Csv, Format::Tsv, Format::Jsonl] {
        let columns = if format == Format::Jsonl { &[][..] } else { &columns };
        let Ok(mut writer) = Writer::new(format, Types::TEXT, columns) else { continue };
        let mut out = Vec::new();
        writer.begin(&mut out);
        if writer.row(&mut out, &writer::Row { key, value, expires_us }).is_err() {
            continue;
        }
        let choice = Choice {
            expires: (format != Format::Jsonl).then(|| Column::Expires.name().to_owned()),
            ..Choice::default()
        };
        let Ok(mut reader) = Reader::new(format, choice, TEXT) else { panic!("a reader") };
        let keeps_ends = reader.keeps_ends();
        let mut rows = 0;
        for line in out.split_inclusive(|&byte| byte == b'\n') {
            let line = if keeps_ends { line } else { line.strip_suffix(b"\n").unwrap_or(line) };
            match reader.line(line) {
                Ok(Some(row)) => {
                    let read = row.value.typed(DataType::Text);
                    assert_eq!((&*row.key, read.as_deref(), row.expires_us), (key, Ok(value), expires_us));
                    rows += 1;
                }
                Ok(None) => {}
                Err(_) => panic!("{format:?} is not read back: {:?}", String::from_utf8_lossy(&out)),
            }
        }
        assert_eq!(rows, 1);
    }
}

/// Keys, values, ranges, sizes, times, tags and paths as typed.
pub fn typed(data: &[u8]) {
    let [which, typed @ ..] = data else { return };
    let text = std::str::from_utf8(typed).unwrap_or_default();
    drop(args::parse_size(text));
    drop(args::parse_time(text));
    if let Ok(range) = ByteRange::parse(text) {
        for len in [0, 1, 1000, u64::MAX] {
            assert!(
                range.of(len).is_ok_and(|part| part.start <= part.end && part.end <= len)
                    || range.of(len).is_err()
            );
        }
    }
    if let Some(types) = Types::of_tag(text) {
        assert_eq!(Types::of_tag(&types.tag()), Some(types));
    }
    let tuples = ["text,u64", "hex,i64,text", "f64,i32"].into_iter().filter_map(DataType::named);
    for keys in DataType::single().chain(tuples) {
        if let Ok(bytes) = keys.to_bytes(typed) {
            let mut printed = Vec::new();
            if keys.print(&bytes, &mut printed).is_ok() {
                assert_eq!(keys.to_bytes(&printed).ok(), Some(bytes));
            }
        }
        let mut printed = Vec::new();
        if keys.print(typed, &mut printed).is_ok() && !typed.is_empty() {
            assert_eq!(keys.to_bytes(&printed).as_deref().ok(), Some(typed));
        }
        drop(keys.print_value(typed, &mut printed));
    }
    let (lo, hi) = typed.split_at(usize::from(*which) % (typed.len() + 1));
    for (prefix, hi) in [(None, Some(hi)), (Some(hi), None), (None, None)] {
        if let Ok(bounds) = KeyBounds::parse(DataType::Text, Some(lo), hi, prefix) {
            drop(bounds.range().map(|range| range.of_scan()));
        }
    }
    kind::Kind::of(typed, typed.len() as u64);
    drop(kind::unprintable(typed, typed.len() as u64));
    if !typed.is_empty()
        && let Ok(Some(path)) =
            escape::path_of(Path::new(""), typed, |_, _| Ok::<_, std::convert::Infallible>(true))
    {
        assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        assert_eq!(escape::key_of(path.as_os_str().as_encoded_bytes()).as_deref(), Some(typed));
    }
    drop(escape::key_of(typed));
    let _ = DataType::named(text);
    let mut bytes = Vec::new();
    if escapes::decode(typed, &mut bytes).is_ok() {
        let (mut shown, mut again) = (Vec::new(), Vec::new());
        escapes::append(&mut shown, &bytes);
        assert!(escapes::decode(&shown, &mut again).is_ok() && again == bytes);
    }
    let fields = json::Fields::default();
    drop(fields.parse(typed));
    drop(values::read(typed, &fields, 1 << 16, &mut |_| Ok(())));
}

/// A command line, and a line of the shell.
pub fn command(data: &[u8]) {
    shell::fuzz(data);
    data.split(|&byte| byte == b'\n').for_each(run::fuzz);
    let words = data.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    drop(Cli::try_parse_from(std::iter::once("esker".into()).chain(words)));
}
