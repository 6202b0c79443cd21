"""Datasets as iterables of PyTorch."""
from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Union

import torch

from . import _dlrm, options, session

Path = Union[str, "os.PathLike[str]"]


class Batch(NamedTuple):
    """The samples of one rank in a global batch: b of them."""
    dense: torch.Tensor    # float32 [b, n]
    labels: torch.Tensor   # float32 [b]
    ids: torch.Tensor      # int64, by feature, then by sample
    offsets: torch.Tensor  # int64 [features·b + 1] into ids
    weights: torch.Tensor  # float32, of the ids; empty if no feature has weights


class Dataset(torch.utils.data.IterableDataset):
    """This rank's parts of the batches of a dataset, with samples in the order of dlrm-train. They go to a
    DataLoader with batch_size=None, or are iterated directly, which reads ahead on threads.

    path        a file, a folder of files, or a list of these
    tables      the tables whose features are read, as for ShardedEmbeddings
    batch_size  samples of a global batch; the last one of an epoch may have fewer
    rank, size  this rank and the number of ranks; None: those of the job
    shuffle, seed  the order, as data.shuffle and train.seed choose it
    epoch, epochs  the first epoch, and how many follow one another
    workers, prefetch  threads that read, and batches that they read ahead
    """

    def __init__(self, path: Path | list[Path], tables: Iterable[Mapping[str, Any]], batch_size: int, *,
                 rank: int | None = None, size: int | None = None, shuffle: bool = True, seed: int = 1, epoch: int = 0,
                 epochs: int = 1, workers: int = 2, prefetch: int = 4):
        super().__init__()
        paths = [str(p) for p in path] if isinstance(path, (list, tuple)) else [str(path)]
        self.rank = session.rank() if rank is None else rank
        self.size = session.size() if size is None else size
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} of {self.size}")
        self.dense_width = _dlrm.dense_width(paths)
        sections: dict[str, dict[str, Any]] = {
            "model": {"dense_features": self.dense_width},
            "data": {"source": "hdf5", "train": paths, "shuffle": shuffle}, "train": {"seed": seed}}
        self._config = options.config("dlrm.Dataset", tables, 1, batch_size, sections)
        self._workers, self._prefetch = workers, prefetch
        batches = self._open()
        self.samples = batches.samples
        self._first = epoch * batches.per_epoch
        self._last = self._first + epochs * batches.per_epoch

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[Batch]:
        batches, worker = self._open(), torch.utils.data.get_worker_info()
        if worker is not None:  # a process of a DataLoader, which takes the batches of its workers in turn
            for t in range(self._first + worker.id, self._last, worker.num_workers):
                yield _tensors(batches.load(t))
            return
        batches.start(self._first, self._last, self._workers, self._prefetch)
        while (arrays := batches.next()) is not None:
            yield _tensors(arrays)

    def _open(self):
        return _dlrm.Batches(self._config, self.rank, self.size)


def _tensors(arrays):
    return Batch(*(torch.from_numpy(array) for array in arrays))
