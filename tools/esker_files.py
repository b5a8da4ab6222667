"""Parts of the files of a store: numbers, records, data blocks, blob files. See docs/format.md."""

import struct

from xxh3 import M64, checksum, u32, u64

GOLDEN = 0x9E3779B97F4A7C15
PAGE = 4096
PIECE = 1 << 20


class Damage(Exception):
    """Something in a file is not what it should be."""


class Decoder:
    """Reads numbers and slices from bytes, one behind the other."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, count):
        part = self.data[self.at:self.at + count]
        if len(part) != count:
            raise Damage("it ends too early")
        self.at += count
        return part

    def u8(self):
        return self.take(1)[0]

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def varint(self):
        number = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or number > M64:
            raise Damage("a number is too long")
        return number

    def slice(self):
        return self.take(self.varint())

    def numbers(self):
        """A set: the count, then each number as its distance from the one before."""
        return [self.varint() for _ in range(self.varint())]

    def ended(self):
        return self.at >= len(self.data)


def varint(number):
    """The bytes of a number."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def read_at(path, at, count):
    with open(path, "rb") as file:
        file.seek(at)
        data = file.read(count)
    if len(data) != count:
        raise Damage(f"{path} ends before byte {at + count}")
    return data


def records(data, epoch):
    """The whole records of a log segment or a manifest: offset and payload of each."""
    at = PAGE
    while at + 20 <= len(data):
        salt = epoch ^ at * GOLDEN & M64
        header = data[at:at + 20]
        if u32(header, 16) != checksum(salt, header[:16]) & 0xFFFFFFFF:
            return
        payload = data[at + 20:at + 20 + u32(header, 8)]
        if len(payload) != u32(header, 8) or u64(header, 0) != checksum(0, payload) ^ salt:
            return
        yield at, payload
        at += 20 + len(payload)


def footer(path, size, number, salt):
    """Ordinal, offset and length of each value of a sealed file; None where there is no sound footer."""
    if size < PAGE + 64:
        return None
    tail = read_at(path, size - 64, 64)
    if tail[:8] != b"eskerBLF" or checksum(0, tail[:56]) != u64(tail, 56):
        return None
    count, entries_at, check, of_file, of_salt = struct.unpack_from("<5Q", tail, 8)
    if entries_at + 64 * count + 64 != size or (of_file, of_salt) != (number, salt):
        return None
    data = read_at(path, entries_at, 64 * count)
    if checksum(salt, data) != check:
        return None
    found = []
    for at in range(0, len(data), 64):
        found.append(struct.unpack_from("<3Q", data, at))
    return found


def descriptors(path, size, salt, chunk_log2, single):
    """The same of a file that was not sealed, from the descriptors beside the values."""
    found = []
    if single:
        at = last_descriptor(path, size, salt, chunk_log2)
        return [] if at is None else [descriptor(path, size, salt, chunk_log2, at)[0]]
    at = PAGE
    while (entry := descriptor(path, size, salt, chunk_log2, at)) is not None and entry[1] > at:
        found.append(entry[0])
        at = entry[1]
    return found


def align(at):
    return at + 7 & ~7


def sums_end(offset, length, chunk_log2):
    return align(offset + length) + 8 * -(-length // (1 << chunk_log2))


def descriptor(path, size, salt, chunk_log2, at):
    """Ordinal, offset and length, and the end, of the value whose descriptor is at `at`; None where there is none."""
    if at + 64 > size:
        return None
    head = read_at(path, at, 64)
    key_len = u32(head, 12)
    if head[8:12] != b"blob" or key_len > 131072 or at + 64 + key_len > size:
        return None
    if checksum(salt, head[8:] + read_at(path, at + 64, key_len)) != u64(head, 0):
        return None
    ordinal, offset, length = struct.unpack_from("<3Q", head, 16)
    end = sums_end(offset, length, chunk_log2)
    return ((ordinal, offset, length), end) if end <= size else None


def last_descriptor(path, size, salt, chunk_log2):
    """Where the descriptor of a single value begins: the last one that stands right behind its sums."""
    start = (size - 1) // PIECE * PIECE
    while start >= 0:
        data = read_at(path, start, min(PIECE + 16, size - start))
        at = data.rfind(b"blob")
        while at >= 8:
            if at % 8 == 0:
                found = descriptor(path, size, salt, chunk_log2, start + at - 8)
                if found is not None and found[1] == start + at - 8:
                    return start + at - 8
            at = data.rfind(b"blob", 0, at)
        start -= PIECE
    return None


def entries(block):
    """Key, tag, and where the value begins and ends, of each entry of a data block."""
    if len(block) < 24:
        raise Damage("a block is too short")
    count, prefix_len, tag_width, length_width, base_len, offset_width = struct.unpack_from("<IHBBIB", block)
    base_tag = u64(block, 16)
    heads_at = 24 + prefix_len
    offsets_at = heads_at + 4 * count
    prefix = block[24:heads_at]
    offsets = struct.unpack_from(f"<{count}{'H' if offset_width == 2 else 'I'}", block, offsets_at)
    for i, at in enumerate(offsets):
        end = offsets[i + 1] if i + 1 < count else len(block)
        tag = base_tag + int.from_bytes(block[at:at + tag_width], "little")
        at += tag_width
        suffix_len = base_len + int.from_bytes(block[at:at + length_width], "little")
        at += length_width
        head = u32(block, heads_at + 4 * i).to_bytes(4, "big")[:suffix_len]
        rest = max(suffix_len - 4, 0)
        yield prefix + head + block[at:at + rest], tag, at + rest, end


def unpack_lz4(length, packed):
    plain, at = bytearray(), 0

    def extended(amount):
        nonlocal at
        if amount == 15:
            while True:
                byte = packed[at]
                at += 1
                amount += byte
                if byte != 255:
                    break
        return amount

    try:
        while at < len(packed):
            token = packed[at]
            at += 1
            literals = extended(token >> 4)
            plain += packed[at:at + literals]
            at += literals
            if at >= len(packed):
                break
            distance = packed[at] | packed[at + 1] << 8
            at += 2
            matched = extended(token & 15) + 4
            if not 0 < distance <= len(plain):
                raise Damage("a compressed block is damaged")
            start = len(plain) - distance
            while matched:
                part = plain[start:start + min(matched, len(plain) - start)]
                plain += part
                matched -= len(part)
    except IndexError:
        raise Damage("a compressed block is damaged") from None
    if len(plain) != length:
        raise Damage("a compressed block has another length than it says")
    return bytes(plain)
