"""The library of an import in C++ (data_tools/import_native): reads plain text, and encodes columns. `dlrm-data` names
it in the environment variable DLRM_IMPORT_LIBRARY."""
import ctypes
import functools
import os
import weakref
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..places import HOME
from .problems import ImportProblem

VARIABLE = "DLRM_IMPORT_LIBRARY"
# Where pip installs the library, where a build in the sources has it, and where CMake installs it.
FOLDERS = (os.path.dirname(os.path.abspath(__file__)),
           *(os.path.join(HOME, "build", preset, "lib", "dlrm") for preset in ("cpu", "cuda", "simt")),
           os.path.join(HOME, "..", "..", "lib", "dlrm"))
VERSION = 4
SKIP, NUMBER, INTEGER, CODE, TEXT, HASH = range(6)  # CsvColumn::Kind

pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
FUNCTIONS = {
    "dlrm_csv_read": (pointer, pointer, int64, int64, ctypes.c_char, int32, pointer, int64, pointer, int64),
    "dlrm_count_lines": (int64, pointer, int64),
    "dlrm_csv_free": (None, pointer),
    "dlrm_csv_count": (int64, pointer, int64),
    "dlrm_csv_bytes": (int64, pointer, int64),
    "dlrm_csv_copy": (None, pointer, int64, pointer, pointer),
    "dlrm_table_new": (pointer, int32),
    "dlrm_table_free": (None, pointer),
    "dlrm_table_add": (ctypes.c_bool, pointer, pointer, pointer, int64, int32, pointer),
    "dlrm_table_count": (int64, pointer),
    "dlrm_table_bytes": (int64, pointer),
    "dlrm_table_copy": (None, pointer, pointer, pointer),
    "dlrm_crc32s": (None, pointer, pointer, int64, pointer),
    "dlrm_encoder_new": (pointer, ctypes.c_char_p, int64),
    "dlrm_encoder_free": (None, pointer),
    "dlrm_encode_dense": (pointer, pointer, int64, pointer, ctypes.c_bool, pointer),
    "dlrm_encode_sparse": (pointer, pointer, int64, pointer, ctypes.c_bool),
    "dlrm_encode_numbers": (pointer, pointer, pointer, pointer),
    "dlrm_encode_texts": (pointer, pointer),
    "dlrm_encoded_free": (None, pointer),
    "dlrm_encoded_sizes": (None, pointer, pointer),
    "dlrm_encoded_copy": (None, pointer, pointer, pointer, pointer, pointer),
    "dlrm_encoded_keys": (None, pointer, pointer, pointer),
    "dlrm_table_add_keys": (ctypes.c_bool, pointer, pointer, int32, pointer),
    "dlrm_table_find_keys": (ctypes.c_bool, pointer, pointer, int32, pointer),
}


class Column(ctypes.Structure):
    """CsvColumn."""
    _fields_ = [("kind", int32), ("missing", int32), ("values", pointer), ("absent", pointer), ("rows", int64)]


class Hashed(NamedTuple):
    """A column whose texts were hashed when they were read."""
    ids: np.ndarray


@functools.lru_cache(maxsize=None)
def library():
    """The library."""
    libraries = [os.path.join(folder, "libdlrm_import.so") for folder in FOLDERS]
    path = os.environ.get(VARIABLE) or next(filter(os.path.exists, libraries), None)
    if not path:
        raise ImportProblem("libdlrm_import.so is missing: `launch/build.sh cpu programs` makes it, and pip install .; "
                            f"{VARIABLE} can name it")
    try:
        found = ctypes.CDLL(path)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
        if found.dlrm_import_version() != VERSION:
            raise OSError("it is of another version")
        return found
    except (OSError, AttributeError) as error:
        raise ImportProblem(f"{VARIABLE}: cannot load {path}: {' '.join(str(error).split())}") from None


def count_lines(data):
    return library().dlrm_count_lines(data.ctypes.data, len(data))


def read_csv(data, records, names, wanted, hashed, form, delimiter, quote):
    """Arrays by column of a chunk of whole lines. None if Arrow must read it. `wanted` has Arrow's types, and `hashed`
    the rows of columns that become Hashed."""
    columns, results = (Column * len(names))(), {}
    for name, kind in wanted.items():
        column = columns[names.index(name)]
        if name in hashed:
            column.kind, column.rows, values = HASH, hashed[name], np.empty(records, np.int32)
        elif pa.types.is_floating(kind):
            column.kind, values = NUMBER, np.empty(records, np.float64)
        elif pa.types.is_integer(kind):
            column.kind, values = INTEGER, np.empty(records, np.int64)
            absent = np.empty(records, bool)
            column.absent = absent.ctypes.data
        elif pa.types.is_dictionary(kind):
            column.kind, values = CODE, np.empty(records, np.int32)
        else:
            column.kind, values = TEXT, None
        column.values = None if values is None else values.ctypes.data
        results[name] = values if column.kind != INTEGER else (values, absent)
    missing = [text.encode() for text in form.missing]
    if any(b"\0" in text for text in missing):
        return None
    address = np.frombuffer(data, np.uint8).ctypes.data
    chunk = library().dlrm_csv_read(address, len(data), records, delimiter.encode(), ord(quote) if quote else -1,
                                    columns, len(names), b"".join(text + b"\0" for text in missing), len(missing))
    if not chunk:
        return None
    try:
        return {name: column_array(chunk, names.index(name), columns[names.index(name)], found)
                for name, found in results.items()}
    finally:
        library().dlrm_csv_free(chunk)


def column_array(chunk, index, column, found):
    if column.kind == NUMBER:
        return pa.array(found)
    if column.kind == HASH:
        return Hashed(found)
    if column.kind == INTEGER:
        return pa.array(found[0], mask=found[1] if column.missing else None)
    native = library()
    offsets = np.empty(native.dlrm_csv_count(chunk, index) + 1, np.int32)
    data = np.empty(native.dlrm_csv_bytes(chunk, index), np.uint8)
    native.dlrm_csv_copy(chunk, index, offsets.ctypes.data, data.ctypes.data)
    texts = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return texts if column.kind == TEXT else pa.DictionaryArray.from_arrays(pa.array(found), texts, safe=False)


class Table:
    """Numbers different values from 0 in the order of first appearance: texts, or integers of 64 bits."""

    def __init__(self, of_texts):
        self.of_texts = of_texts
        self.handle = library().dlrm_table_new(True)
        if not self.handle:
            raise MemoryError
        weakref.finalize(self, library().dlrm_table_free, self.handle)

    def __len__(self):
        return library().dlrm_table_count(self.handle)

    def add(self, array):
        """Adds the new ones of an array's values, which has no nulls."""
        numbers = np.empty(len(array), np.int32)
        kept, *place = place_of(array)
        if not library().dlrm_table_add(self.handle, *place, 0, numbers.ctypes.data):
            raise MemoryError
        del kept

    def add_keys(self, keys, first):
        """`first` + the numbers of the keys of an Encoded. New ones are added."""
        return self.numbers(library().dlrm_table_add_keys, keys, first)

    def find_keys(self, keys, first):
        """The same for known keys; `first` - 1 for others."""
        return self.numbers(library().dlrm_table_find_keys, keys, first)

    def numbers(self, function, keys, first):
        numbers = np.empty(len(keys), np.int32)
        if not function(self.handle, keys.handle, first, numbers.ctypes.data):
            raise MemoryError
        return numbers

    def values(self):
        """In the order of their numbers."""
        offsets, data = bytes_of(self.handle)
        if not self.of_texts:
            return data.view(np.int64).tolist()
        texts = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        return texts.to_numpy(zero_copy_only=False).tolist()  # much faster than to_pylist


def bytes_of(table):
    """Offsets and bytes of a table's values."""
    offsets = np.empty(library().dlrm_table_count(table) + 1, np.int64)
    data = np.empty(library().dlrm_table_bytes(table), np.uint8)
    library().dlrm_table_copy(table, offsets.ctypes.data, data.ctypes.data)
    return offsets, data


def place_of(array):
    """What holds the bytes of an array of strings or integers, and addresses of offsets and bytes, and the count."""
    if not pa.types.is_string(array.type):
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).view(np.int64)
        offsets = np.arange(0, 8 * len(values) + 1, 8, np.int32)
        return (values, offsets), offsets.ctypes.data, values.ctypes.data, len(values)
    _, offsets, data = array.buffers()
    if offsets is None:
        return array, None, None, 0
    return array, offsets.address + 4 * array.offset, data.address if data is not None else None, len(array)


def crc32s(array):
    sums = np.empty(len(array), np.uint64)
    kept, *place = place_of(array)
    library().dlrm_crc32s(*place, sums.ctypes.data)
    del kept
    return sums
