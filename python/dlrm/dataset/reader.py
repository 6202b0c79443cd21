"""Reads dataset files (docs/file-formats.md). What is read has been compared with its checksums."""
from __future__ import annotations

import os
from typing import NamedTuple

import h5py
import numpy as np

from .crc32c import crc32c
from .values import (BadValue, Bags, DatasetError, check_id_weights, check_ids, check_labels, check_offsets,
                     check_weights)


class Batch(NamedTuple):
    """Consecutive samples."""
    label: np.ndarray  # [samples] uint8 or float32; of several labels [samples, labels], NaN where one is missing
    dense: np.ndarray  # [samples, n] float32
    sparse: dict[str, Bags]  # feature -> Bags(ids, offsets, weights); offsets begin with 0
    weight: np.ndarray | None = None  # [samples] float32, or None: every sample counts once


class FeatureInfo(NamedTuple):
    rows: int  # ids are less
    hotness: int  # ids of every sample; 0: bags of any length
    dtype: np.dtype  # of the ids
    count: int  # type: ignore[assignment]  # of all ids
    weighted: bool = False  # each id has a weight


class Dataset:
    """The samples of a file, or of the *.h5 and *.hdf5 files of a folder in the order of their names.
    dataset[i:j] is a Batch. With `verify`, each block of a file is compared with its checksums once, before it is
    used. Values are always checked. Errors are DatasetErrors."""

    def __init__(self, path: str | os.PathLike[str], verify: bool = True):
        self.files = [DatasetFile(name, verify) for name in files_of(os.fspath(path))]
        for other in self.files[1:]:
            check_alike(self.files[0], other)
        self.starts = np.cumsum([0] + [file.samples for file in self.files])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def dense_width(self) -> int:
        return self.files[0].columns["/dense"].shape[1]

    @property
    def num_labels(self) -> int:
        """Labels of a sample."""
        return self.files[0].columns["/label"].shape[1] if self.files[0].columns["/label"].ndim == 2 else 1

    @property
    def features(self) -> dict[str, FeatureInfo]:
        """FeatureInfo by name. `rows` is the largest of the files."""
        result = {}
        for name, first in self.files[0].features.items():
            infos = [file.features[name] for file in self.files]
            result[name] = first._replace(rows=max(info.rows for info in infos),
                                          count=sum(info.count for info in infos))
        return result

    def __getitem__(self, samples: int | slice) -> Batch:
        if not isinstance(samples, slice):
            index = range(len(self))[samples]  # IndexError ends a loop
            samples = slice(index, index + 1)
        begin, end, step = samples.indices(len(self))
        if step != 1:
            raise DatasetError("a dataset is read in slices of consecutive samples: dataset[i:j]")
        parts = []
        for file, start in zip(self.files, self.starts.tolist()):
            first, last = max(begin - start, 0), min(end - start, file.samples)
            if first < last:
                parts.append(file.read(first, last))
        return join(parts) if parts else self.files[0].read(0, 0)


class DatasetFile:
    """A mapped file."""

    def __init__(self, path, verify):
        self.path = path
        try:
            with h5py.File(path, "r") as file:
                self.read_structure(file)
        except (OSError, KeyError, RuntimeError) as error:
            if isinstance(error, FileNotFoundError) or not os.path.exists(path):
                raise DatasetError(f"{path}: there is no such file") from None
            raise DatasetError(f"{path}: not an HDF5 file, or a damaged one") from None
        self.verified = np.zeros(len(self.sums.get("/label", ())) if verify else 0, bool)

    def read_structure(self, file):
        if text(file.attrs.get("format")) != "dlrm-dataset":
            raise self.wrong('not a dataset: its root has no attribute format = "dlrm-dataset"')
        if self.integer(file, "version") != 1:
            raise self.wrong(f"dataset version {self.integer(file, 'version')}; this program reads version 1")
        self.samples = self.integer(file, "samples")
        self.block = self.integer(file, "checksum_samples") if "checksum_samples" in file.attrs else 0
        if self.block < 0 or self.block & (self.block - 1):
            raise self.wrong(f"attribute checksum_samples is {self.block}; it must be a power of 2")
        self.bytes = np.memmap(self.path, np.uint8, "r")
        self.columns, self.sums, self.features = {}, {}, {}
        several = isinstance(file.get("label"), h5py.Dataset) and file["label"].ndim == 2
        self.map(file, "/label", (self.samples, None) if several else (self.samples,), ("uint8", "float32"))
        self.map(file, "/dense", (self.samples, None), ("float32",))
        if "weight" in file:
            self.map(file, "/weight", (self.samples,), ("float32",))
        for name in file.get("sparse", ()):
            self.read_feature(file, name)

    def read_feature(self, file, name):
        ids, offsets = f"/sparse/{name}/ids", f"/sparse/{name}/offsets"
        column = self.map(file, ids, (None,), ("int32", "int64"))
        hotness = 0
        if (offsets in file) == ("hotness" in file[ids].attrs):
            raise self.wrong(f"/sparse/{name} must have either attribute hotness on its ids or offsets")
        if offsets in file:
            ends = self.map(file, offsets, (self.samples + 1,), ("int64",))
            if ends[0] != 0 or ends[-1] != len(column):
                raise self.wrong(f"{offsets} goes from {ends[0]} to {ends[-1]}; it must go from 0 to the number of "
                                 f"ids, {len(column)}")
        else:
            hotness = self.integer(file[ids], "hotness")
            if hotness < 1 or len(column) != self.samples * hotness:
                raise self.wrong(f"{ids} holds {len(column)} ids; {self.samples} samples of hotness {hotness} need "
                                 "another number")
        rows = self.integer(file[ids], "rows")
        weighted = f"/sparse/{name}/weights" in file
        if weighted:
            self.map(file, f"/sparse/{name}/weights", (len(column),), ("float32",))
        self.features[name] = FeatureInfo(rows, hotness, column.dtype, len(column), weighted)

    def map(self, file, name, shape, types):
        """Maps a column, and the checksums of its blocks."""
        self.columns[name] = column = self.map_dataset(file, name, shape, types)
        if self.block:
            blocks = -(-self.samples // self.block)
            self.sums[name] = self.map_dataset(file, f"/checksums{name}", (blocks,), ("uint32",))
        return column

    def map_dataset(self, file, name, shape, types):
        dataset = file.get(name)
        if not isinstance(dataset, h5py.Dataset):
            raise self.wrong(f"there is no dataset {name}")
        if not any(dataset.dtype == np.dtype(kind).newbyteorder("<") for kind in types):
            raise self.wrong(f"{name} must hold {' or '.join(types)}")
        if dataset.ndim != len(shape) or any(b not in (None, a) for a, b in zip(dataset.shape, shape)):
            wanted = ", ".join("n" if length is None else str(length) for length in shape)
            raise self.wrong(f"{name} has shape {list(dataset.shape)}; [{wanted}] is needed")
        if h5py.h5o.get_info(dataset.id).fileno != h5py.h5o.get_info(file.id).fileno:
            raise self.wrong(f"{name} lies in another file")
        if dataset.size == 0:
            return np.empty(dataset.shape, dataset.dtype)
        offset = dataset.id.get_offset()
        if offset is None:
            raise self.wrong(f"{name} must be written, contiguous and uncompressed ('h5repack -l CONTI -f NONE IN "
                             "OUT' makes it so)")
        end = offset + dataset.size * dataset.dtype.itemsize
        if end > self.bytes.size:
            raise self.wrong(f"{name} ends beyond the end of the file: it was cut short")
        return self.bytes[offset:end].view(dataset.dtype).reshape(dataset.shape)

    def read(self, begin, end):
        """Samples begin to end."""
        self.verify(begin, end)
        label = self.take("/label", begin, end)
        self.check(check_labels, "label", begin, label)
        dense = self.take("/dense", begin, end)
        finite = np.isfinite(dense).all(axis=1)
        if not finite.all():
            raise self.wrong(f"record {begin + int(np.argmin(finite))}: a dense value is not finite")
        return Batch(label, dense, {name: self.bags(name, begin, end) for name in self.features},
                     self.weight(begin, end))

    def weight(self, begin, end):
        if "/weight" not in self.columns:
            return None
        weight = self.take("/weight", begin, end)
        self.check(check_weights, "weight", begin, weight)
        return weight

    def bags(self, name, begin, end):
        info = self.features[name]
        if info.hotness:
            offsets = np.arange(end - begin + 1, dtype=np.int64) * info.hotness
            first = begin * info.hotness
        else:
            offsets = self.take(f"/sparse/{name}/offsets", begin, end + 1)
            self.check(check_offsets, f"feature {name}", begin, offsets)
            first = int(offsets[0])
            offsets -= first
            if not 0 <= first <= first + offsets[-1] <= info.count:
                raise self.wrong(f"record {begin}: feature {name}: its offsets leave its {info.count} ids")
        ids = self.take(f"/sparse/{name}/ids", first, first + int(offsets[-1]))
        def sample_of(index):
            return int(np.searchsorted(offsets, index, side="right")) - 1

        self.check(lambda ids: check_ids(ids, info.rows), f"feature {name}", begin, ids, sample_of)
        if not info.weighted:
            return Bags(ids, offsets)
        weights = self.take(f"/sparse/{name}/weights", first, first + int(offsets[-1]))
        self.check(check_id_weights, f"feature {name}", begin, weights, sample_of)
        return Bags(ids, offsets, weights)

    def take(self, name, begin, end):
        return np.array(self.columns[name][begin:end])

    def verify(self, begin, end):
        if not self.verified.size or begin == end:
            return
        first, last = begin // self.block, -(-end // self.block)
        for block in first + np.flatnonzero(~self.verified[first:last]):
            self.verify_block(int(block))
            self.verified[block] = True

    def verify_block(self, block):
        begin, end = block * self.block, min((block + 1) * self.block, self.samples)
        # Offsets first: without them the ids of a block are not known.
        for name in sorted(self.columns, key=lambda name: not name.endswith("/offsets")):
            column = self.columns[name]
            if name.endswith("/offsets"):
                values = column[begin:end + 1]
            elif name.startswith("/sparse/"):
                values = self.block_ids(name, column, begin, end)
            else:
                values = column[begin:end]
            if values is None or crc32c(values) != self.sums[name][block]:
                raise self.wrong(f"{name} is damaged in samples {begin} to {end - 1}: their CRC32C is not the one "
                                 "that was written")

    def block_ids(self, name, column, begin, end):
        """The ids of samples begin to end, or their weights. None if the offsets are wrong."""
        feature = name[len("/sparse/"):name.rindex("/")]
        if self.features[feature].hotness:
            hotness = self.features[feature].hotness
            return column[begin * hotness:end * hotness]
        offsets = self.columns[f"/sparse/{feature}/offsets"]
        first, last = int(offsets[begin]), int(offsets[end])
        return column[first:last] if 0 <= first <= last <= len(column) else None

    def check(self, function, name, begin, values, sample_of=lambda index: index):
        try:
            function(values)
        except BadValue as bad:
            raise self.wrong(f"record {begin + sample_of(bad.index)}: {name}: {bad.problem}") from None

    def integer(self, thing, name):
        value = np.asarray(thing.attrs.get(name, "")).reshape(-1)
        if value.size != 1 or value.dtype.kind not in "iu" or value[0] < 0:
            raise self.wrong(f"{thing.name}: there must be an attribute {name}, one integer of at least 0")
        return int(value[0])

    def wrong(self, problem):
        return DatasetError(f"{self.path}: {problem}")


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def files_of(path):
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith((".h5", ".hdf5")) and not name.startswith("."))
    if not names:
        raise DatasetError(f"{path}: a folder without *.h5 or *.hdf5 files")
    return [os.path.join(path, name) for name in names]


def check_alike(first, other):
    def facts(file):
        features = {name: (info.hotness, info.dtype, info.weighted) for name, info in sorted(file.features.items())}
        return {"the width of /dense": file.columns["/dense"].shape[1],
                "the type of /label": file.columns["/label"].dtype,
                "the number of labels": file.columns["/label"].shape[1:],
                "the presence of /weight": "/weight" in file.columns,
                "the set of features": list(features),
                "the hotness, the type or the weights of the ids of a feature": features}
    for (what, one), two in zip(facts(first).items(), facts(other).values()):
        if one != two:
            raise DatasetError(f"{first.path} and {other.path} do not belong together: {what} differs")


def join(batches):
    if len(batches) == 1:
        return batches[0]
    sparse = {}
    for name in batches[0].sparse:
        bags = [batch.sparse[name] for batch in batches]
        counts = np.concatenate([np.diff(part.offsets) for part in bags])
        weighted = bags[0].weights is not None
        sparse[name] = Bags(np.concatenate([part.ids for part in bags]),
                            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
                            np.concatenate([part.weights for part in bags]) if weighted else None)
    weight = None if batches[0].weight is None else np.concatenate([batch.weight for batch in batches])
    return Batch(np.concatenate([batch.label for batch in batches]), np.concatenate([batch.dense for batch in batches]),
                 sparse, weight)
