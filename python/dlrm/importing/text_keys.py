"""What texts are hashed by, for many texts at once."""
import functools
import zlib

import numpy as np
import pyarrow as pa

from . import native

LONGEST = 64  # bytes; longer texts are taken one by one
MISSING_HEX = 1 << 32  # as `dlrm-data criteo` has it
NO_DIGIT = 255


def parts(array):
    """The bytes of an array of pa.string(), and where each text begins and ends."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset:array.offset + len(array) + 1].astype(np.intp)
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), bounds[:-1], bounds[1:]


def positions(starts, lengths):
    """For each place in a text, from 0 on: which texts are longer (None: all), and where their byte is."""
    if len(lengths) == 0:
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    for place in range(longest):
        if place < shortest:
            yield None, starts + place
        else:
            longer = np.flatnonzero(lengths > place)
            yield longer, starts[longer] + place


def crc32s(array):
    """zlib.crc32 of each text in UTF-8, as uint64."""
    if native.library():
        return native.crc32s(array)
    data, starts, ends = parts(array)
    lengths = ends - starts
    state = np.full(len(array), 0xFFFFFFFF, np.uint32)
    table = crc_table()
    for longer, places in positions(starts, np.where(lengths > LONGEST, 0, lengths)):
        if longer is None:
            state = table[(state ^ data[places]) & 255] ^ (state >> np.uint32(8))
        else:
            old = state[longer]
            state[longer] = table[(old ^ data[places]) & 255] ^ (old >> np.uint32(8))
    state = state ^ np.uint32(0xFFFFFFFF)
    for index in np.flatnonzero(lengths > LONGEST):
        state[index] = zlib.crc32(data[starts[index]:ends[index]])
    return state.astype(np.uint64)


@functools.lru_cache(maxsize=None)
def crc_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(0xEDB88320), table >> np.uint32(1))
    return table


def hex_values(array):
    """Texts of up to 8 hexadecimal digits as uint64, MISSING_HEX for an empty one; and the positions of others."""
    data, starts, ends = parts(array)
    lengths = ends - starts
    values = np.zeros(len(array), np.uint64)
    wrong = lengths > 8
    digits = hex_digits()
    for longer, places in positions(starts, np.where(wrong, 0, lengths)):
        chosen = slice(None) if longer is None else longer
        digit = digits[data[places]]
        wrong[chosen] |= digit == NO_DIGIT
        values[chosen] = values[chosen] << np.uint64(4) | digit
    values[lengths == 0] = MISSING_HEX
    values[wrong] = 0
    return values, np.flatnonzero(wrong)


@functools.lru_cache(maxsize=None)
def hex_digits():
    table = np.full(256, NO_DIGIT, np.uint8)
    for text in ("0123456789abcdef", "0123456789ABCDEF"):
        table[np.frombuffer(text.encode(), np.uint8)] = np.arange(16)
    return table


def as_list(array):
    """The values of an array without nulls. Much faster than to_pylist."""
    return array.to_numpy(zero_copy_only=False).tolist()


def plain_strings(array):
    return array if array.type == pa.string() else array.cast(pa.string())
