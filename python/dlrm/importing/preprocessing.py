"""What an import did to records, as bytes that its datasets carry (docs/file-formats.md, "Preprocessing")."""
import gzip
import json

import numpy as np

from . import native


def preprocessing_bytes(schema, scales, encodings):
    """Empty if a dictionary has values that no data can have, as an integer among texts."""
    names, parts = {}, []
    for feature in schema.sparse:
        name = feature.table or feature.name
        if feature.encoding == "dictionary" and name not in names:
            table = encodings[feature.name].table
            part = value_bytes(table, feature.values == "text")
            if part is None:
                return b""
            names[name] = {"name": name, "values": "text" if feature.values == "text" else "integer",
                           "count": len(table)}
            parts.append(part)
    head = {"format": "dlrm-preprocessing", "version": 1, "missing": schema.format.missing,
            "dense": [dense_entry(column, scales) for column in schema.dense],
            "sparse": [sparse_entry(feature) for feature in schema.sparse], "dictionaries": list(names.values())}
    return gzip.compress(json.dumps(head).encode() + b"\n" + b"".join(parts), compresslevel=3, mtime=0)


def value_bytes(table, of_texts):
    """Lengths and bytes of texts, or integers of 64 bits; None for others."""
    if isinstance(table, native.Table):
        offsets, data = native.bytes_of(table.handle)
        return (np.diff(offsets).astype("<u4").tobytes() if of_texts else b"") + data.tobytes()
    values = table.values()
    try:
        if not of_texts:
            return np.array(values, "<i8").tobytes() if all(type(value) is int for value in values) else None
        texts = [value.encode() for value in values]
    except (AttributeError, UnicodeEncodeError, OverflowError):
        return None
    return np.array([len(text) for text in texts], "<u4").tobytes() + b"".join(texts)


def dense_entry(column, scales):
    entry = {"column": column.column}
    if column.fill is not None:
        entry["fill"] = column.fill
    if column.clip is not None:
        entry["clip"] = list(column.clip)
    if column.log:
        entry["log"] = True
    if column.standardise:
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
