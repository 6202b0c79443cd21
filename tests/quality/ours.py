"""Models of dlrm-train on a split of MovieLens."""
import json
import os
import subprocess

import yaml

from dlrm import dataset
from movielens import GENRES, SINGLE


def write_split(data, split, folder):
    """Dataset files of the three parts."""
    os.makedirs(folder, exist_ok=True)
    paths = {part: os.path.join(folder, f"{part}.h5") for part in split}
    for part, samples in split.items():
        genres = data.genres[samples]
        columns = {name: data.ids[samples, i] for i, name in enumerate(SINGLE)}
        columns[GENRES] = [bag[bag > 0] for bag in genres]
        columns["label"] = data.labels[samples].astype("uint8")
        encodings = {name: dataset.Integers(rows) for name, rows in data.rows.items()}
        dataset.write(paths[part], columns, label="label", dense=[], sparse=encodings)
    return paths


def config(data, paths, shape, rules, recipe, seed, folder):
    shape = dict(shape)
    deviation = shape.pop("normal_rows", None)
    init = {"init": {"type": "normal", "scale": deviation}} if deviation else {}
    tables = [{"name": name, "rows": rows, **init} for name, rows in data.rows.items()]
    tables[-1].update(pooling="mean", hotness=2)
    dropout = {"dropout": {"top": rules["dropout"]}} if rules.get("dropout") else {}
    adam = {"type": "adam", "lr": recipe["lr"]}
    return {
        "model": {"dense_features": 0, "bottom_mlp": [], "embedding_dim": recipe["width"],
                  "top_mlp": [*recipe["hidden"], 1], **shape, **dropout, "tables": tables},
        "data": {**paths, "workers": 0},
        "train": {"global_batch_size": recipe["batch"], "epochs": recipe["epochs"], "seed": seed, "threads": 1,
                  "dense_optimizer": {**adam, "weight_decay": rules.get("weight_decay", 0)},
                  "sparse_optimizer": {**adam, "l2": rules.get("l2", 0)}},
        "eval": {"every_epochs": recipe["every_epochs"], "patience": recipe["patience"]},
        "checkpoint": {"directory": os.path.join(folder, "checkpoints"), "keep": 1, "keep_best": "auc"},
        "output": {"directory": os.path.join(folder, "run")}, "device": "cpu"}


def train(program, data, paths, shape, rules, recipe, seed, folder):
    """AUCs on valid and test of the weights that are best on valid, and the step of these weights."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "config.yaml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(config(data, paths, shape, rules, recipe, seed, folder), file)
    done = subprocess.run([program, path, "--overwrite"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} {path}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    with open(os.path.join(folder, "run", "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    return {"valid": summary["best_eval"]["auc"], "test": summary["test"]["auc"], "step": summary["test"]["step"]}
