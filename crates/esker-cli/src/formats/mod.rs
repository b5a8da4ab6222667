//! The formats of files of rows: `import` reads them, `export` writes them.
//!
//! | format | a row | bytes that text cannot carry |
//! |---|---|---|
//! | lines | `key<TAB or blank>value` | none: line breaks, and blanks in keys, are refused |
//! | csv | RFC 4180, below a header | base64, and the column `base64` names the columns that are in it |
//! | tsv | columns between tabs, below a header | `\t \n \r \\`, and `\xNN` for any other byte |
//! | jsonl | an object a line | base64, and fields that say so (`json.rs`) |
//! | json | an array of such objects; pairs are read too | the same |
//!
//! Input may be compressed (`unpack.rs`), and be in another encoding than UTF-8 (`encoding.rs`). The expiry of a value is a field of JSON objects, and a column of CSV and TSV
//! on request. `import` reads whatever `export` writes, with the same types, as the same row. A row is in memory as a
//! whole in both directions; a directory takes values of any length.

pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod fields;
pub(crate) mod reader;
pub(crate) mod tsv;
pub(crate) mod values;
pub(crate) mod writer;

use std::path::Path;

use clap::ValueEnum;

use crate::exit::{Failure, Outcome};
use crate::unpack::plain_name;

/// How rows are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Plain comments: documented values would spread the help over two pages.
    Lines,
    Csv,
    Tsv,
    Jsonl,
    Json,
}

impl Format {
    /// The format requested by name or by `--json`, or else that of the file's name.
    pub(crate) fn of(given: Option<Format>, json: bool, path: &Path) -> Outcome<Self> {
        match (given, json) {
            (None, true) if Format::named(path) == Format::Json => Ok(Format::Json),
            (Some(Format::Jsonl) | None, true) => Ok(Format::Jsonl),
            (Some(Format::Json), true) => Ok(Format::Json),
            (Some(_), true) => Err(Failure::usage("--json is for JSON, but --format names another format")),
            (Some(format), false) => Ok(format),
            (None, false) => Ok(Format::named(path)),
        }
    }

    /// The format of files with such a name.
    fn named(path: &Path) -> Self {
        let (path, _) = plain_name(path);
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.as_encoded_bytes() {
            b"csv" => Format::Csv,
            b"tsv" | b"tab" => Format::Tsv,
            b"jsonl" | b"ndjson" | b"jsonlines" | b"ldjson" => Format::Jsonl,
            b"json" | b"geojson" => Format::Json,
            _ => Format::Lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_by_names_unless_said() {
        let of = |given, json, path: &str| Format::of(given, json, Path::new(path)).ok();
        assert_eq!(of(None, false, "a.csv"), Some(Format::Csv));
        assert_eq!(of(None, false, "a/B.TSV"), Some(Format::Tsv));
        assert_eq!(of(None, false, "a.ndjson"), Some(Format::Jsonl));
        assert_eq!(of(None, false, "a.json.gz"), Some(Format::Json));
        assert_eq!(of(None, false, "a.jsonlines"), Some(Format::Jsonl));
        assert_eq!(of(None, true, "a.json"), Some(Format::Json));
        assert_eq!(of(None, false, "a.tsv.zst"), Some(Format::Tsv));
        for path in ["-", "csv", "a.txt", ".csv"] {
            assert_eq!(of(None, false, path), Some(Format::Lines), "{path}");
        }
        assert_eq!(of(None, true, "a.csv"), Some(Format::Jsonl));
        assert_eq!(of(Some(Format::Csv), false, "a.jsonl"), Some(Format::Csv));
        assert_eq!(of(Some(Format::Csv), true, "a.csv"), None);
    }
}
