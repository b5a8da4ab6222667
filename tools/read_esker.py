#!/usr/bin/env python3
"""Lists and extracts every value of an Esker store without Esker.

For an emergency: Python's standard library is all it needs, and it changes nothing. It follows docs/format.md. A
store that a program has open and is writing to should be stopped first; a store that was killed is fine.

Damaged records end the log where they stand, damaged tables are skipped, damaged values are left out; each is named
on standard error, and the exit code is 1. Whether the end of the log is a torn tail or damage is not judged: `esker
check` does that. Tables compressed by zstd cannot be read. Values are verified at some 15 MB a second.

  read_esker.py list STORE                     tree, size and key of every value, separated by tabs
  read_esker.py extract STORE DIR              every value to a file below DIR, a directory a tree

In `list`, keys are percent-escaped, and so are the names of files. A tree's directory is one that `esker import`
takes: its keys and values come back.
"""

import argparse
import json
import os
import re
import struct
import sys
import time
from urllib.parse import quote_from_bytes

# Nothing is left behind, not even beside this file.
sys.dont_write_bytecode = True
from esker_files import (
    GOLDEN, PAGE, Damage, Decoder, align, descriptors, entries, footer, read_at, records, unpack_lz4, varint)
from xxh3 import checksum, u32, u64

DELETE, PUT, BLOB, PUT_UNTIL, BLOB_UNTIL, MERGE, PUT_WITH, BLOB_WITH, DELETE_RANGE, TIME = range(10)
HUGE = (BLOB, BLOB_UNTIL, BLOB_WITH)
VALUE_TYPES = (b"hex", b"u64", b"i64", b"u32", b"i32")
SIGN = 1 << 63
SAFE = " !#$&'()*+,-.:;<=>?@[]^_`{|}~"


def key_range(lower, upper):
    return lower, (upper[1:] if upper[:1] == b"\1" else None)


def operand_parts(stored):
    """When an operand was written, if that is noted, the name of its operator, and the operand."""
    len_at = 1 + 8 * (stored[0] >> 7)
    name_len = stored[0] & 127
    time_us = u64(stored, 1) if len_at > 1 else None
    return time_us, stored[len_at:len_at + name_len], stored[len_at + name_len:]


def outliving(operands, expires):
    """Which operands, the oldest first, do not end with a value that expires, and whether one of them has begun anew."""
    times = [operand_parts(operand)[0] for operand in operands]
    begins = [place for place, time_us in enumerate(times) if time_us is not None and time_us >= expires]
    first = min(begins, default=len(operands))
    return [one for place, one in enumerate(operands) if place >= first or times[place] is None], bool(begins)


def merged(value, operands):
    """What operands, the oldest first, make of a value or of None."""
    for operand in operands:
        _, name, operand = operand_parts(operand)
        if name == b"append":
            value = (value or b"") + operand
        elif name == b"add":
            # Both are numbers with the sign bit flipped; sums wrap around.
            total = (SIGN if value is None else int.from_bytes(value, "big")) + int.from_bytes(operand, "big") - SIGN
            value = (total % (1 << 64)).to_bytes(8, "big")
        else:
            raise Damage(f"only a program knows what its merge operator {name.decode(errors='replace')} does")
    return value


def lasting(kind):
    """What an entry of `kind` is before it expires."""
    if kind > BLOB_WITH:
        raise Damage(f"an entry of kind {kind}, which this reader does not know")
    return {PUT_UNTIL: PUT, PUT_WITH: PUT, BLOB_UNTIL: BLOB, BLOB_WITH: BLOB}.get(kind, kind)


def before_value(kind, stored, at, end):
    """When the value of an entry expires, if it does, and where the value or pointer begins. A deletion may tell when the
    value expired in whose place it is."""
    if kind == DELETE and end - at == 8:
        return u64(stored, at), end
    if kind in (PUT_UNTIL, BLOB_UNTIL):
        return u64(stored, at), at + 8
    if kind in (PUT_WITH, BLOB_WITH):
        return u64(stored, at) or None, at + 10 + int.from_bytes(stored[at + 8:at + 10], "little")
    return None, at


def renumbered(pointer, first, count, to, none):
    """A pointer of another store, with the number that the blob file has here."""
    file = Decoder(pointer)
    number = file.varint()
    number = to + number - first if first <= number < first + count else none
    return varint(number) + pointer[file.at:]


class Tree:
    def __init__(self, name):
        self.name, self.tag, self.flushed = name, None, 0
        self.tables = {}
        # The time that its writes have carried, in microseconds since 1970, if values expire by it.
        self.own_time = None
        # key -> (order, kind, where, when it expires): the greatest order is the newest version. It ends with its
        # number.
        self.newest = {}
        # key -> [(order, where)]: what was merged into it.
        self.operands = {}
        # number -> (beginning, end or None): keys in it have no version that is older.
        self.ranges = {}

    def deleted(self, key, seq):
        return any(
            number > seq and lower <= key and (upper is None or key < upper)
            for number, (lower, upper) in self.ranges.items())

    def is_over(self, expires):
        now = time.time_ns() // 1000 if self.own_time is None else self.own_time
        return expires is not None and expires <= now

    def carry(self, time_us):
        if self.own_time is not None:
            self.own_time = max(self.own_time, time_us)

    def set_options(self, edit):
        edit.u8(), edit.u8(), edit.u8(), edit.u8(), edit.slice()
        prefixes = edit.u8()
        if prefixes == 1:
            edit.u8(), edit.u8()
        elif prefixes == 2:
            edit.u8(), edit.slice()
        if edit.u8():
            self.own_time = self.own_time or 0
        edit.slice()

    def add(self, key, order, kind, where, expires):
        if kind == MERGE:
            self.operands.setdefault(key, []).append((order, where))
            return
        held = self.newest.get(key)
        if held is None or held[0] < order:
            self.newest[key] = (order, kind, where, expires)


class Store:
    def __init__(self, path, verify, complain):
        self.path, self.verify, self.complain = path, verify, complain
        self.trees, self.floor = {}, (0, 0)
        self.blobs = {}
        names = os.listdir(path)
        self.read_manifest(self.numbered(names, r"manifest-(\d{6,})$"))
        for number, name in sorted(self.numbered(names, r"(\d{6,})\.blob$").items()):
            self.attempt(name, lambda: self.read_blob_file(number, os.path.join(path, name)))
        for tree in self.trees:
            for (level, _), table in sorted(self.trees[tree].tables.items()):
                self.attempt(f"{table['file']:06}.table", lambda: self.read_table(tree, level, table))
        self.read_log(self.numbered(names, r"wal-(\d{6,})\.log$"))

    def numbered(self, names, pattern):
        found = ((re.match(pattern, name), name) for name in names)
        numbers = ((match.group(1), name) for match, name in found if match)
        return {int(digits): name for digits, name in numbers if digits == f"{int(digits):06}"}

    def attempt(self, name, work):
        try:
            return work()
        except (Damage, OSError, UnicodeDecodeError) as error:
            self.complain(f"{name}: {error}")

    # The manifest.

    def read_manifest(self, manifests):
        if not manifests:
            raise Damage(f"{self.path} has no manifest: is it a store?")
        with open(os.path.join(self.path, manifests[max(manifests)]), "rb") as file:
            data = file.read()
        header = data[:32]
        if header[:8] != b"eskerMAN" or checksum(0, header[:24]) != u64(header, 24):
            raise Damage("the manifest's header is damaged")
        if u32(header, 8) != 1:
            raise Damage("the manifest is of a newer format")
        for _, payload in records(data, u64(header, 16)):
            edits = Decoder(payload)
            while not edits.ended():
                self.apply(edits.u8(), edits)

    def apply(self, tag, edit):
        if tag == 7:
            self.floor = (edit.varint(), edit.varint())
        elif tag in (9, 11):
            edit.varint()
        elif tag == 17:
            edit.varint()
            edit.varint()
            for _ in range(edit.varint()):
                edit.varint()
        elif tag == 16:
            edit.u64()
        elif tag == 8:
            for _ in range(3):
                edit.varint()
        elif tag == 10:
            self.skip_blob_edit(edit)
        elif tag == 1:
            tree = edit.varint()
            self.trees[tree] = Tree(edit.slice())
            self.trees[tree].set_options(edit)
        elif tag == 2:
            del self.trees[edit.varint()]
        else:
            self.change(tag, self.trees[edit.varint()], edit)

    def change(self, tag, tree, edit):
        if tag == 3:
            tree.tag = edit.slice()
        elif tag == 4:
            level, table = edit.u8(), {"file": edit.varint(), "salt": edit.u64()}
            flags = edit.u8()
            if flags > 63:
                raise Damage(f"the manifest has a table with flags {flags} that this reader does not know")
            table["prefix"] = edit.varint().to_bytes(4, "big") if flags & 1 else b""
            table["one_number"], table["clipped"] = flags & 2, flags & 4
            # Where another store wrote the table: the first number of its blob files, how many, what they are here, and any other.
            table["renumbered"] = tuple(edit.varint() for _ in range(4)) if flags & 8 else None
            for _ in range(4):
                edit.varint()
            table["max_seq"] = edit.varint() + edit.varint()
            edit.varint()
            if edit.varint():
                edit.varint(), edit.varint(), edit.u8(), edit.varint()
            if flags & 16:
                edit.varint()  # when a compaction rule wants to see it again
            if flags & 32:
                edit.varint(), edit.varint()  # and when no snapshot pins its garbage
            table["bounds"] = edit.slice(), edit.slice()
            tree.tables[level, table["file"]] = table
        elif tag == 5:
            level = edit.u8()
            del tree.tables[level, edit.varint()]
        elif tag == 6:
            tree.flushed = max(tree.flushed, edit.varint())
            tree.carry(edit.varint())
        elif tag == 12:
            number = edit.varint()
            tree.ranges[number] = key_range(edit.slice(), edit.slice())
        elif tag == 13:
            del tree.ranges[edit.varint()]
        elif tag == 14:
            edit.varint(), edit.slice(), edit.slice()
        elif tag == 15:
            tree.set_options(edit)
        elif tag == 18:
            pass  # operands have times
        else:
            raise Damage(f"the manifest has an edit {tag} that this reader does not know")

    @staticmethod
    def skip_blob_edit(edit):
        """Which values of blob files are needed follows from the keys."""
        kind = edit.u8()
        edit.varint()
        if kind == 0:
            edit.u64()
            if edit.u8() & 4:
                edit.varint()  # what it is called in itself, which its header says too
            edit.varint(), edit.numbers()
        elif kind in (1, 2):
            edit.numbers()
        elif kind == 3:
            edit.varint()
        elif kind == 4:
            edit.varint(), edit.varint()
            for _ in edit.numbers():
                edit.u64()
            edit.numbers()
        else:
            raise Damage("the manifest has an edit of blob files that this reader does not know")

    # Tables.

    def read_table(self, tree_id, level, table):
        tree, path = self.trees[tree_id], os.path.join(self.path, f"{table['file']:06}.table")
        size = os.path.getsize(path)
        if size < 64:
            raise Damage("it is too short for a table")
        footer = read_at(path, size - 64, 64)
        if footer[56:] != b"eskertbl" or checksum(0, footer[:48]) != u64(footer, 48):
            raise Damage("the footer is damaged")
        _, index_at, properties_at, length, salt = struct.unpack_from("<5Q", footer)
        if length != size or salt != table["salt"] or u32(footer, 40) != 1:
            raise Damage("it is not the table that the manifest means, or of a newer format")
        _, index = self.frame(read_at(path, index_at, properties_at - index_at), salt, index_at)
        index = Decoder(index)
        at = 0
        for _ in range(index.varint()):
            index.varint(), index.slice()
            stored = index.varint()
            self.attempt(
                f"{path} at {at}",
                lambda: self.read_block(tree, level, table, path, at, stored))
            at += stored

    def frame(self, stored, salt, at):
        if checksum(salt + at, stored[:-8]) != u64(stored, len(stored) - 8):
            raise Damage("a block is damaged")
        return stored[-9], stored[:-9]

    def read_block(self, tree, level, table, path, at, stored):
        compression, block = self.frame(read_at(path, at, stored), table["salt"], at)
        if compression == 1:
            plain = Decoder(block)
            block = unpack_lz4(plain.varint(), block[plain.at:])
        elif compression:
            raise Damage("a block is compressed by zstd, which this reader cannot read")
        own, (smallest, largest) = table["prefix"], table["bounds"]
        for key, tag, value_at, end in entries(block):
            if not key.startswith(own):
                continue
            if table["clipped"] and not smallest <= key[len(own):] <= largest:
                continue
            # A smaller level is newer; in level 0 the table with the greater number of its newest write.
            order = (1, -level, table["max_seq"] if level == 0 else 0,
                     table["max_seq"] if table["one_number"] else tag >> 3)
            kind = tag & 7
            expires, value_at = before_value(kind, block, value_at, end)
            if compression or kind in HUGE:
                where = block[value_at:end]
                if kind in HUGE and table["renumbered"]:
                    where = renumbered(where, *table["renumbered"])
            else:
                where = (path, at + value_at, end - value_at)
            tree.add(key[len(own):], order, lasting(kind), where, expires)

    # The log.

    def read_log(self, files):
        segments = []
        for name in files.values():
            path = os.path.join(self.path, name)
            with open(path, "rb") as file:
                header = file.read(72)
            if len(header) < 72 or not any(header[:8]):
                continue
            if header[:8] != b"eskerWAL" or checksum(0, header[:64]) != u64(header, 64) or u32(header, 8) != 1:
                self.complain(f"{name}: the header is damaged, or of a newer format")
                continue
            identity, epoch, first_seq, start = struct.unpack_from("<4Q", header, 16)
            if identity >= self.floor[0]:
                segments.append((identity, epoch, first_seq, start, path))
        expected = None
        for identity, epoch, first_seq, start, path in sorted(segments):
            if expected is None and (identity, start) != self.floor:
                self.complain("the log's first segment is missing")
            elif expected is not None and (identity, first_seq, start) != expected:
                self.complain(f"{path} does not follow the segment before it; the log ends")
                return
            with open(path, "rb") as file:
                data = file.read()
            seq = first_seq
            for at, payload in records(data, epoch):
                seq += self.take_batch(path, at + 20, payload, seq)
                start += 20 + len(payload)
            expected = (identity + 1, seq, start)

    def take_batch(self, path, payload_at, payload, seq):
        if u32(payload, 0) == 0:
            return u64(payload, 4) - seq  # what skipped the log has taken the numbers up to there
        ops = Decoder(payload, 4)
        for index in range(u32(payload, 0)):
            kind, tree, key = ops.u8(), self.trees.get(ops.varint()), ops.slice()
            if kind == DELETE_RANGE:
                upper = ops.slice()
                if tree is not None and seq + index > tree.flushed:
                    tree.ranges[seq + index] = key_range(key, upper)
                continue
            where, expires = None, None
            if kind == TIME:
                time_us = u64(ops.slice(), 0)
                if tree is not None and seq + index > tree.flushed:
                    tree.carry(time_us)
                continue
            if kind != DELETE:
                value = ops.slice()
                expires, value_at = before_value(kind, value, 0, len(value))
                value = value[value_at:]
                kind = lasting(kind)
                where = value if kind == BLOB else (path, payload_at + ops.at - len(value), len(value))
            if tree is not None and seq + index > tree.flushed:
                tree.add(key, (2, 0, 0, seq + index), kind, where, expires)
        return u32(payload, 0)

    # Blob files.

    def read_blob_file(self, number, path):
        size = os.path.getsize(path)
        header = read_at(path, 0, 48) if size >= PAGE else bytes(48)
        if not any(header):
            return
        if header[:8] != b"eskerBLB" or checksum(0, header[:40]) != u64(header, 40) or u32(header, 8) != 1:
            raise Damage("the header is damaged, or of a newer format")
        if not 12 <= header[13] <= 20:
            raise Damage("the header is damaged")
        # A file that was imported has another number in itself than in its name, which pointers have once they are read.
        own, salt, chunk_log2 = u64(header, 16), u64(header, 24), header[13]
        listed = footer(path, size, own, salt)
        if listed is None:
            listed = descriptors(path, size, salt, chunk_log2, single=header[12] == 1)
        for ordinal, offset, length in listed:
            self.blobs[number, ordinal] = (path, salt, offset, length, chunk_log2)

    def blob(self, pointer):
        """The pieces of a huge value, verified."""
        pointer = Decoder(pointer)
        name, length = (pointer.varint(), pointer.varint()), pointer.varint()
        pointer.varint()
        check = pointer.u64()
        if name not in self.blobs:
            raise Damage("its blob file is missing or damaged")
        path, salt, offset, stored, chunk_log2 = self.blobs[name]
        sums_at, chunk = align(offset + length), 1 << chunk_log2
        sums = read_at(path, sums_at, 8 * -(-length // chunk))
        name_bytes = struct.pack("<2Q", name[1], length)
        if stored != length or checksum(checksum(salt, name_bytes), sums) != check:
            raise Damage(f"its sums in {path} are damaged")
        seed = checksum(salt, name_bytes[:8])
        return self.chunks(path, offset, length, chunk, sums, seed)

    def chunks(self, path, offset, length, chunk, sums, seed):
        with open(path, "rb") as file:
            file.seek(offset)
            for index in range(-(-length // chunk)):
                data = file.read(min(chunk, length - index * chunk))
                if len(data) != min(chunk, length - index * chunk):
                    raise Damage(f"{path} ends in chunk {index}")
                if self.verify and checksum(seed + index * GOLDEN, data) != u64(sums, 8 * index):
                    raise Damage(f"chunk {index} in {path} is damaged")
                yield data

    # What is asked for.

    def values(self):
        """Tree, key, length and pieces of every live value, in order."""
        for tree in sorted(self.trees.values(), key=lambda tree: tree.name):
            for key in sorted({**tree.newest, **tree.operands}):
                order, kind, where, expires = tree.newest.get(key, ((), DELETE, None, None))
                if tree.deleted(key, order[-1] if order else 0):
                    kind, expires = DELETE, None
                if tree.is_over(expires):
                    kind = DELETE
                operands = sorted(
                    one for one in tree.operands.get(key, [])
                    if one[0] > order and not tree.deleted(key, one[0][-1]))
                value = None if kind == DELETE else self.value(kind, where)
                if operands:
                    made = self.attempt(f"the key {key!r}", lambda: self.made(value, operands, expires))
                    value = None if made is None else (len(made), lambda: [made])
                if value is not None:
                    yield tree, key, *value

    def made(self, value, operands, expires):
        """What operands make of a value, or of None; None if it has expired."""
        read = [where if isinstance(where, bytes) else read_at(*where) for _, where in operands]
        if expires is not None:
            left, has_begun = outliving(read, expires)
            if has_begun or value is None:
                return merged(None, left) if left else None
        return merged(None if value is None else b"".join(value[1]()), read)

    def value(self, kind, where):
        """Length and pieces."""
        if kind == BLOB:
            pointer = Decoder(where, 0)
            pointer.varint(), pointer.varint()
            return pointer.varint(), lambda: self.blob(where)
        if isinstance(where, bytes):
            return len(where), lambda: [where]
        return where[2], lambda: [read_at(*where)]


def escaped(part):
    """A part of a key as the name of a file or a directory."""
    if part in (b".", b"..", b".esker-export"):
        return part.decode().replace(".", "%2E")
    return quote_from_bytes(part, safe=SAFE) or "%"


class Extraction:
    """A directory that gets a file for each value of one tree."""

    def __init__(self, root, tree):
        self.root, self.files, self.long = root, set(), 0
        os.makedirs(root)
        # The tag has the types of keys and, where they are not text, of values; the files have the values' bytes.
        keys, _, values = (tree.tag or b"text").partition(b" ")
        self.text = keys == b"text"
        marker = {"esker_export": 1, "tree": tree.name.decode(), "keys": "text" if self.text else "hex",
                  "values": values.decode() if values in VALUE_TYPES else "text"}
        with open(os.path.join(root, ".esker-export"), "x", encoding="utf-8") as file:
            file.write(json.dumps(marker) + "\n")

    def path_of(self, key):
        path, names = self.root, [escaped(part) for part in key.split(b"/")]
        for i, name in enumerate(names):
            # A name that is a file already gets a sign behind it as a directory.
            name += "%" if i + 1 < len(names) and os.path.join(path, name) in self.files else ""
            path = os.path.join(path, name)
            if len(name) > 240:
                return None
        return path if sum(map(len, names)) + 2 * len(names) <= 1024 else None

    def save(self, key, pieces):
        typed = key if self.text else key.hex().encode()
        path = self.path_of(typed)
        if path is None:
            self.long += 1
            path = os.path.join(self.root, "%long", f"{self.long}.value")
        self.write(path, pieces)
        self.files.add(path)
        if path.startswith(os.path.join(self.root, "%long", "")):
            self.write(path[:-len("value")] + "key", [typed])

    @staticmethod
    def write(path, pieces):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            try:
                file.writelines(pieces)
            except BaseException:
                os.remove(path)
                raise


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-verify", action="store_true", help="do not check the bytes of huge values (faster)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="list|extract")
    listing = commands.add_parser("list", help="print tree, size and key of every value")
    extract = commands.add_parser("extract", help="write every value to a file")
    for command in (listing, extract):
        command.add_argument("store", help="the store's directory")
    extract.add_argument("dir", help="a new directory")
    args = parser.parse_args()
    problems = 0

    def complain(problem):
        nonlocal problems
        problems += 1
        print(problem, file=sys.stderr)

    try:
        store = Store(args.store, not args.no_verify, complain)
        if args.command == "extract":
            os.mkdir(args.dir)
        extractions = {}
        for tree, key, length, pieces in store.values():
            if args.command == "list":
                print(tree.name.decode(), length, quote_from_bytes(key, safe=SAFE + "/"), sep="\t")
                continue
            if tree not in extractions:
                extractions[tree] = Extraction(os.path.join(args.dir, escaped(tree.name)), tree)
            name = f"{tree.name.decode()}: {quote_from_bytes(key)}"
            store.attempt(name, lambda: extractions[tree].save(key, pieces()))
    except (Damage, OSError, KeyError) as error:
        complain(f"cannot go on: {error}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
