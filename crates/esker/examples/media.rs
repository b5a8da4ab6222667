//! A media library: files of any size go in and come out as streams, parts of them are read as a player asks for them,
//! and moving one costs nothing.
//!
//! `cargo run --example media`

use std::io::{self, Read, Write};
use std::ops::Range;

use esker::{Db, Options, ScanRange, Tree};

/// A film from wherever it comes, in pieces, with what it is called: neither is there without the other.
fn store(db: &Db, path: &str, title: &str, mut source: impl Read) -> io::Result<u64> {
    let (films, titles) = (db.tree("films")?, db.tree("titles")?);
    let mut film = films.writer(path)?;
    let mut piece = vec![0; 256 << 10];
    loop {
        let n = source.read(&mut piece)?;
        if n == 0 {
            break;
        }
        film.write_all(&piece[..n])?;
    }
    let len = film.len();
    // Where the source fails, `film` is dropped before this and leaves nothing.
    let mut batch = esker::Batch::new();
    batch.put_stored(&films, path, &film.finish()?)?;
    batch.put(&titles, path, title)?;
    db.write(&batch)?;
    Ok(len)
}

/// What a player asks for: `Range: bytes=START-END`. A part costs no more than the part.
fn serve(films: &Tree, path: &str, part: Range<u64>, out: &mut dyn Write) -> io::Result<bool> {
    let Some(film) = films.get(path)? else { return Ok(false) };
    let part = part.start.min(film.len())..part.end.min(film.len());
    // A piece at a time; the bytes stay as they are meanwhile, even if the film is replaced or deleted.
    for start in part.clone().step_by(1 << 20) {
        out.write_all(&film.read_at(start..part.end.min(start + (1 << 20)))?)?;
    }
    Ok(true)
}

/// The sizes of all films below a folder, without reading a byte of them.
fn list(films: &Tree, folder: &str) -> esker::Result<Vec<(String, u64)>> {
    let mut scan = films.scan(ScanRange::prefix(folder))?;
    let mut found = Vec::new();
    while scan.advance()? {
        found.push((String::from_utf8_lossy(scan.key()).into_owned(), scan.value_len()));
    }
    Ok(found)
}

/// What the example shows.
#[expect(clippy::disallowed_types, reason = "a program has files of its own")]
pub(crate) fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("media.db"), Options::default())?;
    let films = db.tree("films")?;
    let footage = |byte, len| io::repeat(byte).take(len);

    assert_eq!(store(&db, "new/sea.mkv", "The Sea", footage(7, 5_000_000))?, 5_000_000);
    store(&db, "new/hill.mkv", "The Hill", footage(9, 3_000_000))?;

    // Nothing is copied, however long it is.
    films.rename("new/sea.mkv", "seen/sea.mkv")?;
    films.copy("new/hill.mkv", "best/hill.mkv")?;
    assert_eq!(list(&films, "new/")?, [("new/hill.mkv".to_owned(), 3_000_000)]);

    let mut sent = Vec::new();
    assert!(serve(&films, "seen/sea.mkv", 4_999_000..6_000_000, &mut sent)?);
    assert_eq!(sent, [7; 1000]);
    assert!(!serve(&films, "new/sea.mkv", 0..1, &mut sent)?, "it has moved");

    // To a file: on XFS and btrfs the blocks are shared.
    let copy = std::fs::File::create(dir.path().join("sea.mkv"))?;
    let film = films.get("seen/sea.mkv")?.ok_or(io::ErrorKind::NotFound)?;
    assert_eq!(film.copy_to_file(&copy)?, 5_000_000);
    drop(film);

    // The space comes back soon, by itself.
    films.delete("seen/sea.mkv")?;
    println!("{:?}", list(&films, "")?);
    Ok(db.close()?)
}
