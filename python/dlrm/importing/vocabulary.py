"""Which ids the values of a feature have, while an import runs."""
import itertools
import re

import numpy as np
import pyarrow as pa

from ..dataset.keys import canonical_text

from . import native

WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
PART = 1 << 16  # values that become an array at once


def make_table(known, of_texts):
    """A table of these values, of texts or integers. TypeError if one cannot be in data."""
    table = native.Table(of_texts)
    known = spelled(known, of_texts)
    for begin in range(0, len(known), PART):
        part = known[begin:begin + PART]
        if not all(type(value) is (str if of_texts else int) for value in part):
            raise TypeError
        try:
            table.add(pa.array(part, pa.string() if of_texts else pa.int64()))
        except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
            raise TypeError from None
    return table


def spelled(known, of_texts):
    """Known values as data has them, each in its place. Of several spellings of a value one is found."""
    if not of_texts:
        return [int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value for value in known]
    seen, result = set(known), []
    for value in known:
        text = canonical_text(value)
        if text != value and text not in seen:
            seen.add(text)
            value = text
        result.append(value)
    return result


class Vocabulary:
    """Values numbered from 1 by first appearance; 0 stands for those that are unknown or too rare. It can begin
    with known values, which keep their ids, and it can be frozen. dlrm.dataset's Writer takes it as an encoding:
    the ids that it is given are stored, and become final ones when the first file is finished."""
    dtype = np.int32

    def __init__(self, threshold=1, known=(), frozen=False, of_texts=True):
        self.threshold, self.fixed, self.of_texts = threshold, frozen, of_texts
        self.table = make_table(known, of_texts)
        self.known = len(self.table)
        self.counts = np.zeros(self.known + 1, np.int64)
        self.frozen, self.unknown = frozen, {}  # by feature, if frozen: values without an id, and all
        self.final = None

    @property
    def rows(self):
        return len(self.table) + 1

    def ids_of(self, coded, feature):
        """The ids of a feature's values in some samples."""
        keys = coded.keys
        if self.frozen:
            ids = self.table.find_keys(keys, 1)[coded.ids]
            unknown, total = self.unknown.get(feature, (0, 0))
            self.unknown[feature] = unknown + len(ids) - int(np.count_nonzero(ids)), total + len(ids)
            return ids
        numbers = self.table.add_keys(keys, 1)
        if self.threshold > 1:
            if self.counts.size < self.rows:
                self.counts = np.concatenate([self.counts, np.zeros(self.rows, np.int64)])
            np.add.at(self.counts, numbers, np.bincount(coded.ids, minlength=len(keys)))
        return numbers[coded.ids]

    def encode(self, ids):
        return ids

    def values(self):
        """In the order of their ids, from 1 on."""
        return self.table.values()

    def fix(self):
        """Ends the growth. Returns the final id of each id that was given before, or None if all remain."""
        if not self.fixed and self.threshold > 1:
            kept = self.counts[:self.rows] >= self.threshold
            kept[1:self.known + 1] = True
            kept[0] = False
            self.final = np.where(kept, np.cumsum(kept), 0)
            self.table = make_table(list(itertools.compress(self.table.values(), kept[1:])), self.of_texts)
        self.fixed = True
        return self.final


class Given:
    """Ids that need no dictionary, as an encoding for dlrm.dataset's Writer. rows None: the largest id plus 1."""
    fixed = True

    def __init__(self, rows):
        self.rows = rows
        self.dtype = np.int32 if rows is not None and rows <= 1 << 31 else np.int64

    def ids_of(self, coded, _):
        return coded.ids.astype(self.dtype, copy=False)

    def encode(self, ids):
        return ids
