//! What `import` and `export` take.

use std::path::PathBuf;

use clap::Args;

use crate::encoding::Encoding;
use crate::formats::Format;
use crate::formats::columns::Column;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// A file (`-`: standard input), possibly compressed by gzip or zstd, or a directory
    pub(crate) source: PathBuf,
    /// The file's format, whatever its name
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) columns: Columns,
    /// The encoding of the file's text, such as utf-16le, windows-1252 or shift_jis; `bytes` keeps any bytes (default:
    /// that of its byte order mark; CSV, TSV and JSON without one must be UTF-8)
    #[arg(long, value_name = "ENCODING", value_parser = Encoding::named)]
    pub(crate) encoding: Option<Encoding>,
    /// The separator of the fields of CSV, such as ; or \t (default: a comma)
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    pub(crate) separator: Option<u8>,
    /// Report malformed rows and file names, and go on (exit code 2 at the end)
    #[arg(long)]
    pub(crate) keep_going: bool,
}

/// Reads the separator of fields: a character of ASCII that is neither a quote nor the end of a line.
fn separator(typed: &str) -> Result<u8, &'static str> {
    match typed.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n\0".contains(byte) => Ok(*byte),
        _ => Err("a separator is one ASCII character, such as ; or \\t, but not a quote or a line end"),
    }
}

/// Which columns of a table, or fields of an object, are keys, values and times.
#[derive(Debug, Args)]
pub(crate) struct Columns {
    /// The column of the keys, by name or number (default: `key`, or the first of two)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key_column: Option<String>,
    /// The column of the values (default: `value`, or the other of two)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value_column: Option<String>,
    /// The column that says when a value expires (default: `expires_us`, if there is one)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) expires_column: Option<String>,
    /// The first row is a header, whatever it contains
    #[arg(long, conflicts_with = "no_header")]
    pub(crate) header: bool,
    /// There is no header: the first row is a row like the others
    #[arg(long)]
    pub(crate) no_header: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A file (`-`: standard output), or a directory if it exists or ends with a slash
    pub(crate) target: PathBuf,
    /// The file's format, whatever its name
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<Format>,
    /// The columns of CSV and TSV, in this order: some of key, value, expires_us (default: key,value)
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', hide_possible_values = true)]
    pub(crate) columns: Vec<Column>,
}
