"""What a schema makes of the columns of some records."""
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.encodings import mix64

from . import native
from .text_keys import crc32s, hex_values
from .values import fresh, integers, lists, numbers, seconds, texts

SPLIT_SALT = np.uint64(0x5D1F << 32)  # the split must not follow the ids


class Bad(NamedTuple):
    """A value that cannot be used. `row` counts the records given."""
    row: int
    column: str
    value: object
    problem: str


class Coded(NamedTuple):
    """The values of a feature: ids, or with `keys`, an array of Arrow, the numbers of keys that have ids."""
    ids: np.ndarray
    keys: object
    offsets: np.ndarray  # of bags, or None


class Converted(NamedTuple):
    count: int
    label: np.ndarray  # [count], or float32 [count, labels] of several
    dense: np.ndarray  # [count, columns]
    sparse: list  # of Coded
    test: np.ndarray  # which samples are of the test set, or None
    weight: np.ndarray  # float32, or None


class Converter:
    """Converts arrays of Arrow by a schema. `scales` holds mean and deviation of columns to standardise."""

    def __init__(self, schema):
        self.schema = schema
        self.scales = {}
        self.dense_type = np.float32
        self.bad = []

    def convert(self, arrays, count):
        """Returns Converted, and the list of Bad values. Without bad values the first is whole."""
        work = Converter(self.schema)
        work.scales, work.dense_type = self.scales, self.dense_type
        label = work.labels(arrays, count)
        dense = work.dense_matrix(arrays, count)
        sparse = [work.feature(feature, arrays[feature.column]) for feature in self.schema.sparse]
        return Converted(count, label, dense, sparse, work.test_samples(arrays), work.weight(arrays)), work.bad

    def refuse(self, positions, column, array, problem, sample_of=None):
        """Notes the values at these positions as bad."""
        for position in positions:
            position = int(position)
            value = array[position]
            value = value.as_py() if hasattr(value, "as_py") else value
            row = position if sample_of is None else sample_of(position)
            self.bad.append(Bad(row, column, value, problem))

    def read_numbers(self, column, array):
        values, bad = numbers(column, array, self.schema.format.missing)
        self.refuse(bad, column, array, "is not a number")
        return values, bad

    def labels(self, arrays, count):
        labels, tasks = self.schema.labels, self.schema.tasks
        if tasks is None:
            return self.label(labels[0], arrays[labels[0].column]) if labels else np.zeros(count, np.uint8)
        if not labels:
            return np.zeros((count, len(tasks)), np.float32)
        return np.stack([self.label(label, arrays[label.column]) for label in labels], 1)

    def label(self, label, array):
        """One of several is float32, and NaN where a value is missing."""
        several = label.task is not None
        if label.positive is not None:
            indices, keys, bad = texts(label.column, array)
            self.refuse(bad, label.column, array, "is not UTF-8")
            positive = pc.is_in(keys, value_set=pa.array(label.positive, pa.string()))
            found = positive.to_numpy(zero_copy_only=False).astype(np.float32 if several else np.uint8)
            if several and "" not in label.positive:
                found[pc.equal(keys, "").to_numpy(zero_copy_only=False)] = np.nan
            return found[indices]
        values, bad = self.read_numbers(label.column, array)
        absent = np.isnan(values)
        absent[bad] = False
        if not several:
            self.refuse(np.flatnonzero(absent), label.column, array, "is missing: every record needs a label")
        if label.above is not None:
            above = values > label.above
            return np.where(absent, np.nan, above).astype(np.float32) if several else above.astype(np.uint8)
        good = (values >= 0) & (values <= 1) if label.soft else (values == 0) | (values == 1)
        wrong = ~(good | absent)
        wrong[bad] = False
        self.refuse(np.flatnonzero(wrong), label.column, array, "is not from 0 to 1" if label.soft else
                    "is neither 0 nor 1 (`above`, `positive` or `soft` take other labels)")
        if several:
            return np.where(good | absent, values, 0).astype(np.float32)
        return np.where(good, values, 0).astype(np.float32 if label.soft else np.uint8)

    def weight(self, arrays):
        """0 where a value is bad."""
        if self.schema.weight is None:
            return None
        column, fill = self.schema.weight.column, self.schema.weight.fill
        values, bad = self.read_numbers(column, arrays[column])
        absent = np.isnan(values)
        absent[bad] = False
        if fill is not None:
            values = np.where(absent, fill, values)
        elif absent.any():
            self.refuse(np.flatnonzero(absent), column, arrays[column], "is missing: give a `fill`")
        with np.errstate(over="ignore"):
            weights = values.astype(np.float32)
        wrong = ~((weights >= 0) & np.isfinite(weights) | np.isnan(values))
        self.refuse(np.flatnonzero(wrong), column, arrays[column], "is not a finite number of at least 0")
        return np.where(wrong | np.isnan(values), np.float32(0), weights)

    def dense_matrix(self, arrays, count):
        result = np.empty((len(self.schema.dense), count), self.dense_type)
        for index, column in enumerate(self.schema.dense):
            values = self.dense(column, arrays[column.column])
            if column.standardise and column.column in self.scales:
                mean, deviation = self.scales[column.column]
                values = (values - mean) / deviation
            with np.errstate(over="ignore"):
                result[index] = values
                wrong = np.flatnonzero(~np.isfinite(result[index].astype(np.float32, copy=False)))
            if wrong.size:
                self.refuse(wrong, column.column, arrays[column.column], "is too large")
        return np.ascontiguousarray(result.T)

    def dense(self, column, array):
        """float64, before it is standardised; 0 where a value is bad."""
        values, bad = self.read_numbers(column.column, array)
        finite = np.isfinite(values).all()
        if not finite:
            absent = np.isnan(values)
            absent[bad] = False
            if column.fill is not None:
                values = np.where(absent, column.fill, values)
            elif absent.any():
                self.refuse(np.flatnonzero(absent), column.column, array, "is missing: give a `fill`")
        if column.clip is not None:
            values = np.clip(values, *column.clip)
        if not finite:
            self.refuse(np.flatnonzero(np.isinf(values)), column.column, array, "is not finite")
            values = np.where(np.isfinite(values), values, 0)
        return np.log1p(np.maximum(values, 0)) if column.log else values

    def feature(self, feature, array):
        if isinstance(array, native.Hashed):
            return Coded(array.ids, None, None)
        offsets, sample_of = None, None
        if feature.list is not None:
            array, offsets = lists(feature.column, array, feature.list)
            array = fresh(array)

            def sample_of(position):
                return int(np.searchsorted(offsets, position, side="right")) - 1
        if feature.values == "integer":
            return self.whole_numbers(feature, array, offsets, sample_of)
        simple = native.library() and pa.types.is_string(array.type) and not array.null_count
        if simple and feature.encoding == "hash" and feature.values == "text" and feature.fill is None:
            ids = native.hashed(array, feature.rows)
            if ids is not None:
                return Coded(ids, None, offsets)
        indices, keys, bad = texts(feature.column, array, spelled=feature.values == "hex")
        self.refuse(bad, feature.column, array, "is not UTF-8", sample_of)
        if feature.fill is not None and feature.list is None:
            keys = pc.if_else(pc.equal(keys, ""), feature.fill, keys)
        if feature.values == "hex":
            hashes, wrong = hex_values(keys)
            if wrong.size:
                self.refuse(np.flatnonzero(np.isin(indices, wrong)), feature.column, array,
                            "is not of up to 8 hexadecimal digits", sample_of)
        if feature.encoding == "dictionary":
            return Coded(indices, pa.array(hashes) if feature.values == "hex" else keys, offsets)
        if feature.values == "text":
            hashes = crc32s(keys)
        return Coded(hashed(hashes, feature.rows)[indices], None, offsets)

    def whole_numbers(self, feature, array, offsets, sample_of):
        column = feature.column
        values, absent, bad = integers(column, array, self.schema.format.missing)
        self.refuse(bad, column, array, "is not a whole number", sample_of)
        if absent.any():
            if feature.fill is None:
                self.refuse(np.flatnonzero(absent), column, array, "is missing: give a `fill`", sample_of)
            values = np.where(absent, feature.fill or 0, values)
        if feature.encoding == "hash":
            return Coded(hashed(values.astype(np.uint64), feature.rows), None, offsets)
        if feature.encoding == "integers":
            most = feature.rows if feature.rows is not None else np.iinfo(np.int64).max
            wrong = (values < 0) | (values >= most)
            if wrong.any():
                self.refuse(np.flatnonzero(wrong), column, array, f"is not from 0 to {most - 1}", sample_of)
                values = np.where(wrong, 0, values)
            return Coded(values, None, offsets)
        encoded = pa.array(values).dictionary_encode()
        return Coded(encoded.indices.to_numpy(), encoded.dictionary, offsets)

    def test_samples(self, arrays):
        split = self.schema.split
        if split is None or split.by == "fraction":
            return None
        if split.by == "hash":
            indices, keys, _ = texts(split.column, arrays[split.column])
            shares = (mix64(crc32s(keys) ^ SPLIT_SALT) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            return (shares < split.fraction)[indices]
        column = self.schema.timestamp.column
        times, bad = seconds(column, arrays[column], self.schema.timestamp.format, self.schema.format.missing)
        self.refuse(bad, column, arrays[column], "is not a time")
        absent = np.isnan(times)
        absent[bad] = False
        self.refuse(np.flatnonzero(absent), column, arrays[column], "is missing: every record needs a time")
        return times >= split.time


def joined(parts):
    """Some Converted as one."""
    if len(parts) == 1:
        return parts[0]
    tests, weights = [part.test for part in parts], [part.weight for part in parts]
    return Converted(sum(part.count for part in parts), np.concatenate([part.label for part in parts]),
                     np.concatenate([part.dense for part in parts]),
                     [joined_codes(codes) for codes in zip(*(part.sparse for part in parts))],
                     None if tests[0] is None else np.concatenate(tests),
                     None if weights[0] is None else np.concatenate(weights))


def joined_codes(codes):
    offsets = None
    if codes[0].offsets is not None:
        begins = np.cumsum([0] + [code.offsets[-1] for code in codes])
        offsets = np.concatenate([[0]] + [code.offsets[1:] + begin for code, begin in zip(codes, begins)])
    if codes[0].keys is None:
        return Coded(np.concatenate([code.ids for code in codes]), None, offsets)
    arrays = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(code.ids, pa.int32()), code.keys)
                               for code in codes]).unify_dictionaries()
    return Coded(np.concatenate([array.indices.to_numpy() for array in arrays.chunks]), arrays.chunk(0).dictionary,
                 offsets)


def hashed(keys, rows):
    return (mix64(keys) % np.uint64(rows)).astype(np.int32 if rows <= 1 << 31 else np.int64)
