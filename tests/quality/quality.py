#!/usr/bin/env python3
"""Compares the test AUC of dlrm-train with that of PyTorch and deepctr-torch on MovieLens-100k.

    launch/build.sh cpu dlrm-train
    python3 -m venv build/quality
    build/quality/bin/pip install torch==2.15.0 deepctr-torch==0.3.0 h5py pyyaml
    build/quality/bin/pip install --no-deps recbole==1.2.1
    build/quality/bin/python tests/quality/quality.py --output quality.jsonl [--models concat,fm] [--repeats 3]

A sample is a click if its rating is 4 or more. Three random splits have 80 % of the samples to train, 10 % to choose
weights and 10 % to test. All sides read the same ids and use the same widths, batches, learning rate and evaluations.
A penalty of rows is chosen from a grid by the mean AUC on the validation data: for dlrm-train, whose rules and penalty
PyTorch repeats, and for deepctr-torch by itself. Then runs with --repeats seeds a split, without a penalty and with
that one, give the table.

Each run appends a line to --output. Runs that are there already are not repeated, so a run that was stopped continues,
and several processes may share the work by --models. Without new runs the table is printed at once.
"""
import argparse
import json
import os
import statistics
import tempfile
import warnings

import movielens
import ours
import peers

RECIPE = {"width": 16, "hidden": [128, 64], "lr": 0.002, "batch": 1024, "epochs": 40, "every_epochs": 0.5,
          "patience": 8}
SPLITS = (1, 2, 3)
PENALTIES = {"dlrm-train": (0, 1e-3, 3e-3, 1e-2), "deepctr-torch": (0, 0.05, 0.5, 2)}  # the latter's loss is a sum
CROSS = {"type": "cross", "layers": 2, "rank": 32}
NORMAL = 1e-4  # the deviation of deepctr-torch's initial rows
FULL = {"type": "cross", "layers": 2, "rank": 0}
# A model of dlrm-train, which Plain repeats, and models of deepctr-torch beside it.
MODELS = {
    "concat": ({"interaction": "concat"}, {"WDL": {"model": "WDL", "linear": False}}),
    "fm": ({"interaction": "fm"}, {"DeepFM": {"model": "DeepFM", "linear": True}}),
    "cross": ({"interaction": CROSS}, {"DCNMix": {"model": "DCNMix", "linear": False}}),
    "cross_full": ({"interaction": FULL}, {
        "DCN": {"model": "DCN", "linear": False, "cross_parameterization": "matrix"}}),
    "dot": ({"interaction": "dot"}, {}),
    "deepfm": ({"interaction": "fm", "linear": True}, {"DeepFM": {"model": "DeepFM", "linear": True}}),
    "wide_deep": ({"interaction": "concat", "linear": True}, {"WDL": {"model": "WDL", "linear": True}}),
    "cross_full_normal": ({"interaction": FULL, "normal_rows": NORMAL}, {
        "DCN": {"model": "DCN", "linear": False, "cross_parameterization": "matrix"}}),
}


class Results:
    """Runs by what they compute, kept in a file of one JSON object a line."""

    def __init__(self, options):
        self.options, self.data, self.known = options, movielens.MovieLens(), {}
        self.folder, self.paths = tempfile.TemporaryDirectory(), {}
        if os.path.exists(options.output):
            with open(options.output, encoding="utf-8") as file:
                for line in file:
                    run = json.loads(line)
                    self.known[json.dumps(run["key"], sort_keys=True)] = run["result"]

    def run(self, side, shape, rules, split, seed):
        key = {"side": side, "shape": shape, "rules": rules, "split": split, "seed": seed, "recipe": RECIPE}
        text = json.dumps(key, sort_keys=True)
        if text not in self.known:
            result = self.trained(side, shape, rules, split, seed)
            with open(self.options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "result": result}) + "\n")
            self.known[text] = result
        return self.known[text]

    def trained(self, side, shape, rules, split, seed):
        samples = self.data.split(split)
        if side != "dlrm-train":
            kind = peers.Plain if side == "PyTorch" else peers.DeepCtr
            return peers.train(kind, self.data, samples, shape, rules, RECIPE, seed)
        if split not in self.paths:
            self.paths[split] = ours.write_split(self.data, samples, os.path.join(self.folder.name, f"split_{split}"))
        return ours.train(self.options.program, self.data, self.paths[split], shape, rules, RECIPE, seed,
                          os.path.join(self.folder.name, "run"))

    def mean(self, part, *what, seeds=(1,)):
        return statistics.mean(self.run(*what, split, seed)[part] for split in SPLITS for seed in seeds)

    def best_penalty(self, side, shape):
        """Of the grid, by the validation data."""
        return max(PENALTIES[side], key=lambda l2: self.mean("valid", side, shape, {"l2": l2}))

    def cells(self, side, shape, l2):
        """The mean test AUC over splits and seeds, and the deviation of the means of single seeds."""
        seeds = range(1, self.options.repeats + 1)
        means = [self.mean("test", side, shape, {"l2": l2}, seeds=(seed,)) for seed in seeds]
        spread = statistics.stdev(means) if len(means) > 1 else 0.0
        return statistics.mean(means), spread


def contestants(name):
    """Side, label and shape."""
    shape, others = MODELS[name]
    yield "dlrm-train", f"dlrm-train, {name}", shape
    yield "PyTorch", f"PyTorch, {name}", shape
    for label, other in others.items():
        yield "deepctr-torch", f"deepctr-torch, {label}", other


def rows(results, name):
    own = {}
    chosen = None
    for side, label, shape in contestants(name):
        if side != "PyTorch":  # which has the rules of dlrm-train, and so its penalty
            chosen = results.best_penalty(side, shape)
        for column, l2 in (("none", 0), ("penalty", chosen)):
            mean, spread = results.cells(side, shape, l2)
            own.setdefault(column, mean)
            yield label, column, l2, mean, spread, own[column] - mean


def table(results, names):
    yield "| model | L2 of rows | test AUC | spread of seeds | ours over it |"
    yield "|---|---|---|---|---|"
    for name in names:
        for label, _, l2, mean, spread, over in rows(results, name):
            margin = "" if label.startswith("dlrm-train") else f"{over:+.4f}"
            yield f"| {label} | {l2:g} | {mean:.4f} | {spread:.4f} | {margin} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=os.path.join(ours.ROOT, "build/cpu/bin/dlrm-train"))
    parser.add_argument("--output", required=True, help="file of results, which is continued")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--repeats", type=int, default=3, help="seeds a split")
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"--models {unknown[0]}: there is none, but {', '.join(MODELS)}")
    warnings.filterwarnings("ignore", module="torch")
    results = Results(options)
    for line in table(results, names):
        print(line, flush=True)


if __name__ == "__main__":
    main()
