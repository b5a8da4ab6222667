"""XXH3, 64 bits, seeded: the checksum of every byte in a store. Some 15 MB a second."""

import struct
from operator import xor

M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MIX_1, MIX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def rotl(word, bits):
    return (word << bits | word >> (64 - bits)) & M64


def swapped(word, size):
    return int.from_bytes(word.to_bytes(size, "little"), "big")


def fold(a, b):
    product = a * b
    return product & M64 ^ product >> 64


def avalanche(h):
    h ^= h >> 37
    h = h * MIX_1 & M64
    return h ^ h >> 32


def avalanche_64(h):
    h ^= h >> 33
    h = h * P64_2 & M64
    h ^= h >> 29
    h = h * P64_3 & M64
    return h ^ h >> 32


def mix(data, at, secret_at, seed):
    low = u64(data, at) ^ (u64(SECRET, secret_at) + seed & M64)
    high = u64(data, at + 8) ^ (u64(SECRET, secret_at + 8) - seed & M64)
    return fold(low, high)


def short(data, seed):
    n = len(data)
    if n == 0:
        return avalanche_64(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        word = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_64(word ^ ((u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & M64))
    if n <= 8:
        seed ^= swapped(seed & M32, 4) << 32
        flip = (u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & M64
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ flip
        h ^= rotl(h, 49) ^ rotl(h, 24)
        h = h * MIX_2 & M64
        h ^= (h >> 35) + n
        h = h * MIX_2 & M64
        return h ^ h >> 28
    low = u64(data, 0) ^ ((u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & M64)
    high = u64(data, n - 8) ^ ((u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & M64)
    return avalanche(n + swapped(low, 8) + high + fold(low, high) & M64)


def middle(data, seed):
    n = len(data)
    acc = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += mix(data, 16 * i, 32 * i, seed) + mix(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix(data, 16 * i, 16 * i, seed)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix(data, 16 * i, 16 * (i - 8) + 3, seed)
    return avalanche(acc + mix(data, n - 16, 136 - 17, seed) & M64)


def accumulate(acc, words, secrets):
    products = [(key & M32) * (key >> 32) for key in map(xor, words, secrets)]
    for lane in range(8):
        acc[lane] = acc[lane] + sum(products[lane::8]) + sum(words[lane ^ 1::8]) & M64


def words_of(secret, at, stripes):
    """The words that so many stripes meet: each begins 8 bytes behind the one before."""
    return [u64(secret, at + 8 * stripe + 8 * lane) for stripe in range(stripes) for lane in range(8)]


def long(data, seed):
    n = len(data)
    secret = b"".join(
        struct.pack("<QQ", u64(SECRET, at) + seed & M64, u64(SECRET, at + 8) - seed & M64)
        for at in range(0, 192, 16))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    secrets = words_of(secret, 0, 16)
    scramble = [u64(secret, 128 + 8 * lane) for lane in range(8)]
    blocks = (n - 1) // 1024
    for block in range(blocks):
        accumulate(acc, struct.unpack_from("<128Q", data, 1024 * block), secrets)
        for lane in range(8):
            word = acc[lane]
            acc[lane] = (word ^ word >> 47 ^ scramble[lane]) * P32_1 & M64
    stripes = (n - 1 - 1024 * blocks) // 64
    accumulate(acc, struct.unpack_from(f"<{8 * stripes}Q", data, 1024 * blocks), secrets)
    accumulate(acc, struct.unpack_from("<8Q", data, n - 64), words_of(secret, 121, 1))
    result = n * P64_1
    for i in range(4):
        result += fold(acc[2 * i] ^ u64(secret, 11 + 16 * i), acc[2 * i + 1] ^ u64(secret, 19 + 16 * i))
    return avalanche(result & M64)


def checksum(seed, data):
    """XXH3-64 of `data`, seeded."""
    n = len(data)
    seed &= M64
    if n <= 16:
        return short(data, seed)
    return middle(data, seed) if n <= 240 else long(data, seed)
