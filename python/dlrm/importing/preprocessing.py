"""What an import did to records, as bytes that its datasets carry (docs/file-formats.md, "Preprocessing")."""
import gzip
import json

import numpy as np

from . import native


def preprocessing_bytes(schema, scales, encodings=None):
    """Without `encodings` dictionaries are empty. Columns whose scales are not there are not standardised."""
    names, parts = {}, []
    for feature in schema.sparse:
        name, of_texts = feature.table or feature.name, feature.values == "text"
        if feature.encoding == "dictionary" and name not in names:
            names[name] = {"name": name, "values": "text" if of_texts else "integer", "count": 0}
            if encodings is not None:
                table = encodings[feature.name].table
                offsets, data = native.bytes_of(table.handle)
                names[name]["count"] = len(table)
                parts.append((np.diff(offsets).astype("<u4").tobytes() if of_texts else b"") + data.tobytes())
    head = {"format": "dlrm-preprocessing", "version": 1, "missing": schema.format.missing,
            "dense": [dense_entry(column, scales) for column in schema.dense],
            "sparse": [sparse_entry(feature) for feature in schema.sparse], "dictionaries": list(names.values())}
    log = log_entry(schema.format)
    if log:
        head["log"] = log
    return gzip.compress(json.dumps(head).encode() + b"\n" + b"".join(parts), compresslevel=3, mtime=0)


def log_entry(form):
    """How files are cut into records, where the schema says so."""
    entry = {key: getattr(form, key) for key in ("type", "delimiter", "quote") if getattr(form, key) is not None}
    if not form.header:
        entry["columns"] = form.columns
    return entry


def dense_entry(column, scales):
    entry = {"column": column.column}
    if column.fill is not None:
        entry["fill"] = column.fill
    if column.clip is not None:
        entry["clip"] = list(column.clip)
    if column.log:
        entry["log"] = True
    if column.standardise and column.column in scales:
        entry["mean"], entry["deviation"] = scales[column.column]
    return entry


def sparse_entry(feature):
    entry = {"feature": feature.name, "column": feature.column, "values": feature.values, "encoding": feature.encoding}
    for key in ("rows", "fill"):
        if getattr(feature, key) is not None:
            entry[key] = getattr(feature, key)
    if feature.encoding == "dictionary":
        entry["dictionary"] = feature.table or feature.name
    if feature.list is not None:
        entry["list"] = {key: getattr(feature.list, key) for key in ("separator", "cap", "keep")
                         if getattr(feature.list, key) is not None}
    return entry
