"""The files of an import as chunks of records."""
import collections
import os

import pyarrow as pa

from .guard import now_reading
from .json_lines import JsonFile
from .parquet import ParquetFile
from .problems import ImportProblem
from .schema import Format
from .text import Lines, TextFile

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
OTHERS = {b"PK\x03\x04": "zip", b"PK\x05\x06": "zip", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2",
          b"7z\xbc\xaf\x27\x1c": "7z", b"\x04\x22\x4d\x18": "lz4"}
DELIMITERS = ",;\t|"
TEXT_CODES = pa.dictionary(pa.int32(), pa.string())


def kind_of(schema, path):
    """The format of a file: that of the schema, or by the file's name."""
    return schema.format.type or kind_by_name(path)


def kind_by_name(path):
    base = path
    while os.path.splitext(base)[1] in (".gz", ".zst", ".zstd", ".zip", ".xz", ".bz2", ".7z", ".lz4"):
        base = os.path.splitext(base)[0]
    kinds = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".parquet": "parquet", ".pq": "parquet", ".json": "json",
             ".jsonl": "json", ".ndjson": "json"}
    kind = kinds.get(os.path.splitext(base)[1].lower())
    if kind is None:
        raise ImportProblem(f"{path}: the format cannot be told from the name; give `format` in the schema")
    return kind


def open_stream(path):
    """Bytes, decompressed if they begin as gzip or zstd do."""
    try:
        with open(path, "rb") as file:
            start = file.read(6)
        other = next((name for magic, name in OTHERS.items() if start.startswith(magic)), None)
        if other is not None:
            raise ImportProblem(f"{path}: is compressed as {other}, which is not read: unpack it first, or pack it "
                                "with gzip or zstd")
        compression = next((name for magic, name in COMPRESSIONS.items() if start.startswith(magic)), None)
        return pa.input_stream(path, compression=compression)
    except OSError as error:
        raise ImportProblem(f"{path}: cannot open: {error.strerror or error}") from None


def survey(path, kind):
    """The format of a file, with the delimiter that its header seems to have."""
    form = Format()
    if kind == "csv":
        line = Lines(path, open_stream(path)).first_line() or b""
        counts = {delimiter: line.count(delimiter.encode()) for delimiter in DELIMITERS}
        best = max(DELIMITERS, key=lambda delimiter: counts[delimiter])  # the first of equals
        form.delimiter = best if best != "," and counts[best] > 0 and counts[","] == 0 else None
    return form


class Unchanged:
    """Notices an input that another program changes while it is read, or between two passes."""

    def __init__(self):
        self.seen = {}

    def check(self, path):
        try:
            found = os.stat(path)
        except OSError as error:
            raise ImportProblem(f"{path}: cannot read: {error.strerror}") from None
        now = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        if self.seen.setdefault(path, now) != now:
            raise ImportProblem(f"{path}: another program changes the file while it is read; import it when it is whole")


def open_file(schema, path, threads):
    return open_columns(schema.format, kind_of(schema, path), path, text_types(schema), hashed_columns(schema), threads)


def open_columns(form, kind, path, wanted, hashed=None, threads=1):
    """The file as chunks; wanted: types by column, or None for all columns as texts. `hashed`: the rows of columns
    that may be hashed when they are read."""
    now_reading(path)
    if kind == "parquet":
        return ParquetFile(path, wanted, threads)
    if kind == "json":
        return JsonFile(path, open_stream(path), wanted)
    delimiter = form.delimiter or ("," if kind == "csv" else "\t")
    quote = form.quote if form.quote is not None else ('"' if kind == "csv" else "")
    return TextFile(path, open_stream(path), form, delimiter, quote, wanted, hashed or {})


def text_types(schema):
    """What Arrow shall make of the columns of text. A column that is used twice remains a text."""
    kinds = {}

    def use(column, kind):
        kinds[column] = kind if kinds.get(column, kind) == kind else pa.string()

    for label in schema.labels:
        use(label.column, TEXT_CODES if label.positive is not None else pa.float64())
    for dense in schema.dense:
        use(dense.column, pa.float64())
    for feature in schema.sparse:
        if feature.list is not None:
            use(feature.column, pa.string())
        else:
            use(feature.column, pa.int64() if feature.values == "integer" else TEXT_CODES)
    if schema.weight is not None:
        use(schema.weight.column, pa.float64())
    if schema.timestamp is not None:
        use(schema.timestamp.column, pa.string())
    if schema.split is not None and schema.split.by == "hash":
        use(schema.split.column, TEXT_CODES)
    return kinds


def hashed_columns(schema):
    """The rows of columns of texts that one feature hashes, and that nothing else uses."""
    used = collections.Counter([dense.column for dense in schema.dense] +
                               [feature.column for feature in schema.sparse] +
                               [label.column for label in schema.labels])
    used.update(part.column for part in (schema.timestamp, schema.split, schema.weight)
                if part is not None)
    return {feature.column: feature.rows for feature in schema.sparse
            if used[feature.column] == 1 and feature.encoding == "hash" and feature.values == "text" and
            feature.list is None and feature.fill is None}
