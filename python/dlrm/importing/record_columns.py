"""Columns of the row groups of a Parquet file, for records to predict: dlrm-infer and dlrm-train start this program, write
the number of a row group to its standard input, a line each, and read its columns from its standard output.

    python3 -m dlrm.importing --columns FILE COLUMNS

COLUMNS is an object of JSON: the names of columns, and whether each is a number. The first line of the output is a list
of the records of each row group. The answer for a row group is a line of JSON, a list of its parts, each a list of what an
ArrowColumn says of its columns, with the bytes of their buffers, and then these buffers. Each begins at a multiple of 8
bytes. {"error": TEXT} stands for any answer."""
import ctypes
import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from .encoder import BOOL, FLOAT, MISSING, NUMBERS, TEXT, TEXTS, Laid
from .groups import answer, padded, tried
from .parquet import ParquetFile
from .problems import ImportProblem
from .sources import TEXT_CODES, Unchanged

ANY_LIST = SimpleNamespace(separator="")


class Columns:
    """Columns of a Parquet file. `numbers`: whether each is a number, by name."""

    def __init__(self, path, numbers):
        self.needed = {name: NUMBERS if number else TEXTS for name, number in numbers.items()}
        self.unchanged = Unchanged()
        self.unchanged.check(path)
        self.file = ParquetFile(path, {name: pa.float64() if number else TEXT_CODES for name, number in numbers.items()})
        self.rows = self.file.group_rows()

    def read(self, group):
        """What the columns of each part are, and all their buffers."""
        self.unchanged.check(self.file.path)
        heads, buffers = [], []
        for chunk in self.file.chunks(sum(self.rows[:group]), [group]):
            heads.append([])
            for laid in self.laid(chunk):
                found = [padded(np.frombuffer(buffer, np.uint8)) for buffer in buffers_of(laid.column)]
                heads[-1].append(head_of(laid.column, [len(buffer) for buffer in found]))
                buffers += found
        return heads, buffers

    def laid(self, chunk):
        try:
            arrays, _ = chunk.fast()
        except pa.ArrowInvalid:
            first = min(chunk.slow()[2])
            raise ImportProblem(f"{chunk.where(first.row)}: column {first.column}: {first.problem}") from None
        laid = [Laid(name, arrays[name], needed, ANY_LIST) for name, needed in self.needed.items()]
        for column in laid:
            if len(column.bad):
                raise ImportProblem(f"{chunk.where(chunk.first + column.bad[0])}: column {column.name}: is not UTF-8")
        return laid


def head_of(column, sizes):
    return {"count": column.count, "records": column.records, "coded": column.coded, "kind": column.kind, "bytes": sizes}


def buffers_of(column):
    """The bytes that an ArrowColumn points to, in the order of its members."""
    count = column.coded if column.codes else column.count
    ends, texts = b"", (None, 0)
    if column.kind == TEXT and column.ends:
        found = np.frombuffer(ctypes.string_at(column.ends, 4 * (count + 1)), np.int32)
        ends = found - found[0]
        texts = column.bytes and column.bytes + int(found[0]), int(ends[-1])
    width = {MISSING: 0, TEXT: 0, BOOL: 1, FLOAT: 4}.get(column.kind, 8)
    others = [(column.there, column.count), (column.codes, 4 * column.count), (column.lists, 8 * (column.records + 1))]
    values, texts, *others = [ctypes.string_at(address, size) if address else b""
                              for address, size in [(column.values, width * count), texts, *others]]
    return [values, ends, texts, *others]


def main(arguments):
    out = sys.stdout.buffer
    columns = tried(out, lambda: Columns(arguments[0], json.loads(arguments[1])))
    if columns is None:
        return 2
    answer(out, columns.rows)
    for line in sys.stdin:
        found = tried(out, lambda group=int(line): columns.read(group))
        if found is not None:
            answer(out, *found)
    return 0
