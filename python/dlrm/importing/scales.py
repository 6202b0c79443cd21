"""Mean and deviation of columns, from a pass over all records."""
import numpy as np


class Moments:
    """Counts, means and sums of squared distances from them, which parts are added to."""

    def __init__(self, columns):
        self.columns = columns  # positions in the dense matrix
        self.first = None  # of each column; distances from it are exact, also of large values
        self.count, self.mean, self.squares = 0, np.zeros(len(columns)), np.zeros(len(columns))

    def add(self, converted):
        """Adds the samples of training."""
        values = converted.dense[:, self.columns].astype(np.float64)
        if converted.test is not None:
            values = values[~converted.test]
        if len(values) == 0:
            return
        if self.first is None:
            self.first = values[0].copy()
        values = values - self.first
        mean = values.mean(axis=0)
        squares = ((values - mean) ** 2).sum(axis=0)
        total = self.count + len(values)
        distance = mean - self.mean
        self.squares += squares + distance**2 * (self.count * len(values) / total)
        self.mean += distance * (len(values) / total)
        self.count = total

    def scales(self):
        """Mean and deviation of each column; 1 for the deviation of a constant."""
        first = 0 if self.first is None else self.first
        deviation = np.sqrt(self.squares / max(self.count, 1))
        return [(float(m), float(d) if d > 0 else 1.0) for m, d in zip(self.mean + first, deviation)]
