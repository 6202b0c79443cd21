"""Writes dataset files (docs/file-formats.md) from arrays, chunk by chunk."""
from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import Any, Iterable, Mapping, Sequence, Union

import numpy as np

from .columns import Feature, Spool, StoredColumn, create_file
from .files import Lock, partial_name, remove, sync_folder
from .values import (BadValue, DatasetError, WriteError, float_array, id_weights, label_array, task_label_array,
                     weight_array)

Path = Union[str, "os.PathLike[str]"]
Sparse = Union[Iterable[str], Mapping[str, Any]]  # names, or their encodings
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")  # that a config can name


def write(path: Path, data: Any, label: str | Sequence[str], dense: str | Sequence[str] = (), sparse: Sparse = (),
          weight: str | None = None, weights: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Writes one file of the columns of `data`. Returns the encodings by feature, for another file (see Writer)."""
    with Writer(path, label, dense, sparse, weight, weights) as writer:
        writer.append(data)
    return writer.encodings


class Writer:
    """Writes a file of any number of chunks. The columns wait in files without names in the output's folder, so
    memory holds one chunk or block. The file gets its name when it is whole, at the end of `with` or by finish().

    A chunk is a DataFrame, a dict of arrays, or anything else whose columns are chunk[name]. `label` is a name, or
    a list of several, whose values may be missing (NaN, None). `dense` is a name or several. `sparse` is a list of
    names, or a dict from names to encodings: Integers, Dictionary or Hashed. None stands for Integers if the first
    chunk has integers there, otherwise for Dictionary.
    `weight` is the name of the samples' weights, or None. `weights` is a dict from features to the columns of their
    ids' weights, which have the shape of the ids: {"tags": "tag_weights"}.
    """

    def __init__(self, path: Path, label: str | Sequence[str], dense: str | Sequence[str] = (), sparse: Sparse = (),
                 weight: str | None = None, weights: Mapping[str, str] | None = None):
        self.path = os.fspath(path)
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise DatasetError(f"{self.path}: is there and is no regular file: name another output")
        self.samples, self.lock = 0, None
        self.partial: str | None = None  # the name of the file that is not whole yet
        self.preprocessing = None  # a function of the bytes of /preprocessing, called when the file is finished
        self.label, self.weight = label, weight
        self.tasks = None if isinstance(label, str) else list(label)  # the columns of several labels
        if self.tasks is not None and (len(self.tasks) < 2 or len(set(self.tasks)) < len(self.tasks)):
            raise DatasetError(f"{self.path}: label is {self.tasks}: a name is needed, or a list of different ones")
        self.dense = [dense] if isinstance(dense, str) else list(dense)
        self.width = None  # numbers of a sample
        self.spools: list[Any] = []
        encodings: Mapping[str, Any] = sparse if isinstance(sparse, Mapping) else dict.fromkeys(sparse)
        for name in encodings:
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise DatasetError(f"{self.path}: a feature cannot be named {name!r}: letters, digits, _ - . (not "
                                   "first), at most 200")
        weights = weights or {}
        for name in weights:
            if name not in encodings:
                raise DatasetError(f"{self.path}: weights are for the ids of {name}, which is no sparse feature")
        try:
            self.lock = Lock(self.path)
            self.labels, self.numbers, self.weights = self.spool(None), self.spool(np.float32), self.spool(np.float32)
            self.features = [Feature(name, encoding, self.spool, weights.get(name))
                             for name, encoding in encodings.items()]
        except OSError as error:
            self.close()
            raise self.failed("cannot create", error) from None

    @property
    def encodings(self) -> dict[str, Any]:
        return {feature.name: feature.encoding for feature in self.features}

    def append(self, chunk: Any) -> None:
        """Appends the samples of a chunk. After an error the writer is closed, and no file remains."""
        self.check_open()
        try:
            self.append_columns(chunk)
        except OSError as error:
            self.close()
            raise self.failed("cannot write", error) from None
        except BaseException:
            self.close()
            raise

    def move_last(self, count, other):
        """Moves the last `count` samples to `other`, a writer without samples for the same columns."""
        self.check_open()
        begin = self.samples - count
        other.labels.dtype, other.width = self.labels.dtype, self.width
        self.labels.move_last(count * len(self.tasks or [0]), other.labels)
        self.numbers.move_last(count * (self.width or 0), other.numbers)
        if self.weight is not None:
            self.weights.move_last(count, other.weights)
        for mine, theirs in zip(self.features, other.features):
            mine.move_last(begin, self.samples, theirs)
        self.samples, other.samples = begin, count

    def finish(self) -> None:
        """Completes the file: syncs it, and gives it its name."""
        self.prepare()
        self.commit()

    def prepare(self) -> None:
        """Writes and syncs the file without its name."""
        self.check_open()
        self.partial = partial_name(self.path)
        try:
            self.write_file(self.partial)
        except (OSError, RuntimeError) as error:  # h5py has both
            self.close()
            raise self.failed("cannot write", error) from None
        except BaseException:
            self.close()
            raise

    def commit(self) -> None:
        """Gives the file its name."""
        assert self.partial is not None, "prepare() comes first"
        try:
            os.replace(self.partial, self.path)
        except OSError as error:
            raise self.failed("cannot write", error) from None
        finally:
            self.close()
        sync_folder(os.path.dirname(self.path) or ".")

    def close(self) -> None:
        """Drops what was appended, unless the file is finished."""
        for spool in self.spools:
            with contextlib.suppress(OSError):  # a full disk lacks room for what is buffered
                spool.file.close()
        self.spools = []
        if self.partial is not None:
            remove(self.partial)
        self.partial = None
        if self.lock is not None:
            self.lock.release()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind, error, trace):
        if kind is None and self.spools:
            self.finish()
        self.close()

    def check_open(self):
        if not self.spools:
            raise DatasetError(f"{self.path}: this writer is closed")

    def spool(self, dtype):
        self.spools.append(Spool(tempfile.TemporaryFile(dir=os.path.dirname(self.path) or "."), dtype))
        return self.spools[-1]

    def failed(self, what, error):
        kind = WriteError if what == "cannot write" else DatasetError
        return kind(f"{self.path}: {what}: {getattr(error, 'strerror', None) or ' '.join(str(error).split())}")

    def append_columns(self, chunk):
        labels = self.labels_of(chunk)
        dense = [self.use(float_array, name, column_of(self.path, chunk, name)) for name in self.dense]
        parts = [self.use(feature.part, feature.name, column_of(self.path, chunk, feature.name))
                 for feature in self.features]
        id_weights_of = [self.id_weights(feature, part, chunk) for feature, part in zip(self.features, parts)]
        weights = None
        lengths = [(name, len(values)) for name, values in zip(self.dense, dense)]
        if self.weight is not None:
            weights = self.use(weight_array, self.weight, column_of(self.path, chunk, self.weight))
            lengths.append((self.weight, len(weights)))
        lengths += [(feature.name, part.samples) for feature, part in zip(self.features, parts)]
        for name, length in lengths:
            if length != len(labels):
                raise DatasetError(f"{self.path}: column {name} ends at record {self.samples + length}, column "
                                   f"{self.tasks[0] if self.tasks else self.label} at record "
                                   f"{self.samples + len(labels)}")
        if len(labels) == 0:
            return  # says nothing of types and widths
        self.append_labels(labels)
        self.append_dense(dense, len(labels))
        if weights is not None:
            self.weights.append(weights)
        for feature, part, own in zip(self.features, parts, id_weights_of):
            feature.append(self.use(feature.encode, feature.name, part, part.sample_of), part, own)
        self.samples += len(labels)

    def labels_of(self, chunk):
        if self.tasks is None:
            return self.use(label_array, self.label, column_of(self.path, chunk, self.label))
        columns = [self.use(task_label_array, name, column_of(self.path, chunk, name)) for name in self.tasks]
        for name, column in zip(self.tasks, columns):
            if len(column) != len(columns[0]):
                raise DatasetError(f"{self.path}: column {name} ends at record {self.samples + len(column)}, column "
                                   f"{self.tasks[0]} at record {self.samples + len(columns[0])}")
        return np.stack(columns, 1)

    def id_weights(self, feature, part, chunk):
        """The weights of a feature's ids in a chunk, or None."""
        name = feature.weight_column
        if name is None:
            return None
        return self.use(lambda column: id_weights(part, column), name, column_of(self.path, chunk, name))

    def use(self, function, name, column, sample_of=lambda index: index):
        """function(column), with errors that name column and record."""
        try:
            return function(column)
        except BadValue as bad:
            where = "" if bad.index is None else f", record {self.samples + sample_of(bad.index)}"
            raise DatasetError(f"{self.path}: column {name}{where}: {bad.problem}") from None

    def append_labels(self, labels):
        if self.labels.dtype is None:
            self.labels.dtype = labels.dtype
        elif self.labels.dtype == np.uint8 and labels.dtype != np.uint8:
            raise DatasetError(f"{self.path}: column {self.label}, record {self.samples}: floats after integers")
        self.labels.append(labels.astype(self.labels.dtype))

    def append_dense(self, columns, count):
        for name, column in zip(self.dense, columns):
            if column.ndim > 2:
                raise DatasetError(f"{self.path}: column {name}: its shape is {column.shape}; one or two dimensions "
                                   "are needed")
        matrix = np.concatenate([np.empty((count, 0), np.float32)] + [column.reshape(count, -1) for column in columns],
                                axis=1)
        if self.width is None:
            self.width = matrix.shape[1]
        elif self.width != matrix.shape[1]:
            raise DatasetError(f"{self.path}: columns {', '.join(self.dense)}, record {self.samples}: "
                               f"{matrix.shape[1]} numbers in a sample, {self.width} in those before")
        self.numbers.append(matrix)

    def write_file(self, path):
        self.labels.dtype = self.labels.dtype or np.dtype(np.uint8 if self.tasks is None else np.float32)
        labels = StoredColumn("/label", self.labels, (self.samples,))
        if self.tasks is not None:
            labels = StoredColumn("/label", self.labels, (self.samples, len(self.tasks)), len(self.tasks))
        width = self.width or 0
        columns = [labels,
                   StoredColumn("/dense", self.numbers, (self.samples, width), width)]
        if self.weight is not None:
            columns.append(StoredColumn("/weight", self.weights, (self.samples,)))
        for feature in self.features:
            columns += feature.columns(self.samples)
        create_file(path, self.samples, columns, self.preprocessing() if self.preprocessing else b"")
        with open(path, "r+b") as file:
            for column in columns:
                column.write(file, self.samples)
            file.flush()
            os.fsync(file.fileno())


def column_of(path, chunk, name):
    try:
        return chunk[name]
    except (KeyError, ValueError, IndexError, TypeError):
        names = list(chunk.keys()) if hasattr(chunk, "keys") else getattr(getattr(chunk, "dtype", None), "names", None)
        raise DatasetError(f"{path}: there is no column {name}; there are {names or 'none'}") from None
