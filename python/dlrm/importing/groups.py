"""Row groups of Parquet files as samples, for `data.source: parquet`: dlrm-train starts this program, writes the number
of a row group to its standard input, a line each, and reads the samples from its standard output.

    python3 -m dlrm.importing --groups SCHEMA.yaml DICTIONARY.json|"" PATH...

The first line of the output is JSON: what there is. After it, the preprocessing. The answer for a row group is a line of
JSON, a list of the bytes of each column, and then the columns: label, weight if there is one, dense, and of each feature
ids, and offsets if it has lists. Each begins at a multiple of 8 bytes. {"error": TEXT} stands for any answer."""
import glob
import json
import os
import sys

import numpy as np

from ..dataset import DatasetError

from .columns import Converter
from .outputs import make_encodings
from .parquet import ParquetFile
from .pipeline import convert_chunk
from .preprocessing import preprocessing_bytes
from .problems import ImportProblem
from .schema import read_schema
from .sources import Unchanged, text_types
from .state import State, check_frozen, load_state

ENDINGS = (".parquet", ".pq")


def files_of(paths):
    """The files that paths name: files, folders of them, and patterns."""
    result = []
    for path in paths:
        if os.path.isdir(path):
            found = sorted(os.path.join(path, name) for name in os.listdir(path)
                           if name.endswith(ENDINGS) and not name.startswith((".", "_")))
        else:
            found = [path] if os.path.exists(path) or not glob.has_magic(path) else sorted(glob.glob(path))
        if not found:
            raise ImportProblem(f"{path}: there is no file *{' or *'.join(ENDINGS)}")
        result += found
    for path in result:
        if not os.path.isfile(path):
            raise ImportProblem(f"{path}: no such file")
    return result


class Groups:
    """The row groups of files, as samples of a schema."""

    def __init__(self, schema_path, dictionary, paths):
        self.schema = read_schema(schema_path)
        if self.schema.split is not None:
            raise ImportProblem(f"{schema_path}: split: data.train, data.valid and data.test name files of their own; "
                                "leave it out")
        state = load_state(dictionary) if dictionary else State()
        self.check(schema_path, dictionary, state)
        self.encodings = make_encodings(self.schema, state.dictionaries, True, dictionary)
        self.scales = state.scales
        self.converter = Converter(self.schema, self.scales)
        self.files = [ParquetFile(path, text_types(self.schema)) for path in files_of(paths)]
        self.unchanged = Unchanged()
        self.groups, self.first = [], []  # file and number of each group; its first record in the file
        self.rows = []
        for index, file in enumerate(self.files):
            self.unchanged.check(file.path)
            record = 0
            for number, rows in enumerate(file.group_rows()):
                if rows > 0:
                    self.groups.append((index, number))
                    self.first.append(record)
                    self.rows.append(rows)
                record += rows

    def check(self, schema_path, dictionary, state):
        if dictionary:
            return check_frozen(dictionary, state, self.schema)
        needs = [feature.name for feature in self.schema.sparse if feature.encoding == "dictionary"]
        needs += [dense.column for dense in self.schema.dense if dense.standardise]
        if needs:
            raise ImportProblem(f"data.dictionary is missing: {schema_path} has a dictionary, or a mean, of {needs[0]}; "
                                "`dlrm-data import --dictionary D.json` makes the file")

    def header(self):
        """What there is, and the preprocessing."""
        data = preprocessing_bytes(self.schema, self.scales, self.encodings)
        features = [{"name": feature.name, "rows": self.encodings[feature.name].rows or 0,
                     "bytes": np.dtype(self.encodings[feature.name].dtype).itemsize, "lists": feature.list is not None}
                    for feature in self.schema.sparse]
        return {"rows": self.rows, "files": [file.path for file in self.files],
                "file_of": [file for file, _ in self.groups], "first": self.first, "labels": len(self.schema.labels),
                "dense": len(self.schema.dense), "weighted": self.schema.weight is not None, "features": features,
                "preprocessing": len(data)}, data

    def read(self, index):
        """The columns of a group."""
        number, group = self.groups[index]
        file = self.files[number]
        self.unchanged.check(file.path)
        parts = [convert_chunk(chunk, self.converter, False).converted
                 for chunk in file.chunks(self.first[index], [group])]
        columns = [np.concatenate([part.label for part in parts]).astype(np.float32)]
        if self.schema.weight is not None:
            columns.append(np.concatenate([part.weight for part in parts]))
        columns.append(np.concatenate([part.dense for part in parts]))
        for place, feature in enumerate(self.schema.sparse):
            encoding = self.encodings[feature.name]
            columns.append(np.concatenate([encoding.ids_of(part.sparse[place], feature.name) for part in parts],
                                          dtype=encoding.dtype))
            if feature.list is not None:
                lengths = np.concatenate([np.diff(part.sparse[place].offsets) for part in parts])
                columns.append(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
        return [padded(column) for column in columns]


def padded(column):
    """Its bytes, a multiple of 8."""
    data = np.ascontiguousarray(column).reshape(-1).view(np.uint8)
    return np.concatenate([data, np.zeros(-len(data) % 8, np.uint8)])


def answer(out, head, parts=()):
    out.write(json.dumps(head).encode() + b"\n")
    for part in parts:
        out.write(part)
    out.flush()


def tried(out, function):
    """function(), or None after the answer that says what is wrong."""
    try:
        return function()
    except DatasetError as error:
        text = str(error).removesuffix(" (--skip-malformed leaves such records out)")
    except MemoryError:
        text = "out of memory"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    answer(out, {"error": " ".join(text.split())})
    return None


def main(arguments):
    out = sys.stdout.buffer
    groups = tried(out, lambda: Groups(arguments[0], arguments[1], arguments[2:]))
    if groups is None:
        return 2
    head, data = groups.header()
    answer(out, head, [data])
    for line in sys.stdin:
        columns = tried(out, lambda index=int(line): groups.read(index))
        if columns is not None:
            answer(out, [len(column) for column in columns], columns)
    return 0
