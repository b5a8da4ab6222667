//! The help texts that take a page.

pub(super) const IMPORT: &str = "\
The name of FILE (.csv, .tsv, .jsonl, .json) or --format selects the format:
- lines (any other name, and standard input): `key<TAB or space>value`; a key alone has an empty value. With \
--escapes, \\n and the like stand for bytes. A file that is not text (it has a zero byte near its beginning) needs \
--format lines.
- csv: rows as in RFC 4180; a field in quotes may contain line breaks. --separator or a first line such as `sep=;` \
names another separator than the comma. The column `base64` names the columns of its row that are in base64. Rows that \
programs read differently, such as a,\"3.5\" disk\", are malformed.
- tsv: one row a line; \\t \\n \\r \\\\ and \\xNN in a field stand for tab, line feed, carriage return, backslash and \
any byte. Tables with tabs and quotes, as spreadsheets write them, are --format csv --separator '\\t'.
- jsonl: objects as `scan --json` prints them. If `encoding` is \"base64\", the value is in base64; if `key_encoding` \
is \"base64\", the key is. `expires_us` says when the value expires, in microseconds since 1970. A value is a string or \
a number, which stays as it is written; --values json takes any value. With `type`, it is a hash, list, set or zset of \
a server's database.
- json: an array of such objects, or of [key, value] pairs; read row by row.
A byte order mark says that a file is UTF-8 or UTF-16, and is not imported. Without one, csv, tsv, jsonl and json must \
be UTF-8, unless --encoding says otherwise; lines may be any bytes.
The import unpacks files that gzip or zstd has compressed, and refuses files compressed by xz, bzip2 and other \
programs, spreadsheets, databases and archives.
In csv and tsv the column `expires_us`, or the column that --expires-column names, says when a value expires; an \
empty field means never. Rows that have expired are not stored.
Empty lines are skipped. The first row is a header if it has the names `key` and `value`, or if --key-column, \
--value-column or --expires-column gives a name; otherwise pass --header or --no-header. Columns are numbered from 1. \
Of two columns, the first has the keys unless an option says otherwise; of more, choose with --key-column and \
--value-column.
A malformed row ends the import with exit code 2 and a message that names file, line and reason; the rows before it \
are stored. After Ctrl-C the store has whole rows only, and the same import stores the rest. If a file is changed, \
replaced or removed while it is read, the import ends with exit code 3: import the file again. Give the same --keys \
and --values as for the tree that was exported. A row may take at most an eighth of the memory, or of --memory.

From a directory, every file becomes a row: the key is its path below the directory, byte for byte, and the value is \
its content. The import compares values that the store already has, and does not write them again, so an interrupted \
import continues where it stopped. A directory that `esker export` wrote gives the same rows again.
- DIR itself may be a symbolic link. The import leaves out links in it, pipes, sockets and devices, and counts them. \
It stores nothing for empty directories. Holes of sparse files become zeros.
- If a file changes while it is read, the import reads it again, at most three times in all. If it still changes, the \
import names it, and its key keeps the earlier value. The import also names files that it cannot read. It stores the others \
and exits 3. (It cannot notice what a program changes through a shared mapping.)

Examples:
  esker import words.txt
  esker import rows.jsonl
  esker import people.csv --key-column email --value-column name
  esker import ./photos/ --tree photos
  sort -u words.txt | esker import -
  esker import people.csv --encoding windows-1252 --separator ';' --header
  esker import objects.jsonl --values json
  xzcat rows.csv.xz | esker import - --format csv";

pub(super) const EXPORT: &str = "\
The name of FILE (.csv, .tsv, .jsonl, .json) or --format selects the format:
- lines (any other name, and standard output): `key<TAB>value`; a row that does not fit on such a line (line breaks, \
blanks in keys) is an error, unless --escapes is given.
- csv: with a header. Fields that are not UTF-8 are in base64, and the column `base64` names their columns.
- tsv: with a header, and with the escapes that import reads.
- jsonl: objects as `scan --json` prints them, with `expires_us` if the value expires. Hashes, lists, sets and sorted \
sets of a server's database have `type`; other formats than jsonl and json leave them out.
- json: an array of such objects.
A file whose name ends in .gz or .zst, such as rows.csv.gz, is compressed; standard output is not.
--columns chooses and orders the columns of csv and tsv: key, value, and expires_us, which says when a value expires, \
in microseconds since 1970. If the output does not say when values expire, the export ends with the number of values \
that do.
Every format except lines keeps any bytes: `esker import` with the same --keys and --values gives the same rows \
again. Only a directory takes a value of more than 1 GiB.

In a directory, the path of a file is its key. A key that cannot be the name of a file (`..`, a slash at the \
beginning, bytes that are not text) is escaped with %; the export never writes outside the directory. A file gets its \
name only when it is complete. The file of a huge value gets the time at which the value was stored. The export names \
a damaged value and leaves it out; it writes the others and exits 3. DIR must be new, empty, or an export of the same \
tree. In the last case only files that are missing or differ are written, so an interrupted export continues where it \
stopped. Files do not say when a value expires.

Examples:
  esker export rows.csv
  esker export rows.tsv --columns key,value,expires_us
  esker export rows.jsonl.zst
  esker export ./rows/ --tree photos";

pub(super) const SHELL: &str = "\
The shell takes the commands of `esker`, without `esker` in front, and these; `help` lists all of them.
  open [NAME [MEMTABLE [BUFFER]]]   opens the store NAME, and creates it if
                                    there is none; MEMTABLE: bytes of writes
                                    gathered in memory, such as 4M; BUFFER:
                                    bytes for all memory, such as 256M
  close                             closes the store
  tree [NAME]                       works on this tree from now on
  exit, quit, Ctrl-D                closes the store and ends the shell
Words are quoted as in a POSIX shell ('two words', \"it's\", back\\ slash); # begins a comment. Between double quotes \
\\n \\t \\r and \\xNN stand for bytes (\"line\\nline\", \"\\x00\"). If there is a store at --db, the shell opens it \
first; if that fails, and no line opens another store, the exit code is 3.
At a terminal, you can edit lines, the arrow keys bring back earlier lines (kept in $XDG_STATE_HOME/esker/history or \
~/.local/state/esker/history), and Tab completes commands, options, trees, keys and files. The shell runs pasted \
lines in order; you can edit a last line without an end first. Ctrl-C drops the line, or stops the command that runs \
and drops the pasted lines after it. If the command has opened a store for itself, as `compact --db OTHER` does, the \
shell waits for its end; a second Ctrl-C then ends the shell.
From a pipe or file, the shell runs each line as it comes. It reports a line that fails and goes on; its exit code is \
that of the first line that failed. There, Ctrl-C ends the shell.

Examples:
  esker shell
  esker --db /srv/x.db shell --no-history
  printf 'open x.db 4M\\nput a 1\\nscan a z\\n' | esker shell";

pub(super) const MERGE: &str = "\
Numbers are i64: if `merge --add` creates the tree, its values have that type; if `put` does, pass `--values i64` to it. An absent key counts as 0, or as an \
empty value. If a sum does not fit in i64, the command exits 2 and changes nothing. What is merged into a value that \
expires (put --ttl) expires with it.

Examples:
  esker --tree visits merge index.html --add 1
  esker merge log/today --append 'started; '";

pub(super) const REPAIR: &str = "\
Repair keeps every entry, log record and huge value that passes its checksum. It prints `FILE OFFSET reason` for each \
damaged place, with tree and keys if they are known, and exits 1. If there is no damage, it prints `ok` and changes \
nothing. It deletes nothing: files that the store no longer uses go to a directory quarantine-N in the store's \
directory. If both the manifest and its copy are damaged, trees may get new names, and values that were deleted \
shortly before may be back. If you can, copy the directory first, or restore a backup instead.
Ctrl-C ends a repair with exit code 130: the store keeps all that it had, and the next repair starts again. If Ctrl-C \
comes when the store is already repaired, during the final check, the losses are printed.

Example:
  esker repair --db /srv/x.db";

pub(super) const STATS: &str = "\
Counts and times are those of the process that has the store open. Outside of the shell that is this command, which \
has only just opened it. A program reads its own by `Db::stats`, `Stats::prometheus` and `Db::why_slow`.
With --watch each line has the time (UTC), entries, space on the disk, log to replay, space of huge values, and how \
much entries and space have grown a second since the line before; in the shell also reads, writes and bytes merged a \
second. For each line the command opens the store for reading and closes it again. A writer may open the store in \
between; then the next line waits until the writer has closed it. With --json each line is an object: all figures, \
`time`, and `per_second`, which is null the first time.

Examples:
  esker stats
  esker stats --json
  esker stats --format prometheus
  esker stats --watch          every second; --watch 10: every ten
  esker shell                  and there: stats --why";

pub(super) const RUN: &str = "\
A line is a verb, one space or tab, a key, one space or tab, and a value to the end of the line:
  PUT key value     (or P) without a value: stores an empty one
  GET key           (or G) prints `key value`, or `key EMPTY`
  DELETE key        (or D)
  SCAN lo hi        (or S) prints the rows, or `lo hi EMPTY`
Blank lines and lines that begin with # are skipped. Keys and values are literal; with --escapes \\n, \\t, \\r, \\\\ \
and \\xNN in them stand for bytes. A file that gzip or zstd has compressed is unpacked. Commands take effect in file \
order; everything is synced at the end. A malformed line stops the run with exit code 2.

Examples:
  esker run --keys u64 1.input --output 1.output
  printf 'PUT a 1\\nGET a\\n' | esker run -";

pub(super) const CHECK: &str = "\
It prints `FILE OFFSET reason` for each damaged place, says what to do next, and exits 1. If there is no damage, it \
prints `ok`. It ends with the number of entries in tables, and of entries that are only in the log. Ctrl-C ends the \
check with exit code 130; the places found until then are printed.

Example:
  esker check --db /srv/x.db";

pub(super) const DUMP: &str = "\
FILE is any file in the directory of a store, such as 000001.table, manifest-000001 or wal-000001.log. Keys are shown \
in the type that --keys names, or in the type of their tree, which the manifest in the same directory has; otherwise \
as escaped text.

Example:
  esker dump esker.db/000001.table";

pub(super) const SERVE: &str = "When it accepts connections, it prints the addresses, one a line (resp 127.0.0.1:6379), and then `ready`. A store \
that does not exist is created. SIGTERM or Ctrl-C: no new connections, running commands end, everything is synced; a \
second signal ends it at once. Without --resp, only this machine's clients can connect. docs/server.md has the commands, TLS and users.

Examples:
  esker --db cache.db serve
  esker --db cache.db serve --resp unix:/run/user/1000/esker.sock --durability power
  redis-cli -p 6379 set greeting hello";

pub(super) const QL: &str = "Statements end with `;`. At a terminal: several lines, history, completion of words, tables and columns; `exit` or Ctrl-D \
ends. From a pipe or with --execute, the first statement that fails ends it. Cells are printed as a table at a terminal, \
and as tab-separated text elsewhere. A store that does not exist is created. docs/eskerql.md describes the language.

Examples:
  esker --db stations.db ql
  esker --db stations.db ql -e \"CREATE TABLE t (f); INSERT INTO t VALUES ('row', f:q, 'value'); SELECT * FROM t;\"
  esker --db stations.db ql --format jsonl < report.ql
  esker --db stations.db ql -e \"DUMP TABLE t INTO FILE 't.tsv.zst';\"
  esker ql --url thrift://127.0.0.1:9090 -e \"SHOW TABLES;\"      of esker thrift, or of an HBase cluster";

pub(super) const THRIFT: &str = "When it accepts connections, it prints the address (thrift 127.0.0.1:9090), and then `ready`. A store that does not \
exist is created. SIGTERM or Ctrl-C: no new connections, running calls end, everything is synced; a second signal ends \
it at once. Only this machine's clients can connect. docs/thrift.md has the methods, and where they differ from HBase's.

Examples:
  esker --db stations.db thrift
  esker --db stations.db thrift --listen 127.0.0.1:0
  python3 -c 'import happybase; print(happybase.Connection(\"127.0.0.1\").tables())'";
