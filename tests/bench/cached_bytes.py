#!/usr/bin/env python3
"""How much of a DCNv2 step's lookups and gradients comes from memory, if a cache keeps the rest.

    tests/bench/cached_bytes.py [--alpha 1.05] [--batch 55296] [--cache-mb 50,25]

Draws the ids of docs/benchmarks/gpu.md on one GPU: lookups bag by bag, the update row by row, table
after table. The cache is one LRU list of whole vectors. A GPU's cache is not, and it works on many
rows at once, so these are estimates.
"""
import argparse
from collections import OrderedDict

import numpy

MOST_ROWS = 20_000_000
ROWS = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209,
        11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36]
HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
ROW, GRADIENT = 512, 256  # bytes: 128 columns of fp32 and of bf16
ROW_AND_STATE = 2 * ROW


class Cache:
    """Sizes of objects, the one that was used last at the end."""

    def __init__(self, capacity):
        self.kept, self.free, self.missed = OrderedDict(), capacity, 0

    def use(self, key, size):
        if key in self.kept:
            self.kept.move_to_end(key)
            return
        self.missed += size
        self.kept[key] = size
        self.free -= size
        while self.free < 0:
            self.free += self.kept.popitem(last=False)[1]


def draw(random, rows, count, alpha):
    """As PowerLaw in src/data/synthetic_draws.cpp: 0 is the hottest id."""
    r, g = random.random(count), 1 - alpha
    ids = r * rows if alpha == 0 else (r * ((rows + 1.0)**g - 1) + 1)**(1 / g) - 1
    return numpy.clip(ids.astype(numpy.int64), 0, rows - 1)


def looked_up(ids, capacity):
    cache = Cache(capacity)
    for row in ids.tolist():
        cache.use(row, ROW)
    return cache.missed


def gradients(ids, bags, capacity):
    """The gradient bytes of an update. Rows and their state pass through the same cache."""
    order = numpy.argsort(ids, kind="stable")
    cache, last, rows = Cache(capacity), -1, 0
    for row, bag in zip(ids[order].tolist(), bags[order].tolist()):
        if row != last:
            cache.use(-1 - row, ROW_AND_STATE)
            last, rows = row, rows + 1
        cache.use(bag, GRADIENT)
    return cache.missed - rows * ROW_AND_STATE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, default=1.05)
    parser.add_argument("--batch", type=int, default=55296)
    parser.add_argument("--cache-mb", default="50,25")
    options = parser.parse_args()
    sizes = [int(size) for size in options.cache_mb.split(",")]
    random = numpy.random.default_rng(1)
    found = {size: [0, 0] for size in sizes}
    for rows, hotness in zip(ROWS, HOTNESS):
        ids = draw(random, min(rows, MOST_ROWS), options.batch * hotness, options.alpha)
        bags = numpy.repeat(numpy.arange(options.batch), hotness)
        for size in sizes:
            found[size][0] += looked_up(ids, size * 10**6)
            found[size][1] += gradients(ids, bags, size * 10**6)
    count = options.batch * sum(HOTNESS)
    print(f"by id: rows {count * ROW / 1e9:.2f} GB, gradients {count * GRADIENT / 1e9:.2f} GB")
    for size in sizes:
        print(f"with {size} MB: rows {found[size][0] / 1e9:.2f} GB, "
              f"gradients {found[size][1] / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
