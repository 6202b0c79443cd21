"""A trained model, read from a checkpoint of dlrm-train. It needs NumPy, h5py and PyYAML.

    model = load("ckpt")                               # the best or newest step_* there, or one of them
    probabilities = model.predict(dense, {"C1": ids})  # dense [b, d]; ids [b, hotness]

docs/model.md has the formulas.
"""
from __future__ import annotations

import glob
import os
import re
from typing import Any, Mapping

import h5py
import numpy as np
import yaml

from ..endings import Refused


LAYER_NORM_EPS = 1e-5
OPTIMIZER_STATE = re.compile(r"(^/(tables|linear)/.*/|_)(adagrad|adam_[mv]|ftrl_[zn]|lamb_[mv])$")


class ModelError(Refused):
    """Of a checkpoint, or of weights for one."""


class Feature:
    """A bag of ids for each sample, looked up in a table."""

    def __init__(self, name: str, table: str, pooling: str, weighted: bool):
        self.name, self.table, self.pooling, self.weighted = name, table, pooling, weighted


class TrainedModel:
    """The layers of a model and their arrays.

    arrays: by the names of docs/checkpoint-format.md without the first slash, float32.
    features: in the order of E's columns.
    tasks: the names of several labels; empty if there is one.
    linear: whether a linear part adds to each logit.
    interaction: the map of the config, with its type and options.
    """

    def __init__(self, config: dict[str, Any], arrays: dict[str, np.ndarray], preprocessing: bytes = b""):
        model = config["model"]
        self.preprocessing = preprocessing  # how samples are made of records (docs/file-formats.md); may be empty
        self.arrays = arrays
        self.dense_features = model["dense_features"]
        self.activation = model["activation"]
        interaction = model["interaction"]
        self.interaction = {"type": interaction} if isinstance(interaction, str) else dict(interaction)
        self.tasks = [task["name"] for task in model.get("tasks") or []]
        self.linear = model.get("linear", False)
        self.tables, self.features = [], []
        for table in model["tables"]:
            for suffix in suffixes_of(table):
                self.tables.append(table["name"] + suffix)
                for feature in table.get("features") or [table]:
                    pooling = feature.get("pooling", "sum")
                    self.features.append(Feature(feature["name"] + suffix, self.tables[-1], pooling,
                                                 feature.get("weights", False)))

    def towers(self) -> list[str]:
        """The MLPs above the interaction: the top MLP, or the tower of each task."""
        return [f"tasks/{task}" for task in self.tasks] or ["mlp/top"]

    def experts(self) -> list[str]:
        """The MLPs between the interaction and the towers; empty if there are none."""
        return [f"experts/{e}" for e in range(64) if f"experts/{e}/0/weight" in self.arrays]

    def layers(self, mlp):
        """The (weight [out, in], bias [out]) of each layer of "mlp/bottom", a tower or an expert."""
        names = [f"{mlp}/{i}" for i in range(64) if f"{mlp}/{i}/weight" in self.arrays]
        return [(self.arrays[name + "/weight"], self.arrays[name + "/bias"]) for name in names]

    def norms(self, mlp):
        """For each of these layers the (scale [out], shift [out]) of its layer norm, or None."""
        names = [f"{mlp}/{i}/norm" for i in range(len(self.layers(mlp)))]
        return [(self.arrays[name + "/weight"], self.arrays[name + "/bias"])
                if name + "/weight" in self.arrays else None for name in names]

    def cross_layers(self):
        """The matrices and the bias [n] of each cross layer: [v [rank, n], u [n, rank]], or [w [n, n]]."""
        names = [f"cross/{i}" for i in range(64) if f"cross/{i}/bias" in self.arrays]
        matrices = [[self.arrays[f"{name}/{part}"] for part in ("v", "u", "w") if f"{name}/{part}" in self.arrays]
                    for name in names]
        return [(matrix, self.arrays[f"{name}/bias"]) for matrix, name in zip(matrices, names)]

    def projections(self):
        """For each feature the matrix [width, dim] that its vectors are multiplied with, or None."""
        return [self.arrays.get(f"projection/{f.name}/weight") for f in self.features]

    def description(self) -> dict[str, Any]:
        """What an exported file says about the model, as JSON values."""
        tasks: dict[str, Any] = {"tasks": self.tasks} if self.tasks else {}
        if self.experts():
            tasks["experts"] = len(self.experts())
        return {
            "dense_features": self.dense_features,
            "activation": self.activation,
            "layer_norm": {"bottom": any(self.norms("mlp/bottom")),
                           "top": any(norm for tower in self.towers() + self.experts() for norm in self.norms(tower))},
            "interaction": self.interaction,
            "linear": self.linear,
            "tables": [{"name": name, "rows": self.table(name).shape[0], "dim": self.table(name).shape[1]}
                       for name in self.tables],
            "features": [{"name": f.name, "table": f.table, "pooling": f.pooling,
                          **({"weights": True} if f.weighted else {})} for f in self.features],
            **tasks,
        }

    def table(self, name: str) -> np.ndarray:
        return self.arrays[f"tables/{name}/weight"]

    def linear_weights(self, feature: Feature) -> np.ndarray:
        """[rows, 1]: the weight of each id of a feature."""
        return self.arrays[f"linear/{feature.name}/weight"]

    def predict(self, dense: Any, bags: Mapping[str, Any]) -> np.ndarray | dict[str, np.ndarray]:
        """Probabilities [b], of several tasks by their names.

        bags: for each feature ids [b, hotness], or (ids [n], offsets [b + 1]). For a feature whose ids have weights
        (ids [b, hotness], weights [b, hotness]), or (ids [n], offsets [b + 1], weights [n])."""
        x = self._mlp("mlp/bottom", np.asarray(dense, np.float64), activate_last=True)
        e = [self._pool(feature, bags[feature.name], len(x), self.table(feature.table)) for feature in self.features]
        for i, matrix in enumerate(self.projections()):
            if matrix is not None:
                e[i] = e[i] @ matrix.T.astype(np.float64)
        z = self._interact(x, e)
        wide = self._linear(dense, bags) if self.linear else 0
        inputs = self._mixtures(z) if self.experts() else [z] * len(self.towers())
        found = [sigmoid(self._mlp(tower, x, activate_last=False)[:, 0] + wide).astype(np.float32)
                 for tower, x in zip(self.towers(), inputs)]
        return dict(zip(self.tasks, found)) if self.tasks else found[0]

    def _mlp(self, mlp, x, activate_last):
        layers, norms = self.layers(mlp), self.norms(mlp)
        for i, (weight, bias) in enumerate(layers):
            x = x @ weight.T.astype(np.float64) + bias
            if norms[i]:
                x = layer_norm(x, *norms[i])
            if activate_last or i + 1 < len(layers):
                x = ACTIVATIONS[self.activation](x)
        return x

    def _mixtures(self, z):
        """What each task's tower sees."""
        outputs = np.stack([self._mlp(expert, z, activate_last=True) for expert in self.experts()], 1)
        logits = (z @ self.arrays["gates/weight"].T.astype(np.float64)).reshape(len(z), len(self.tasks), -1)
        shares = np.exp(logits - logits.max(2, keepdims=True))
        shares /= shares.sum(2, keepdims=True)
        return list((shares @ outputs).transpose(1, 0, 2))

    def _linear(self, dense, bags):
        dense = np.asarray(dense, np.float64)
        sums = [self._pool(feature, bags[feature.name], len(dense), self.linear_weights(feature))[:, 0]
                for feature in self.features]
        if self.dense_features:
            sums.append(dense @ self.arrays["linear_dense/weight"][0].astype(np.float64))
        return np.sum(sums, 0)

    def _pool(self, feature, bag, samples, table):
        weights = None
        if feature.weighted:
            if not isinstance(bag, tuple):
                raise ModelError(f"feature {feature.name}: its ids need weights: (ids, weights)")
            bag, weights = (bag[:2] if len(bag) == 3 else bag[0]), np.asarray(bag[-1], np.float64).reshape(-1)
        ids, offsets = bag if isinstance(bag, tuple) else flat_bags(bag)
        if weights is not None and len(weights) != len(ids):
            raise ModelError(f"feature {feature.name}: {len(weights)} weights for {len(ids)} ids")
        if len(offsets) != samples + 1:
            raise ModelError(f"feature {feature.name}: {len(offsets) - 1} bags for {samples} samples")
        if len(ids) and not 0 <= np.min(ids) <= np.max(ids) < len(table):
            raise ModelError(f"feature {feature.name}: an id outside [0, {len(table)})")
        lengths = np.diff(offsets)
        if feature.pooling == "max":
            return largest(table[ids], lengths)
        sums = np.zeros((samples, table.shape[1]))
        rows = table[ids] if weights is None else table[ids] * weights[:, None]
        np.add.at(sums, np.repeat(np.arange(samples), lengths), rows)
        return sums / np.maximum(lengths, 1)[:, None] if feature.pooling == "mean" else sums

    def _interact(self, x, e):
        kind = self.interaction["type"]
        vectors = [x] + e if self.dense_features else e
        if kind == "dot":
            v = np.stack(vectors, 1)
            i, j = np.tril_indices(len(vectors), -1)
            return np.concatenate([x, (v @ v.transpose(0, 2, 1))[:, i, j]], 1)
        if kind == "fm":
            v = np.stack(vectors, 1)
            fm = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1, keepdims=True)
            return np.concatenate([x] + e + [fm], 1)
        if kind == "cross":
            z = x0 = np.concatenate([x] + e, 1)
            for matrices, bias in self.cross_layers():
                product = z
                for matrix in matrices:
                    product = product @ matrix.T.astype(np.float64)
                z = x0 * (product + bias) + z
            return z
        pooled = np.concatenate(e, 1)
        if self.interaction.get("average_pool", 0):
            pooled = pooled @ pooling_matrix(pooled.shape[1], self.interaction["average_pool"])
        last = self.interaction.get("order") == "dense_last"
        return np.concatenate([pooled, x] if last else [x, pooled], 1)


def suffixes_of(table):
    """"_0", "_1", ... for an entry that stands for several tables."""
    return [f"_{i}" for i in range(table["count"])] if "count" in table else [""]


def largest(rows, lengths):
    """The maximum of each column over the rows of each bag, 0 for an empty bag."""
    pooled = np.full((len(lengths), rows.shape[1]), -np.inf)
    np.maximum.at(pooled, np.repeat(np.arange(len(lengths)), lengths), rows)
    pooled[lengths == 0] = 0
    return pooled


def flat_bags(ids):
    ids = np.asarray(ids)
    if ids.ndim == 1:
        ids = ids[:, None]
    return ids.reshape(-1), np.arange(len(ids) + 1) * ids.shape[1]


def pooling_matrix(width, window):
    """[width, ceil(width/window)]: averages windows, centred as TensorFlow's "same"."""
    windows = -(-width // window)
    left = (windows * window - width) // 2
    matrix = np.zeros((width, windows))
    for k in range(windows):
        begin = k * window - left
        columns = range(max(begin, 0), min(begin + window, width))
        matrix[columns, k] = 1 / len(columns)
    return matrix


def layer_norm(x, scale, shift):
    off = x - x.mean(1, keepdims=True)
    return scale * (off / np.sqrt((off ** 2).mean(1, keepdims=True) + LAYER_NORM_EPS)) + shift


def sigmoid(z):
    return 0.5 * (1 + np.tanh(0.5 * z))


ACTIVATIONS = {
    "relu": lambda z: np.maximum(z, 0),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3))),
    "silu": lambda z: z * sigmoid(z),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}


def checkpoint_folder(path: str) -> str:
    """The folder of one checkpoint: `path`, or of those in it the best (checkpoint.keep_best) or the newest."""
    if os.path.exists(os.path.join(path, "index.h5")):
        return path
    best = os.path.realpath(os.path.join(path, "best"))
    if os.path.exists(os.path.join(best, "index.h5")):
        return best
    found = sorted(glob.glob(os.path.join(glob.escape(path), "step_" + "[0-9]" * 9)))
    if not found:
        raise ModelError(f"{path}: no checkpoint (step_*) there")
    return found[-1]


def load(path: str) -> TrainedModel:
    """Reads the weights of a checkpoint. The optimizer's state is left out."""
    index = os.path.join(checkpoint_folder(path), "index.h5")
    arrays, preprocessing = {}, b""
    try:
        with h5py.File(index, "r") as file:
            if file.attrs.get("format") != "dlrm-checkpoint":
                raise ModelError(f"{index}: not a checkpoint of dlrm-train")
            config = yaml.safe_load(file.attrs["config"])
            if "preprocessing" in file:
                preprocessing = file["preprocessing"][()].tobytes()
            for name in file.attrs["tensors"].strip().split("\n"):
                if not OPTIMIZER_STATE.search(name):
                    arrays[name.strip("/")] = file[name][()]
    except OSError as error:
        raise ModelError(f"{index}: {error}") from None
    for name, array in arrays.items():
        # Rows of a rank file that is missing read as NaN.
        if not np.isfinite(array).all():
            raise ModelError(f"{index}: /{name} has values that are not finite; is a rank file missing?")
    return TrainedModel(config, arrays, preprocessing)
