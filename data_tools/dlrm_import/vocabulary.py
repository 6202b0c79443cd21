"""Which ids the values of a feature have, while an import runs."""
import collections
import itertools

import numpy as np

from .text_keys import as_list


def numbered(values):
    """A dict that gives each new value the next number, from 1."""
    known = {value: number for number, value in enumerate(values, 1)}
    return collections.defaultdict(itertools.count(len(known) + 1).__next__, known)


class Vocabulary:
    """Values numbered from 1 by first appearance; 0 stands for those that are unknown or too rare. It can begin
    with known values, which keep their ids, and it can be frozen. dlrm_dataset's Writer takes it as an encoding:
    the ids that it is given are stored, and become final ones when the first file is finished."""
    dtype = np.int32

    def __init__(self, threshold=1, known=(), frozen=False):
        self.threshold, self.fixed = threshold, frozen
        self.ids = numbered(known)
        self.known = len(self.ids)
        self.counts = np.zeros(self.known + 1, np.int64)
        self.frozen = frozen
        self.final = None

    @property
    def rows(self):
        return len(self.ids) + 1

    def ids_of(self, coded):
        """The ids of a feature's values in some samples."""
        keys = as_list(coded.keys)
        if self.frozen:
            return np.fromiter((self.ids.get(key, 0) for key in keys), np.int32, len(keys))[coded.ids]
        numbers = np.fromiter(map(self.ids.__getitem__, keys), np.int32, len(keys))
        if self.threshold > 1:
            if self.counts.size < self.rows:
                self.counts = np.concatenate([self.counts, np.zeros(self.rows, np.int64)])
            self.counts[numbers] += np.bincount(coded.ids, minlength=len(keys))
        return numbers[coded.ids]

    def encode(self, ids):
        return ids

    def fix(self):
        """Ends the growth. Returns the final id of each id that was given before, or None if all remain."""
        if not self.fixed and self.threshold > 1:
            kept = self.counts[:self.rows] >= self.threshold
            kept[1:self.known + 1] = True
            kept[0] = False
            self.final = np.where(kept, np.cumsum(kept), 0)
            self.ids = numbered(value for value, id in self.ids.items() if kept[id])
        self.fixed = True
        return self.final


class Given:
    """Ids that need no dictionary, as an encoding for dlrm_dataset's Writer. rows None: the largest id plus 1."""
    fixed = True

    def __init__(self, rows):
        self.rows = rows
        self.dtype = np.int32 if rows is not None and rows <= 1 << 31 else np.int64

    def ids_of(self, coded):
        return coded.ids.astype(self.dtype, copy=False)

    def encode(self, ids):
        return ids
