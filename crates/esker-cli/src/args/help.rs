//! The help texts that take a page.

pub(super) const IMPORT: &str = "FILE's name (.csv, .tsv, .jsonl, .json) or --format says which format it has:
- lines (any other name, and standard input): `key<TAB or space>value`; a key alone has an empty value. With \
--escapes, \\n and the like stand for bytes. A file that is no text (a zero byte near its beginning) needs --format lines.
- csv: rows as in RFC 4180; a field in quotes may contain line breaks. A column `base64` names the columns of its \
row that are in base64.
- tsv: a row a line; \\t \\n \\r \\\\ and \\xNN in a field stand for tab, line feed, carriage return, backslash \
and any byte.
- jsonl: objects as `scan --json` prints them. Where `encoding` is \"base64\" the value is in base64, and where \
`key_encoding` is, the key. `expires_us` says when the value expires, in microseconds since 1970.
- json: an array of such objects, or of [key, value] pairs; read row by row.
Files that gzip or zstd has compressed are unpacked, whatever their names; files of xz, bzip2 and other packers are \
refused.
In csv and tsv the column `expires_us`, or the one that --expires-column names, says when a value expires; its field \
is empty where the value does not expire. Rows that have expired are not stored.
Empty lines are skipped. The first row is a header if it has the names `key` and `value`, or the names that \
--key-column and --value-column choose; otherwise say --header or --no-header, and number columns from 1. Of two \
columns, the first has the keys unless an option says otherwise; of more, choose with --key-column and --value-column.
A malformed row ends the import with file, line and reason, exit code 2; the rows before it are stored. After \
Ctrl-C whole rows are stored, and the same import again completes them. A file that somebody changes, replaces or \
removes while it is read ends the import, exit code 3: import it again. Give --keys and --values as for the tree \
that was exported. A row must fit in memory: at most an eighth of it.

From a directory, every file becomes a row: its path below the directory is the key, byte for byte, its content \
the value. Values that the store has already are compared and not written again, so an import that was cut short \
(also by Ctrl-C) continues where it stopped. A directory that `esker export` wrote gives the same rows again.
- DIR itself may be a symbolic link. Links in it, pipes, sockets and devices are left out and counted. Empty \
directories leave nothing. Holes of sparse files become zeros.
- A file that changes while it is read is read again, three times at most; then the import names it, and its key \
keeps the value that it had. The import also names files that it cannot read. It stores the others; exit code 3. \
(The import cannot notice what a program changes through a shared mapping.)

Examples:
  esker import words.txt
  esker import rows.jsonl
  esker import people.csv --key-column email --value-column name
  esker import ./photos/ --tree photos
  sort -u words.txt | esker import -
  xzcat rows.csv.xz | esker import - --format csv";

pub(super) const EXPORT: &str = "FILE's name (.csv, .tsv, .jsonl, .json) or --format says which format it gets:
- lines (any other name, and standard output): `key<TAB>value`; a row that does not fit on such a line (line breaks, \
blanks in keys) is an error, unless --escapes is given.
- csv: with a header. Fields that are not UTF-8 are in base64, and the column `base64` names their columns.
- tsv: with a header, escapes as for import.
- jsonl: objects as `scan --json` prints them, with `expires_us` where a value expires.
- json: an array of such objects.
A file whose name ends in .gz or .zst, such as rows.csv.gz, is compressed; standard output is not.
--columns chooses and orders the columns of csv and tsv: key, value, and expires_us, which says when a value \
expires, in microseconds since 1970. If an export leaves out when values expire, it ends with the number of these \
values.
Every format but lines keeps any bytes: `esker import` gives the same rows again, with the same --keys and \
--values. A value of more than 1 GiB fits in a directory only.

In a directory, the path of a file is its key. Keys that cannot be names of files (`..`, a slash at the beginning, \
bytes that are no text) are escaped with %; nothing is ever written outside the directory. A file gets its name only \
when it is whole, and a large one the time at which its value was stored. A damaged value is named and left out (exit \
code 3); the others are written. DIR is new, empty, or an export of the same tree: then files that are missing or \
differ are written, so an export that was cut short continues where it stopped. Files do not say when a value \
expires.

Examples:
  esker export rows.csv
  esker export rows.tsv --columns key,value,expires_us
  esker export rows.jsonl.zst
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
cannot be opened, and no line opens another, the shell's exit code is 3.
At a terminal, lines can be edited, the arrow keys bring back earlier ones (kept in \
$XDG_STATE_HOME/esker/history or ~/.local/state/esker/history), and Tab completes commands, options, trees, keys \
and files. Pasted lines are run in order; a last line without an end can be edited first. Ctrl-C drops \
the line, or stops the command that runs and the pasted lines behind it. The shell waits for the end of a command like \
`compact --db OTHER`, which has a store for itself; a second Ctrl-C then ends the shell.
From a pipe or file, the shell runs lines as they come. It names a line that fails and goes on; it ends with the exit \
code of the first one that failed. There, Ctrl-C ends the shell.

Examples:
  esker shell
  esker --db /srv/x.db shell --no-history
  printf 'open x.db 4M\\nput a 1\\nscan a z\\n' | esker shell";

pub(super) const MERGE: &str = "Numbers are i64: a tree that `merge --add` creates has values of that type. An absent key counts as 0, or as an empty \
value. A sum beyond i64 is an error, exit code 2, and changes nothing.

Examples:
  esker --tree visits merge index.html --add 1
  esker merge log/today --append 'started; '";

pub(super) const REPAIR: &str = "Every entry, log record and huge value that passes its checksum is kept. Prints `FILE OFFSET reason` for each \
damaged place, with tree and keys where they are known, and exits 1; prints `ok` where there is no damage, and \
changes nothing. Nothing is deleted: files that are not used any more go to a directory quarantine-N in the \
store's. Where both the manifest and its copy are damaged, trees may have new names, and values that were deleted \
shortly before may be back. If you can, copy the directory first, or restore a backup instead.
Ctrl-C ends a repair, exit code 130: the store has all that it had, and the next repair starts again. If the store was \
repaired already, and was only being checked once more, the losses are printed.

Example:
  esker repair --db /srv/x.db";

pub(super) const STATS: &str = "Counts and times are those of the process that has the store open. Outside of the shell that is this process, which \
has only just opened it: a program shows its own by `Db::stats`, `Stats::prometheus` and `Db::why_slow`.
With --watch each line has the time (UTC), entries, space on the disk, log to replay, space of huge values, and by how \
much entries and space have grown a second since the line before; in the shell also reads, writes and bytes merged a \
second. Each time the command opens the store for reading and closes it again: a writer may open it in between, and \
the next line waits for that writer. With --json each line is an object: all figures, `time`, and `per_second`, which \
is null the first time.

Examples:
  esker stats
  esker stats --json
  esker stats --format prometheus
  esker stats --watch          every second; --watch 10: every ten
  esker shell                  and there: stats --why";

pub(super) const RUN: &str = "A line is a verb, one space or tab, a key, one space or tab, and a value to the end of the line:
  PUT key value     (or P; without a value: an empty one)
  GET key           (or G) prints `key value`, or `key EMPTY`
  DELETE key        (or D)
  SCAN lo hi        (or S) prints the rows, or `lo hi EMPTY`
Blank lines and lines that begin with # are skipped. Keys and values are literal; with --escapes \\n, \\t, \
\\r, \\\\ and \\xNN in them stand for bytes. A file that gzip or zstd has compressed is unpacked. Commands take effect in file order; \
everything is synced at the end. A malformed line stops the run, exit code 2.

Examples:
  esker run --keys u64 1.input --output 1.output
  printf 'PUT a 1\\nGET a\\n' | esker run -";

pub(super) const CHECK: &str = "Prints `FILE OFFSET reason` for each damaged place, says what to do next, and exits 1; or prints `ok`. It ends with the \
number of entries in tables, and of those that are in the log alone. Ctrl-C ends the check, exit code 130; it prints the places that it has found.

Example:
  esker check --db /srv/x.db";

pub(super) const DUMP: &str = "The names of a store's files are those of its directory, such as 000001.table, manifest-000001 and wal-000001.log. \
Keys are shown in the type of their tree, which the manifest in the same directory tells, or in that of --keys; otherwise \
as escaped text.

Example:
  esker dump esker.db/000001.table";
