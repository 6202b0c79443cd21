"""CRC-32C (RFC 3720) of blocks of data. Computed by ISA-L if that library is installed, otherwise by NumPy."""
import ctypes
import functools

import numpy as np

POLYNOMIAL = 0x82F63B78  # the lowest bit is the coefficient of x^31
STEPS = 16  # words of 4 bytes in a lane
MOST = 1 << 30  # bytes of one call; ISA-L takes an int


def crc32c(array):
    """The CRC-32C of the bytes of a contiguous array."""
    data = np.frombuffer(array, np.uint8) if array.nbytes else np.empty(0, np.uint8)
    return with_isal(data) if isal() else with_numpy(data)


@functools.lru_cache(maxsize=None)
def isal():
    """ISA-L's function, or None."""
    try:
        function = ctypes.CDLL("libisal.so.2").crc32_iscsi
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
    function.restype = ctypes.c_uint
    return function


def with_isal(data):
    state = 0xFFFFFFFF
    for start in range(0, data.size, MOST):
        part = data[start:start + MOST]
        state = isal()(part.ctypes.data, part.size, state)
    return state ^ 0xFFFFFFFF


def with_numpy(data):
    """A CRC is linear over GF(2), so lanes are computed side by side, each from state 0, and combined in pairs."""
    if data.size < 4:
        return bytewise(data)
    lane = 4 * STEPS
    lanes = -(-data.size // lane)
    padded = np.zeros(lanes * lane, np.uint8)  # zeros before the data leave the state 0
    padded[-data.size:] = data
    start = padded.size - data.size
    padded[start:start + 4] ^= 0xFF  # stands for the initial state of ones
    words = np.ascontiguousarray(padded.view("<u4").reshape(lanes, STEPS).T)
    low, high = word_tables()
    state = np.zeros(lanes, np.intp)
    for word in words:
        state ^= word
        state = np.take(low, state & 0xFFFF) ^ np.take(high, state >> 16)
    return int(combine(state, lane.bit_length() - 1)) ^ 0xFFFFFFFF


def combine(state, level):
    """The state after all lanes, each of 2**level bytes."""
    while state.size > 1:
        if state.size % 2:
            state = np.concatenate([np.zeros(1, np.intp), state])
        state = apply(zeros_tables(level), state[0::2]) ^ state[1::2]
        level += 1
    return state[0]


def bytewise(data):
    state = 0xFFFFFFFF
    for byte in data.tolist():
        state = int(byte_table()[(state ^ byte) & 255]) ^ (state >> 8)
    return state ^ 0xFFFFFFFF


@functools.lru_cache(maxsize=None)
def byte_table():
    """The state after one byte, from state 0."""
    table = np.arange(256, dtype=np.intp)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ POLYNOMIAL, table >> 1)
    return table


@functools.lru_cache(maxsize=None)
def word_tables():
    """The state after 4 bytes, from the lower and from the upper half of (state ^ bytes)."""
    half = np.arange(65536, dtype=np.intp)
    return apply(zeros_tables(2), half), apply(zeros_tables(2), half << 16)


@functools.lru_cache(maxsize=None)
def zeros_tables(level):
    """What 2**level bytes of zeros make of each byte of a state."""
    if level == 0:
        states = [np.arange(256, dtype=np.intp) << shift for shift in (0, 8, 16, 24)]
        return [byte_table()[state & 255] ^ (state >> 8) for state in states]
    half = zeros_tables(level - 1)
    return [apply(half, table) for table in half]


def apply(tables, state):
    parts = [np.take(table, (state >> shift) & 255) for shift, table in zip((0, 8, 16, 24), tables)]
    return parts[0] ^ parts[1] ^ parts[2] ^ parts[3]
