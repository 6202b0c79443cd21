"""What a schema makes of the columns of some records."""
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.encodings import mix64

from . import native
from .encoder import Encoder, texts
from .preprocessing import preprocessing_bytes
from .values import seconds

SPLIT_SALT = np.uint64(0x5D1F << 32)  # the split must not follow the ids


class Bad(NamedTuple):
    """A value that cannot be used. `row` counts the records given."""
    row: int
    column: str
    value: object  # None: the problem names it
    problem: str


class Coded(NamedTuple):
    """The values of a feature: ids, or with `keys`, an Encoded, the numbers of keys that have ids."""
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
    """Converts arrays of Arrow by a schema. `scales` holds mean and deviation of columns to standardise; without those
    of all the dense matrix is float64, before it is standardised."""

    def __init__(self, schema, scales):
        self.schema = schema
        self.encoder = Encoder(preprocessing_bytes(schema, scales))
        self.plain = any(dense.standardise and dense.column not in scales for dense in schema.dense)

    def convert(self, arrays, count):
        """Returns Converted, and the list of Bad values. Without bad values the first is whole."""
        work = Conversion(self)
        label = work.labels(arrays, count)
        dense = work.dense_matrix(arrays, count)
        sparse = [work.feature(index, feature, arrays[feature.column])
                  for index, feature in enumerate(self.schema.sparse)]
        return Converted(count, label, dense, sparse, work.test_samples(arrays), work.weight(arrays)), work.bad


class Conversion:
    """Of some records."""

    def __init__(self, converter):
        self.schema, self.encoder, self.plain = converter.schema, converter.encoder, converter.plain
        self.bad = []

    def refuse(self, positions, column, array, problem):
        """Notes the values at these positions as bad."""
        for position in positions:
            value = array[int(position)]
            value = value.as_py() if hasattr(value, "as_py") else value
            self.bad.append(Bad(int(position), column, value, problem))

    def note(self, column, refused):
        self.bad += [Bad(row, column, None, problem) for row, problem in refused]

    def read_numbers(self, column, array):
        """Numbers, which of them are missing, and which are bad."""
        values, refused = self.encoder.numbers(column, array)
        self.note(column, refused)
        bad = np.zeros(len(values), bool)
        bad[[row for row, _ in refused]] = True
        return values, np.isnan(values) & ~bad, bad

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
            found = texts(label.column, array)
            self.note(label.column, found.refused)
            keys = found.keys()
            positive = pc.is_in(keys, value_set=pa.array(label.positive, pa.string()))
            positive = positive.to_numpy(zero_copy_only=False).astype(np.float32 if several else np.uint8)
            if several and "" not in label.positive:
                positive[pc.equal(keys, "").to_numpy(zero_copy_only=False)] = np.nan
            return positive[found.values]
        values, absent, bad = self.read_numbers(label.column, array)
        if not several:
            self.refuse(np.flatnonzero(absent), label.column, array, "is missing: every record needs a label")
        if label.above is not None:
            above = values > label.above
            return np.where(absent, np.nan, above).astype(np.float32) if several else above.astype(np.uint8)
        good = (values >= 0) & (values <= 1) if label.soft else (values == 0) | (values == 1)
        self.refuse(np.flatnonzero(~(good | absent | bad)), label.column, array, "is not from 0 to 1" if label.soft else
                    "is neither 0 nor 1 (`above`, `positive` or `soft` take other labels)")
        if several:
            return np.where(good | absent, values, 0).astype(np.float32)
        return np.where(good, values, 0).astype(np.float32 if label.soft else np.uint8)

    def weight(self, arrays):
        """0 where a value is bad."""
        if self.schema.weight is None:
            return None
        column, fill = self.schema.weight.column, self.schema.weight.fill
        values, absent, _ = self.read_numbers(column, arrays[column])
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
        result = np.empty((count, len(self.schema.dense)), np.float64 if self.plain else np.float32)
        for index, dense in enumerate(self.schema.dense):
            result[:, index], refused = self.encoder.dense(index, dense.column, arrays[dense.column], self.plain)
            self.note(dense.column, refused)
        return result

    def feature(self, index, feature, array):
        if isinstance(array, native.Hashed):
            return Coded(array.ids, None, None)
        found = self.encoder.sparse(index, feature, array)
        self.note(feature.column, found.refused)
        return Coded(found.values, found if feature.encoding == "dictionary" else None, found.offsets)

    def test_samples(self, arrays):
        split = self.schema.split
        if split is None or split.by == "fraction":
            return None
        if split.by == "hash":
            found = texts(split.column, arrays[split.column])
            self.note(split.column, found.refused)
            shares = (mix64(native.crc32s(found.keys()) ^ SPLIT_SALT) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            return (shares < split.fraction)[found.values]
        column = self.schema.timestamp.column
        times, bad = seconds(column, arrays[column], self.schema.timestamp.format, self.schema.format.missing,
                             self.encoder)
        self.refuse(bad, column, arrays[column], "is not a time")
        absent = np.isnan(times)
        absent[bad] = False
        self.refuse(np.flatnonzero(absent), column, arrays[column], "is missing: every record needs a time")
        return times >= split.time
