"""Writes a training config that fits a dataset."""
from __future__ import annotations

import json
import os
import re
from typing import Mapping, Sequence

import numpy as np

from .files import write_text
from .reader import Dataset
from .values import DatasetError
from .writer import Path

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}  # that YAML may read as something else


def write_config(path: Path, train: Path, test: Path | None = None, *, embedding_dim: int = 16,
                 bottom_mlp: Sequence[int] = (64,), top_mlp: Sequence[int] = (128, 64), interaction: str = "dot",
                 batch: int = 2048, epochs: int = 1, shared: Mapping[str, Sequence[str]] | None = None,
                 output: str | None = None, valid: Path | None = None, tasks: Sequence[str] | None = None) -> None:
    """Writes a config for the dataset files `train`, `test` and `valid`. Paths are stored as they are given.

    A feature gets a table of as many rows as its ids need. `shared` names tables for several features:
    {"item": ["item", "last_items"]}. `embedding_dim` follows the widths of `bottom_mlp`, and 1 those of `top_mlp`.
    Without dense columns there is no bottom MLP. `tasks` names several labels, in the order of the columns.
    """
    data = Dataset(train)
    features, width = data.features, data.dense_width
    if len(data) == 0 or not features:
        raise DatasetError(f"{train}: {'no samples' if len(data) == 0 else 'no sparse features'} to train on")
    if data.num_labels != max(1, len(tasks or ())):
        raise DatasetError(f"{train}: {data.num_labels} labels in a sample, and tasks is {tasks}: needs a name for "
                           "each of several labels")
    rows = {name: info.rows for name, info in features.items()}
    for other in (valid, test):
        if other is not None:
            add_rows(rows, features, train, other, Dataset(other), width, data.num_labels)
    lines = ["model:", f"  dense_features: {width}", f"  embedding_dim: {embedding_dim}",
             f"  bottom_mlp: {list(bottom_mlp) + [embedding_dim] if width else []}", f"  top_mlp: {[*top_mlp, 1]}",
             f"  interaction: {interaction}"]
    if tasks:
        lines.append("  tasks: [" + ", ".join(f"{{name: {scalar(name)}}}" for name in tasks) + "]")
    lines.append("  tables:")
    hotness = {name: mean_hotness(info, len(data)) for name, info in features.items()}
    weighted = {name for name, info in features.items() if info.weighted}
    lines += [f"    - {table}" for table in tables(rows, hotness, shared or {}, weighted)]
    paths = {"train": train, "valid": valid, "test": test}
    entries = ", ".join(f"{key}: {scalar(os.fspath(value))}" for key, value in paths.items() if value is not None)
    folder = output or "runs/" + os.path.splitext(os.path.basename(path))[0]
    lines += [f"data: {{{entries}}}", "train:", f"  global_batch_size: {min(batch, len(data))}", f"  epochs: {epochs}",
              "  dense_optimizer: {type: adagrad, lr: 0.02}", "  sparse_optimizer: {type: adagrad, lr: 0.05}",
              f"output: {{directory: {scalar(folder)}}}",
              f"checkpoint: {{directory: {scalar(os.path.join(folder, 'checkpoints'))}, at_end: true}}"]
    if valid is not None:
        lines.append("eval: {every_epochs: 1}")
    write_text(path, lambda file: file.write("\n".join(lines) + "\n"))


def add_rows(rows, features, train, test, data, width, labels):
    if data.num_labels != labels:
        raise DatasetError(f"{test}: {data.num_labels} labels in a sample, {labels} in {train}")
    if data.dense_width != width:
        raise DatasetError(f"{test}: {data.dense_width} dense columns, {width} in {train}")
    for name, info in features.items():
        if name not in data.features:
            raise DatasetError(f"{test}: there is no feature {name} as in {train}")
        if data.features[name].hotness != info.hotness:
            raise DatasetError(f"{test}: feature {name} has hotness {data.features[name].hotness}, {info.hotness} in "
                               f"{train} (0: bags of any length)")
        if data.features[name].weighted != info.weighted:
            raise DatasetError(f"{test if info.weighted else train}: feature {name} has no weights of ids, and has "
                               "them in the other file")
        rows[name] = max(rows[name], data.features[name].rows)


def mean_hotness(info, samples):
    return info.hotness or max(1, int(np.rint(info.count / samples)))


def tables(rows, hotness, shared, weighted):
    """The entries of model.tables."""
    left = dict(rows)
    for table, names in shared.items():
        unknown = [name for name in names if name not in left]
        if unknown:
            raise DatasetError(f"table {table}: there is no feature {unknown[0]}, or it has a table already")
        largest = max(left.pop(name) for name in names)
        listed = ", ".join(f"{{name: {scalar(name)}, hotness: {hotness[name]}{weights(name, weighted)}}}"
                           for name in names)
        yield f"{{name: {scalar(table)}, rows: {largest}, features: [{listed}]}}"
    for name, count in left.items():
        more = f", hotness: {hotness[name]}" if hotness[name] != 1 else ""
        yield f"{{name: {scalar(name)}, rows: {count}{more}{weights(name, weighted)}}}"


def weights(name, weighted):
    return ", weights: true" if name in weighted else ""


def scalar(text):
    """Text in YAML."""
    return text if PLAIN.fullmatch(text) and text.lower() not in WORDS else json.dumps(text, ensure_ascii=False)
