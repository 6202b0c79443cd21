"""How the values of a sparse feature become ids from 0 to rows - 1."""
from __future__ import annotations

import itertools
import json
import numbers
import zlib

import numpy as np

from .files import write_text
from .keys import canonical_text
from .values import BadValue, DatasetError, check_ids, is_integer, missing, refused

LARGEST_HASH = 1 << 31  # rows; ids then have 32 bits
LARGEST_ID = (1 << 63) - 1


class Integers:
    """Integers that are ids already. `rows`: every id is less; by default the largest id of the file plus 1."""

    def __init__(self, rows: int | None = None):
        if rows is not None and not 1 <= rows <= LARGEST_ID:
            raise DatasetError(f"Integers(rows={rows}): rows must be from 1 to 2^63 - 1")
        self.rows = rows

    def encode(self, values: np.ndarray) -> np.ndarray:
        values = integer_array(values)
        check_ids(values, self.rows or LARGEST_ID)
        return values.astype(np.int64)


class Hashed:
    """Integers or texts, hashed into `rows` ids: mix64(x) modulo rows. x is the integer, or zlib.crc32 of the
    text in UTF-8. mix64 is SplitMix64, as in `dlrm-data criteo --max-rows`."""

    def __init__(self, rows: int):
        if not 1 <= rows <= LARGEST_HASH:
            raise DatasetError(f"Hashed({rows}): rows must be from 1 to 2^31")
        self.rows = rows
        self.kinds: dict[str, bool] = {}  # by feature: whether its values are texts

    def check_kind(self, feature, values):
        """A feature has integers, or it has texts: the same number as a text would get another id."""
        if values.dtype == object:
            texts = np.fromiter((isinstance(value, str) for value in values), bool, len(values))
        else:
            texts = np.full(len(values), values.dtype.kind == "U")
        wrong = np.flatnonzero(texts != self.kinds.setdefault(feature, bool(texts[0])))
        if wrong.size and is_category(values[wrong[0]]):
            kinds = ("a text after integers", "an integer after texts")
            raise BadValue(int(wrong[0]), f"{values[wrong[0]]!r:.50} is {kinds[self.kinds[feature]]}; make all of them "
                           "texts or integers")

    def encode(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind in "iub":
            keys = values.astype(np.uint64)
        else:
            keys = encode_each(hash_key, values.tolist(), np.uint64)
        return (mix64(keys) % np.uint64(self.rows)).astype(np.int64)


class Dictionary:
    """Texts or integers, numbered from 1 in the order of first appearance. 12 and "12" are one value. 0 stands for a value that is not in
    the dictionary, and for one that the file has fewer than `threshold` times. The first file that is finished
    with a dictionary fixes it. Later values that are new get 0. Features may share a dictionary."""

    def __init__(self, threshold: int = 1):
        self.threshold = threshold
        self.fixed = False
        self.ids = Numbers()
        self.counts = np.zeros(1, np.int64)  # per id
        self.final_ids: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(self.ids.listed) + 1

    def encode(self, values: np.ndarray) -> np.ndarray:
        values = values.tolist()
        if self.fixed:
            try:
                ids = np.fromiter(map(self.ids.get, values, itertools.repeat(-1)), np.int64, len(values))
            except TypeError:
                raise refused(values, is_category, "a text or an integer") from None
            unknown = np.flatnonzero(ids < 0)
            if not all(is_category(values[index]) for index in unknown):
                raise refused(values, is_category, "a text or an integer")
            for index in unknown:
                ids[index] = self.ids.find(values[index])
            return ids
        ids = encode_each(self.ids.__getitem__, values, np.int64)
        counts = np.bincount(ids, minlength=self.rows)
        counts[:self.counts.size] += self.counts
        self.counts = counts
        return ids

    def fix(self) -> np.ndarray | None:
        """Ends the growth. Returns the final id of each id that was given before, or None if all remain."""
        if not self.fixed and self.threshold > 1:
            kept = self.counts >= self.threshold
            kept[0] = False
            self.final_ids = np.where(kept, np.cumsum(kept), 0)
            self.ids = Numbers(value for value, keep in zip(self.ids.listed, kept[1:]) if keep)
        self.fixed = True
        return self.final_ids

    def save(self, path: str) -> None:
        """Writes the values in the order of their ids, from id 1 on, as a JSON list."""
        write_text(path, lambda file: json.dump(self.ids.listed, file, ensure_ascii=False,
                                                default=int))  # NumPy's integers are not int

    @classmethod
    def load(cls, path: str) -> Dictionary:
        """The fixed dictionary of a file that save() wrote."""
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        result = cls()
        result.ids = Numbers(values)
        result.fixed = True
        return result


class Numbers(dict):
    """Gives each new value the next number, from 1. Each spelling that was seen is a key."""

    def __init__(self, values=()):
        super().__init__()
        self.listed, self.by_text = [], {}  # the first spelling of each value
        for value in values:
            self.listed.append(value)
            self[value] = self.by_text.setdefault(canonical_text(value), len(self.listed))

    def find(self, value):
        """0 if it is unknown."""
        return self.by_text.get(canonical_text(value), 0)

    def __missing__(self, value):
        if not is_category(value):
            raise TypeError
        number = self.find(value)
        if number == 0:
            self.listed.append(value)
            number = self.by_text[canonical_text(value)] = len(self.listed)
        self[value] = number
        return number


def default_encoding(values):
    """Ids as they are if the values are integers, otherwise a dictionary."""
    if values.dtype == object:
        return Integers() if all(map(is_integer, values[:1000])) else Dictionary()
    return Dictionary() if values.dtype.kind in "US" else Integers()


def integer_array(values):
    if values.dtype.kind in "iub":
        return values
    if values.dtype.kind == "f":
        absent = np.flatnonzero(np.isnan(values))
        if absent.size:
            raise BadValue(int(absent[0]), missing(np.nan))
    if values.dtype != object:
        raise BadValue(None, f"its type is {values.dtype}; integers are needed (Dictionary and Hashed take texts)")
    if not all(map(is_integer, values)):
        raise refused(values, is_integer, "an integer")
    try:
        return values.astype(np.int64)
    except OverflowError:
        index = next(index for index, value in enumerate(values) if abs(value) > LARGEST_ID)
        raise BadValue(index, f"id {values[index]} is outside 0 to 2^63 - 1") from None


def encode_each(function, values, dtype):
    """function of each value, which is a text or an integer."""
    try:
        return np.fromiter(map(function, values), dtype, len(values))
    except TypeError:
        raise refused(values, is_category, "a text or an integer") from None


def hash_key(value):
    if isinstance(value, str):
        return zlib.crc32(value.encode())
    if isinstance(value, numbers.Integral):
        return int(value) & 0xFFFFFFFFFFFFFFFF
    raise TypeError


def mix64(values):
    """SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def is_category(value):
    return isinstance(value, (str, numbers.Integral))
