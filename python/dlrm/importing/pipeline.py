"""Chunks of records, converted on all cores and taken in their order."""
import collections
import concurrent.futures
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .problems import BadRecord, ImportProblem
from .sources import open_file


class Totals:
    def __init__(self):
        self.records = self.skipped = self.bytes = 0


class Result(NamedTuple):
    converted: object
    skipped: int


def run(schema, inputs, unchanged, threads, work, consume):
    """work(chunk) on several threads, consume(what is converted) on this one, in the order of the inputs."""
    totals = Totals()

    def done(future):
        result = future.result()
        totals.records += result.converted.count
        totals.skipped += result.skipped
        if result.converted.count > 0:
            consume(result.converted)

    with concurrent.futures.ThreadPoolExecutor(threads) as executor:
        waiting = collections.deque()
        try:
            for path in inputs:
                unchanged.check(path)
                file = open_file(schema, path, threads)
                for chunk in file:
                    waiting.append(executor.submit(work, chunk))
                    if len(waiting) > 2 * threads:
                        done(waiting.popleft())
                totals.bytes += file.bytes
                unchanged.check(path)
            while waiting:
                done(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()
    return totals


def convert_chunk(chunk, converter, skip_malformed):
    """The samples of a chunk. Only if something is amiss, each record gets its line."""
    try:
        arrays, count = chunk.fast()
        converted, bad = converter.convert(arrays, count)
        if not bad:
            return Result(converted, 0)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        pass
    arrays, places, bad = chunk.slow()
    converted, more = converter.convert(arrays, len(places))
    if not bad and not more:
        return Result(converted, 0)
    problems = bad + [value._replace(row=int(places[value.row])) for value in more]
    if not skip_malformed:
        first = min(problems, key=lambda value: value.row)
        raise BadRecord(chunk.where(first.row), first.column, first.value, first.problem)
    good = ~np.isin(places, [value.row for value in problems])
    keep = pa.array(good)
    converted, more = converter.convert({name: array.filter(keep) for name, array in arrays.items()},
                                        int(good.sum()))
    if more:
        raise ImportProblem(f"{chunk.where(places[0])}: column {more[0].column}: {more[0].problem} after all")
    return Result(converted, len({value.row for value in problems}))
