"""What src/encode makes of columns of Arrow."""
import ctypes
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.keys import canonical_text

from . import native
from .problems import ImportProblem
from .values import converted, is_bytes, is_list, is_text, usual

MISSING, BOOL, INTEGER, FLOAT, DOUBLE, TEXT = range(6)  # ArrowColumn::Kind
PRINTABLE = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
NUMBERS, INTEGERS, TEXTS = "numbers", "integers", "texts or integers"  # what a column is needed as


class ArrowColumn(ctypes.Structure):
    """The struct of include/dlrm/encode/arrow_column.h."""
    _fields_ = [("count", ctypes.c_int64), ("records", ctypes.c_int64)] + [
        (name, ctypes.c_void_p) for name in ("values", "ends", "bytes", "there", "codes", "lists")] + [
        ("coded", ctypes.c_int64), ("kind", ctypes.c_int32)]


class Laid:
    """A column as the library takes it. `bad`: the records of values that are not UTF-8."""

    def __init__(self, name, array, needed, bag=None):
        self.name, self.needed, self.bad, self.held = name, needed, [], []
        self.column = ArrowColumn()
        offsets = None
        kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if bag is not None and is_list(kind):
            array, offsets = flattened(array)
            self.column.lists, self.column.records = self.hold(offsets), len(offsets) - 1
        elif bag is not None and bag.separator is None and is_text(kind) and array.null_count < len(array):
            raise ImportProblem(f"column {name} has texts; give `separator` in its `list`")
        if pa.types.is_dictionary(array.type):
            array = self.take_codes(array)
        array = self.plain(array)
        if not self.column.codes:
            self.column.count = len(array)
            self.take_missing(array)
        self.take_values(array)
        if offsets is not None and len(self.bad):
            self.bad = np.searchsorted(offsets, self.bad, side="right") - 1

    def hold(self, array):
        """The address of an array of NumPy, which stays as long as this."""
        self.held.append(array)
        return array.ctypes.data

    def take_missing(self, array):
        if array.null_count:
            self.column.there = self.hold(array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8))

    def take_codes(self, array):
        """The values that codes stand for, if the library takes these codes."""
        if not is_text(array.type.value_type) or array.dictionary.null_count:
            return array.cast(array.type.value_type)
        codes = array.indices.cast(pa.int32())
        self.column.count, self.column.coded = len(array), len(array.dictionary)
        self.take_missing(codes)
        codes = codes.fill_null(0) if codes.null_count else codes
        self.column.codes = self.hold(codes.to_numpy(zero_copy_only=False))
        return array.dictionary

    def plain(self, array):
        """Of one of the types that the library takes."""
        array = usual(array)
        kind, texts = array.type, self.needed == TEXTS
        if pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind) or is_text(kind):
            return array.cast(pa.string()) if pa.types.is_large_string(kind) else array
        if pa.types.is_integer(kind):
            try:
                return array.cast(pa.int64())
            except pa.ArrowInvalid:  # more than 63 bits
                return array.cast(pa.string())
        if pa.types.is_decimal(kind):
            # Arrow rounds a decimal's double twice, a text's once.
            return array.cast(pa.string()).cast(pa.float64()) if self.needed == NUMBERS else decimal_texts(array)
        if texts and any(is_it(kind) for is_it in PRINTABLE):
            return array.cast(pa.string())
        if texts and is_bytes(kind):
            array, self.bad = converted(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
            return array
        raise ImportProblem(f"column {self.name} has the type {kind}; {self.needed} are needed")

    def take_values(self, array):
        column, kind = self.column, array.type
        if pa.types.is_null(kind):
            column.kind = MISSING
        elif is_text(kind):
            column.kind = TEXT
            held, column.ends, column.bytes, _ = native.place_of(array)
            self.held.append(held)
        else:
            column.kind = (BOOL if pa.types.is_boolean(kind) else INTEGER if pa.types.is_integer(kind) else
                           FLOAT if kind == pa.float32() else DOUBLE)
            array = array.cast(pa.uint8()) if column.kind == BOOL else array
            array = array.fill_null(0) if array.null_count else array
            column.values = self.hold(array.to_numpy(zero_copy_only=False))

    @property
    def records(self):
        return self.column.records if self.column.lists else self.column.count


def flattened(array):
    """The items of all lists, and where each list begins. A missing list has none."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    return array.flatten(), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def decimal_texts(array):
    encoded = array.dictionary_encode()
    texts = [None if value is None else canonical_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


class Encoded:
    """The result of a column. `values` are ids, or with a dictionary the numbers of keys."""

    def __init__(self, handle, laid):
        self.handle, self.laid = handle, laid  # keys may be in its bytes
        if not handle:
            raise MemoryError
        sizes = (ctypes.c_int64 * 7)()
        native.library().dlrm_encoded_sizes(handle, sizes)
        ids, numbers, self.count, self.bytes, offsets, refused, problems = sizes
        self.values = np.empty(numbers, np.int32) if numbers else np.empty(ids, np.int64)
        self.offsets = np.empty(offsets, np.int64) if offsets else None
        records, texts = np.empty(refused, np.int64), ctypes.create_string_buffer(problems)
        native.library().dlrm_encoded_copy(handle, self.values.ctypes.data, self.offsets.ctypes.data if offsets else None,
                                           records.ctypes.data, texts)
        self.refused = [(int(record), "is not UTF-8") for record in laid.bad]
        if refused:
            self.refused += zip(records.tolist(), texts.raw.decode().split("\0"))

    def __del__(self):
        native.library().dlrm_encoded_free(self.handle)

    def __len__(self):
        """How many keys there are."""
        return self.count

    def keys(self):
        """As an array of texts."""
        ends, data = np.empty(self.count + 1, np.int32), np.empty(self.bytes, np.uint8)
        native.library().dlrm_encoded_keys(self.handle, ends.ctypes.data, data.ctypes.data)
        return pa.StringArray.from_buffers(self.count, pa.py_buffer(ends), pa.py_buffer(data))


class Encoder:
    """The library's Encoder of a preprocessing, as bytes that a dataset carries."""

    def __init__(self, preprocessing):
        self.handle = native.library().dlrm_encoder_new(preprocessing, len(preprocessing))
        if not self.handle:
            raise MemoryError
        weakref.finalize(self, native.library().dlrm_encoder_free, self.handle)

    def dense(self, index, name, array, plain=False):
        """A dense column: float32, or with `plain` float64 before it is standardised; and what is refused."""
        laid = Laid(name, array, NUMBERS)
        numbers = np.empty(laid.records, np.float64 if plain else np.float32)
        found = native.library().dlrm_encode_dense(self.handle, index, ctypes.byref(laid.column), plain,
                                                   numbers.ctypes.data)
        return numbers, Encoded(found, laid).refused

    def sparse(self, index, feature, array, keys=True):
        """The Encoded of a feature. With `keys` those of a dictionary have no ids yet."""
        laid = Laid(feature.column, array, INTEGERS if feature.values == "integer" else TEXTS, feature.list)
        found = native.library().dlrm_encode_sparse(self.handle, index, ctypes.byref(laid.column), keys)
        return Encoded(found, laid)

    def numbers(self, name, array):
        """float64 with NaN for missing and refused values, and the latter."""
        laid = Laid(name, array, NUMBERS)
        numbers = np.empty(laid.records, np.float64)
        found = native.library().dlrm_encode_numbers(self.handle, ctypes.byref(laid.column), numbers.ctypes.data)
        return numbers, Encoded(found, laid).refused


def texts(name, array):
    """The Encoded of canonical texts."""
    laid = Laid(name, array, TEXTS)
    return Encoded(native.library().dlrm_encode_texts(ctypes.byref(laid.column)), laid)
