"""The inner loops of an import in C++ (data_tools/import_native). Without that library Python and Arrow do the same,
slower. `dlrm-data` names it in the environment variable DLRM_IMPORT_LIBRARY."""
import ctypes
import functools
import os
import weakref
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .problems import ImportProblem

VARIABLE = "DLRM_IMPORT_LIBRARY"
VERSION = 3
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
    "dlrm_table_find": (ctypes.c_bool, pointer, pointer, pointer, int64, int32, pointer),
    "dlrm_table_count": (int64, pointer),
    "dlrm_table_bytes": (int64, pointer),
    "dlrm_table_copy": (None, pointer, pointer, pointer),
    "dlrm_items_new": (pointer, pointer, pointer, int64, pointer, int64),
    "dlrm_items_free": (None, pointer),
    "dlrm_items_count": (int64, pointer),
    "dlrm_items_table": (pointer, pointer),
    "dlrm_items_copy": (None, pointer, pointer, pointer),
    "dlrm_renumber": (int64, pointer, int64, int64, pointer, pointer),
    "dlrm_crc32s": (None, pointer, pointer, int64, pointer),
    "dlrm_hash": (ctypes.c_bool, pointer, pointer, int64, int64, pointer),
}


class Column(ctypes.Structure):
    """CsvColumn."""
    _fields_ = [("kind", int32), ("missing", int32), ("values", pointer), ("absent", pointer), ("rows", int64)]


class Hashed(NamedTuple):
    """A column whose texts were hashed when they were read."""
    ids: np.ndarray


@functools.lru_cache(maxsize=None)
def library():
    """The library, or None."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        found = ctypes.CDLL(path)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
        if found.dlrm_import_version() != VERSION:
            raise OSError("it is of another version")
        return found
    except (OSError, AttributeError) as error:
        raise ImportProblem(f"{VARIABLE}: cannot load {path}: {' '.join(str(error).split())} (without a value, the "
                            "import does without it)") from None


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

    def __init__(self, copies, of_texts):
        self.of_texts = of_texts
        self.handle = library().dlrm_table_new(copies)
        if not self.handle:
            raise MemoryError
        weakref.finalize(self, library().dlrm_table_free, self.handle)

    def __len__(self):
        return library().dlrm_table_count(self.handle)

    def add(self, array, first):
        """`first` + the numbers of the array's values, which has no nulls. New values are added."""
        return self.numbers(library().dlrm_table_add, array, first)

    def find(self, array, first):
        """The same for known values; `first` - 1 for others."""
        return self.numbers(library().dlrm_table_find, array, first)

    def numbers(self, function, array, first):
        numbers = np.empty(len(array), np.int32)
        kept, *place = place_of(array)
        if not function(self.handle, *place, first, numbers.ctypes.data):
            raise MemoryError
        del kept
        return numbers

    def array(self):
        """The values in the order of their numbers."""
        return values_of(self.handle) if self.of_texts else pa.array(bytes_of(self.handle)[1].view(np.int64))


def bytes_of(table):
    """Offsets and bytes of a table's values."""
    offsets = np.empty(library().dlrm_table_count(table) + 1, np.int64)
    data = np.empty(library().dlrm_table_bytes(table), np.uint8)
    library().dlrm_table_copy(table, offsets.ctypes.data, data.ctypes.data)
    return offsets, data


def values_of(table):
    """The texts of a table."""
    offsets, data = bytes_of(table)
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


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


def encode(array):
    """The numbers of the texts of a pa.string() array without nulls, and its different texts."""
    table = Table(False, True)
    numbers = table.add(array, 0)
    return numbers, table.array().cast(pa.string())


def split(array, separator):
    """The items of the texts of a pa.string() array without nulls, as texts with a dictionary in the order of first
    appearance, and the offsets of each text's items. Items of white space are left out. None if Arrow must do it."""
    separator, (kept, *place) = separator.encode(), place_of(array)
    items = library().dlrm_items_new(*place, separator, len(separator))
    if not items:
        return None
    try:
        numbers = np.empty(library().dlrm_items_count(items), np.int32)
        offsets = np.empty(len(array) + 1, np.int64)
        library().dlrm_items_copy(items, numbers.ctypes.data, offsets.ctypes.data)
        texts = values_of(library().dlrm_items_table(items)).cast(pa.string())
    finally:
        library().dlrm_items_free(items)
    del kept
    return pa.DictionaryArray.from_arrays(pa.array(numbers), texts, safe=False), offsets


def crc32s(array):
    sums = np.empty(len(array), np.uint64)
    kept, *place = place_of(array)
    library().dlrm_crc32s(*place, sums.ctypes.data)
    del kept
    return sums


def hashed(array, rows):
    """The ids of the texts of a pa.string() array without nulls. None if one is not its canonical text."""
    ids = np.empty(len(array), np.int32)
    kept, *place = place_of(array)
    found = library().dlrm_hash(*place, rows, ids.ctypes.data)
    del kept
    return ids if found else None


def renumber(indices, values):
    """The indices, of an array of 32 bits without nulls, numbered from 0 in the order of first appearance, and the
    index of each number. There are `values` different indices at most."""
    count = len(indices)
    numbers, used = np.empty(count, np.int32), np.empty(min(count, values), np.int32)
    address = indices.buffers()[1].address + 4 * indices.offset if count else None
    found = library().dlrm_renumber(address, count, values, numbers.ctypes.data, used.ctypes.data)
    if found < 0:
        raise pa.ArrowInvalid("an index has no value")
    return pa.array(numbers), pa.array(used[:found])
