"""Turns a user's columns into NumPy arrays. A value that cannot be used is a BadValue that says which."""
from __future__ import annotations

import itertools
import numbers
from typing import NamedTuple

import numpy as np


class DatasetError(ValueError):
    """One line: what is wrong, where, and what would be right."""


class WriteError(DatasetError):
    """A file cannot be written, for example because the disk is full."""


class BadValue(Exception):
    """A column's value number `index` cannot be used; with index None, all of them."""

    def __init__(self, index, problem):
        super().__init__(problem)
        self.index, self.problem = index, problem


class Bags(NamedTuple):
    """Ids of samples, one after the other: sample i has ids[offsets[i]:offsets[i + 1]]."""
    ids: np.ndarray
    offsets: np.ndarray
    weights: np.ndarray | None = None  # of the ids, float32, or None: the feature has none


class Part(NamedTuple):
    """The values of some samples of a sparse feature."""
    values: object  # an array or a list: sample after sample
    hotness: int  # values of every sample; 0: `offsets` says
    offsets: object  # [samples + 1] from 0, or None

    @property
    def samples(self):
        return len(self.values) // self.hotness if self.hotness else len(self.offsets) - 1

    def lengths(self):
        """The number of values of each sample."""
        return np.full(self.samples, self.hotness) if self.hotness else np.diff(self.offsets)

    def sample_of(self, index):
        if self.hotness:
            return index // self.hotness
        return int(np.searchsorted(self.offsets, index, side="right")) - 1


def sparse_part(column):
    """Scalars have hotness 1, rows of a matrix its width; lists and Bags may have any length."""
    if isinstance(column, Bags):
        return bags_part(np.asarray(column.ids), np.asarray(column.offsets))
    values = as_array(column)
    if values.ndim == 2 and values.shape[1] > 0:
        return Part(values.reshape(-1), values.shape[1], None)
    if values.ndim != 1:
        raise BadValue(None, f"its shape is {values.shape}; one or two dimensions are needed")
    if values.dtype == object and any(is_list(value) for value in values[:1000]):
        return lists_part(values)
    return Part(values, 1, None)


def bags_part(values, offsets):
    if values.ndim != 1 or offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
        raise BadValue(None, "bags need ids of one dimension, and integer offsets, one more than samples")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(values):
        raise BadValue(None, f"its offsets go from {offsets[0]} to {offsets[-1]}; they must go from 0 to the number "
                             f"of ids, {len(values)}")
    check_offsets(offsets)
    return Part(values, 0, offsets)


def id_weights(part, column):
    """The weights of the ids of `part`, from a column of the same shape. float32, finite."""
    given = sparse_part(column)
    if given.samples != part.samples:
        raise BadValue(None, f"it has {given.samples} records, the ids {part.samples}")
    wrong = np.flatnonzero(given.lengths() != part.lengths())
    if wrong.size:
        index = int(wrong[0])
        raise BadValue(index, f"{given.lengths()[index]} weights for {part.lengths()[index]} ids")
    try:
        return float_array(given.values)
    except BadValue as bad:
        raise BadValue(bad.index and part.sample_of(bad.index), bad.problem) from None


def check_offsets(offsets):
    falling = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falling.size:
        index = int(falling[0])
        raise BadValue(index, f"its offsets fall from {offsets[index]} to {offsets[index + 1]}")


def lists_part(lists):
    if not all(map(is_list, lists)):
        raise refused(lists, is_list, "a list")
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(value) for value in lists], out=offsets[1:])
    filled = [value for value in lists if len(value)]  # an empty array has a type of its own
    masked = next((index for index, value in enumerate(lists) if np.ma.is_masked(value)), None)
    if masked is not None:
        raise BadValue(masked, missing(np.nan))
    types = {value.dtype if isinstance(value, np.ndarray) and value.ndim == 1 else None for value in filled}
    if len(types) == 1 and None not in types:  # other types could become floats or texts
        return Part(np.concatenate(filled), 0, offsets)
    plain = (value.tolist() if isinstance(value, np.ndarray) else value for value in filled)
    return Part(as_array(list(itertools.chain.from_iterable(plain))), 0, offsets)


def is_list(value):
    return isinstance(value, (list, tuple, np.ndarray))


def as_array(column):
    """An array of any type. A list of anything but numbers becomes an array of objects: NumPy would turn mixed
    values into texts."""
    if np.ma.is_masked(column):
        mask = np.ma.getmaskarray(column)
        raise BadValue(int(np.argwhere(mask)[0][0]), missing(np.nan))
    if not isinstance(column, (list, tuple)):
        return np.asarray(column)
    if column and all(isinstance(value, numbers.Number) for value in column):
        result = np.asarray(column)
        if result.dtype.kind != "f" or not all(map(is_integer, column)):  # floats are not exact
            return result
    result = np.empty(len(column), object)
    for index, value in enumerate(column):
        result[index] = value
    return result


def float_array(column):
    """A float32 array of the column's shape. Every value is finite."""
    values = as_array(column)
    width = values[0].size if values.ndim > 1 and len(values) else 1
    flat = values.reshape(-1)
    if flat.dtype == object:
        if not all(map(is_number, flat)):
            error = refused(flat, is_number, "a number")
            raise BadValue(error.index // width, error.problem)
        flat = flat.astype(np.float64)
    if flat.dtype.kind not in "fiub":
        raise BadValue(None, f"its type is {values.dtype}; numbers are needed")
    with np.errstate(over="ignore"):
        result = flat.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(result))
    if wrong.size:
        value = flat[wrong[0]]
        raise BadValue(int(wrong[0]) // width, missing(value) or
                       (f"{value} is too large for float32" if np.isfinite(value) else f"{value} is not finite"))
    return result.reshape(values.shape)


def label_array(column):
    """uint8 if the column is of integers or booleans, otherwise float32. Every value is in [0, 1]."""
    values = as_array(column)
    labels = float_array(values)
    if labels.ndim != 1:
        raise BadValue(None, f"its shape is {labels.shape}; a sample has one label")
    check_labels(labels)
    whole = values.dtype.kind in "iub" or (values.dtype == object and all(map(is_integer, values)))
    return labels.astype(np.uint8) if whole else labels


def task_label_array(column):
    """float32, of one of several labels. Every value is in [0, 1], or NaN where it is missing."""
    if np.ma.isMaskedArray(column):
        column = np.ma.filled(column.astype(np.float64), np.nan)
    values = as_array(column)
    if values.ndim != 1:
        raise BadValue(None, f"its shape is {values.shape}; each of several labels is a column")
    there = np.flatnonzero(~np.isnan(values) if values.dtype.kind == "f" else
                           [missing(value) is None for value in values])
    labels = np.full(len(values), np.nan, np.float32)
    try:
        labels[there] = float_array(values[there])
        check_labels(labels[there])
    except BadValue as bad:
        raise BadValue(None if bad.index is None else int(there[bad.index]), bad.problem) from None
    return labels


def weight_array(column):
    """float32. Every value is finite and at least 0."""
    weights = float_array(column)
    if weights.ndim != 1:
        raise BadValue(None, f"its shape is {weights.shape}; a sample has one weight")
    check_weights(weights)
    return weights


def check_weights(weights):
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if wrong.size:
        raise BadValue(int(wrong[0]), f"weight {weights[wrong[0]]:g} is not a finite number of at least 0")


def check_id_weights(weights):
    wrong = np.flatnonzero(~np.isfinite(weights))
    if wrong.size:
        raise BadValue(int(wrong[0]), f"weight {weights[wrong[0]]:g} of an id is not a finite number")


def check_labels(labels):
    """Of several labels [samples, labels] a NaN is one that is missing."""
    right = (labels >= 0) & (labels <= 1)
    if labels.ndim == 2:
        right |= np.isnan(labels)
    wrong = np.argwhere(~right)
    if wrong.size:
        raise BadValue(int(wrong[0][0]), f"label {labels[tuple(wrong[0])]:g} is outside 0 to 1")


def check_ids(ids, rows):
    """Every id is at least 0 and less than rows."""
    if ids.size == 0 or (ids.min() >= 0 and ids.max() < rows):
        return
    index = int(np.flatnonzero((ids < 0) | (ids >= rows))[0])
    raise BadValue(index, f"id {ids[index]} is outside 0 to {rows - 1}")


def is_number(value):
    return isinstance(value, numbers.Real)


def is_integer(value):
    return isinstance(value, numbers.Integral)


def refused(values, accepts, needed):
    """The error for the first missing value, or else for the first that is not accepted."""
    wrong = [index for index, value in enumerate(values) if not accepts(value)]
    for index in wrong:
        if missing(values[index]):
            return BadValue(index, missing(values[index]))
    value = values[wrong[0]]
    return BadValue(wrong[0], f"{value!r:.50} is a {type(value).__name__}; {needed} is needed")


def missing(value):
    """What to say of None, NaN, and pandas' NA and NaT. None for other values."""
    if is_list(value):
        return None
    try:
        there = value is not None and bool(value == value)
    except TypeError:  # NA has no truth value
        there = False
    return None if there else "the value is missing; fill it, or leave the record out"
