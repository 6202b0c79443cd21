"""Encodes records as the import of a model's training data did (docs/python.md, "Records"). Needs NumPy, h5py and pyarrow."""
from __future__ import annotations

import gzip
import json
import os
import zlib
from typing import Any, Dict, List, NamedTuple

import h5py
import numpy as np
import pyarrow as pa

from .dataset import Bags, DatasetError
from .importing import encoder as native
from .importing.schema import Bag


class Samples(NamedTuple):
    """What a model takes: of n records."""
    dense: np.ndarray  # float32 [n, columns]
    sparse: Dict[str, Bags]  # by feature


class Feature(NamedTuple):
    name: str
    column: str
    values: str
    list: Any  # a Bag, or None


class Encoder:
    """The preprocessing of a model or of a dataset. Called with a frame, it gives Samples: the frame has a column of each
    name that the import's schema has, as `frame[name]`: a DataFrame of pandas, a table of Arrow, or a dict of lists."""

    def __init__(self, data: bytes, path: str):
        try:
            head = json.loads(gzip.decompress(data).split(b"\n", 1)[0])
            self.dense: List[str] = [entry["column"] for entry in head["dense"]]
            self.features = [Feature(entry["feature"], entry["column"], entry["values"], bag_of(entry))
                             for entry in head["sparse"]]
            self.encoder = native.Encoder(data)
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, MemoryError):
            raise DatasetError(f"{path}: its preprocessing is damaged, or of a later version") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Encoder:
        """That of a checkpoint or of a folder of them, of a dataset, or of a MODEL.preprocessing.gz beside an export."""
        path = os.fspath(path)
        if os.path.isdir(path):
            from .model.trained import checkpoint_folder
            path = os.path.join(checkpoint_folder(path), "index.h5")
        try:
            if path.endswith(".gz"):
                with open(path, "rb") as plain:
                    return cls(plain.read(), path)
            with h5py.File(path, "r") as file:
                data = file["preprocessing"][()].tobytes() if "preprocessing" in file else b""
        except OSError as error:
            raise DatasetError(f"{path}: cannot read: {error.strerror or error}") from None
        if not data:
            raise DatasetError(f"{path}: does not say how records become samples: dlrm-import did not write its data")
        return cls(data, path)

    def __call__(self, frame: Any) -> Samples:
        """A DatasetError names the record, counted from 0, and the column of a value that cannot be used."""
        dense = []
        for index, name in enumerate(self.dense):
            numbers, refused = self.encoder.dense(index, name, array_of(frame, name))
            check(name, refused)
            dense.append(numbers)
        sparse = {}
        for index, feature in enumerate(self.features):
            found = self.encoder.sparse(index, feature, array_of(frame, feature.column), keys=False)
            check(feature.column, found.refused)
            offsets = np.arange(len(found.values) + 1) if feature.list is None else found.offsets
            sparse[feature.name] = Bags(found.values, offsets)
        counts = {len(column) for column in dense} | {len(bags.offsets) - 1 for bags in sparse.values()}
        if len(counts) > 1:
            raise DatasetError(f"the columns have {min(counts)} to {max(counts)} records; each needs as many")
        count = counts.pop() if counts else 0
        return Samples(np.stack(dense, 1) if dense else np.empty((count, 0), np.float32), sparse)


def bag_of(entry: Dict[str, Any]) -> Bag | None:
    return Bag(**entry["list"]) if "list" in entry else None


def array_of(frame: Any, name: str) -> pa.Array:
    """The column as one array of Arrow. NaN of a DataFrame is a missing value."""
    try:
        column = frame[name]
    except (KeyError, IndexError):
        raise DatasetError(f"there is no column {name}") from None
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    try:
        return column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeEncodeError) as error:
        raise DatasetError(f"column {name}: {' '.join(str(error).split())}") from None


def check(name: str, refused: list) -> None:
    if refused:
        record, problem = refused[0]
        raise DatasetError(f"record {record}: column {name}: {problem}")
