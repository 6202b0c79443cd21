"""The files of an import as chunks of records."""
import collections
import os

import pyarrow as pa

from .guard import now_reading
from .json_lines import JsonFile
from .parquet import ParquetFile
from .problems import ImportProblem
from .text import TextFile

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
TEXT_CODES = pa.dictionary(pa.int32(), pa.string())


def kind_of(schema, path):
    """The format of a file: that of the schema, or by the file's name."""
    return schema.format.type or kind_by_name(path)


def kind_by_name(path):
    base = path
    while os.path.splitext(base)[1] in (".gz", ".zst", ".zstd"):
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
            start = file.read(4)
        compression = next((name for magic, name in COMPRESSIONS.items() if start.startswith(magic)), None)
        return pa.input_stream(path, compression=compression)
    except OSError as error:
        raise ImportProblem(f"{path}: cannot open: {error.strerror or error}") from None


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

    use(schema.label.column, TEXT_CODES if schema.label.positive is not None else pa.float64())
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
    used = collections.Counter([schema.label.column] + [dense.column for dense in schema.dense] +
                               [feature.column for feature in schema.sparse])
    used.update(part.column for part in (schema.timestamp, schema.split, schema.weight) if part is not None)
    return {feature.column: feature.rows for feature in schema.sparse
            if used[feature.column] == 1 and feature.encoding == "hash" and feature.values == "text" and
            feature.list is None and feature.fill is None}
