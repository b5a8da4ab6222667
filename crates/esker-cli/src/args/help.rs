//! The help texts that take a page.

pub(super) const IMPORT: &str = "The format is the one of FILE's name (.csv, .tsv, .jsonl, .json), or the one that --format says:
- lines (any other name, and standard input): `key<TAB or space>value`; a key alone has an empty value. With \
--escapes, \\n and the like stand for bytes.
- csv: rows as in RFC 4180; line breaks in quotes belong to the field. The column `base64`, where there is one, \
names the columns that are in base64.
- tsv: a row a line; \\t \\n \\r \\\\ and \\xNN in a field stand for tab, line feed, carriage return, backslash \
and any byte.
- jsonl: objects as `scan --json` prints them. Where `encoding` is \"base64\" the value is in base64, and where \
`key_encoding` is, the key. `expires_us` is when the value expires, in microseconds since 1970.
- json: an array of such objects, or of [key, value] pairs; read row by row.
What gzip or zstd has compressed (.csv.gz, .jsonl.zst, or by its first bytes) is unpacked; xz, bzip2 and the like \
are refused.
In csv and tsv a column `expires_us`, or the one of --expires-column, says so; it is empty where a value does \
not expire. What has expired meanwhile is absent.
Empty lines are skipped. A first row with the names `key` and `value` is a header, and so is one by whose names \
columns are chosen; otherwise say --header or --no-header, and number columns from 1. Of two columns, the keys are \
in the first unless something says otherwise; of more, say which with --key-column and --value-column.
A malformed row ends the import with file, line and reason, exit code 2; what was read before it stays. After \
Ctrl-C whole rows are there, and the same import again completes them. Give --keys and --values as for the tree \
that was exported. A row must fit in memory.

From a directory, every file becomes a row: its path below the directory is the key, byte for byte, its content \
the value. What the store has already is compared and not written again, so an import that was cut short (by \
Ctrl-C, too) goes on where it stopped. A directory that `esker export` wrote gives the same rows again.
- Symbolic links are not followed, but DIR itself may be one. They, pipes, sockets and devices are left out and \
counted. Empty directories leave nothing. Holes of sparse files become zeros.
- A file that is changed while it is read is read again, three times at most; then it is named, and its key \
keeps what it had. So it is with what cannot be read. The others are stored; exit code 3. (What a program \
changes through a shared mapping cannot be noticed.)

Examples:
  esker import words.txt
  esker import rows.jsonl
  esker import people.csv --key-column email --value-column name
  esker import ./photos/ --tree photos
  sort -u words.txt | esker import -
  xzcat rows.csv.xz | esker import - --format csv";

pub(super) const EXPORT: &str = "The format is the one of FILE's name (.csv, .tsv, .jsonl, .json), or the one that --format says:
- lines (any other name, and standard output): `key<TAB>value`; what does not fit on such a line (line breaks, \
blanks in keys) is an error, unless --escapes is given.
- csv: with a header. What is not UTF-8 is in base64, and the column `base64` names the columns that are.
- tsv: with a header, escapes as for import.
- jsonl: objects as `scan --json` prints them, with `expires_us` where a value expires.
- json: an array of such objects.
--columns chooses and orders the columns of csv and tsv: key, value, and expires_us, which says when a value \
expires, in microseconds since 1970. Where the export does not say so of values that expire, it ends with their \
number.
All but lines survive any bytes: `esker import` gives the same rows again, with the same --keys and \
--values. A value of more than 1 GiB fits in a directory only.

In a directory, the path of a file is its key, with % escapes for what no file name can hold, such as `..`, a \
slash at the beginning, or bytes that are no text; nothing is ever written outside it. A file has its name only \
when it is whole, and a large one the time at which it was stored. A damaged value is named and left out (exit \
code 3); the others are written. DIR is new, empty, or an export of the same tree: then what is missing or \
differs is written, so an export that was cut short goes on where it stopped. Files do not say when a value \
expires.

Examples:
  esker export rows.csv
  esker export rows.tsv --columns key,value,expires_us
  esker export --format jsonl - | gzip > rows.jsonl.gz
  esker export ./rows/ --tree photos";

pub(super) const SHELL: &str = "The commands are those of `esker` and a few more, without `esker` in front; `help` lists them.
  open [NAME [MEMTABLE [BUFFER]]]   opens the store NAME and creates it where
                                    there is none; MEMTABLE: bytes of writes
                                    gathered in memory, such as 4M; BUFFER:
                                    bytes for all memory, such as 256M
  close                             closes it
  tree [NAME]                       the tree to work on from now on
  exit, quit, Ctrl-D                closes the store and ends the shell
Words are quoted as in a POSIX shell ('two words', \"it's\", back\\ slash); # begins a comment. Between double \
quotes \\n \\t \\r and \\xNN stand for bytes (\"line\\nline\", \"\\x00\"). A store at --db is open at the beginning; if it \
cannot be opened, and no other one is, the shell's exit code is 3.
At a terminal, lines can be edited, the arrow keys bring back earlier ones (kept in \
$XDG_STATE_HOME/esker/history or ~/.local/state/esker/history), and Tab completes commands, options, trees, keys \
and files. Of pasted lines each is run, in order; the last one, if it was not ended, can be edited first. Ctrl-C drops \
the line, or stops the command that runs and the pasted lines behind it. `check` and `repair` have the store for \
themselves and are waited for; a second Ctrl-C ends the shell.
From a pipe or file, lines are run as they come. One that fails is named, and the shell goes on; it ends with \
the exit code of the first that failed. There, Ctrl-C ends it as it does any command.

Examples:
  esker shell
  esker --db /srv/x.db shell --no-history
  printf 'open x.db 4M\\nput a 1\\nscan a z\\n' | esker shell";

pub(super) const MERGE: &str = "Numbers are i64: a tree that `merge --add` makes has values of that type. An absent key has 0, or nothing. \
A sum beyond i64 is an error, exit code 2, and changes nothing.

Examples:
  esker --tree visits merge index.html --add 1
  esker merge log/today --append 'started; '";

pub(super) const REPAIR: &str = "Every entry, log record and huge value that passes its checksum is kept. Prints `FILE OFFSET reason` for each \
damaged place, with tree and keys where they are known, and exits 1; prints `ok` where there is no damage, and \
changes nothing. Nothing is deleted: files that are not used any more go to a directory quarantine-N in the \
store's. Where the manifest and its copy are damaged, trees may have new names, and what was deleted shortly \
before may be back. Copy the directory first, or restore a backup instead, if you can.

Example:
  esker repair --db /srv/x.db";

pub(super) const STATS: &str = "Counts and times are those of the process that has the store open. Outside of the shell that is this one, which \
has only just opened it: a program shows its own by `Db::stats`, `Stats::prometheus` and `Db::why_slow`.
With --watch there is a line each time, with the time (UTC), entries, space on the disk, log to replay, space of \
huge values, and by how much entries and space have grown a second since the line before; in the shell, reads, writes \
and bytes merged a second too. The store is opened for reading each time, and let go between: a writer may take it \
then, and is waited for. With --json it is an object a line: all figures, `time`, and `per_second`, null the first \
time.

Examples:
  esker stats
  esker stats --json
  esker stats --format prometheus
  esker stats --watch          every second; --watch 10: every ten
  esker shell                  and there: stats --why";
