#!/usr/bin/env python3
"""How well the reader's own shuffle mixes, beside a uniform permutation, and what that does to the AUC on data that
is ordered by time.

    shuffle_quality.py [--samples 4000000] [--folder DIR] [--build build/cpu]

Clicks depend on a user and an item, whose appeal drifts; old items vanish and new ones appear. One epoch of the same
model is trained without a shuffle, with data.shuffle, and with a file of `dlrm-data shuffle` in its order. It is
tested on samples of the whole time, and on the time after."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from dlrm import dataset

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BLOCK, WINDOW = 16384, 64 * 16384
USERS, ITEMS = 20000, 20000
CONFIG = """model:
  dense_features: 1
  embedding_dim: 8
  bottom_mlp: [8]
  top_mlp: [16, 1]
  tables: [{{name: user, rows: {users}}}, {{name: item, rows: {items}}}]
data: {{train: train.h5, test: test.h5}}
train:
  global_batch_size: 2048
  dense_optimizer: {{type: adagrad, lr: 0.02}}
  sparse_optimizer: {{type: rowwise_adagrad, lr: 0.05}}
device: cpu
"""


def reader_order(samples, rng):
    """The rule of docs/file-formats.md: blocks are permuted, then samples within windows of 64 blocks."""
    blocks = rng.permutation(-(-samples // BLOCK))
    order = np.concatenate([np.arange(b * BLOCK, min(samples, (b + 1) * BLOCK)) for b in blocks])
    for start in range(0, samples, WINDOW):
        rng.shuffle(order[start:start + WINDOW])
    return order


def describe(name, order):
    """The mean distance moved, and how many neighbours are still within a window's length."""
    samples = len(order)
    place = np.empty(samples, dtype=np.int64)
    place[order] = np.arange(samples)
    moved = np.abs(place - np.arange(samples)).mean() / samples
    near = (np.abs(np.diff(place)) < WINDOW).mean()
    share = min(1.0, WINDOW / samples)
    print(f"{name:<10} mean distance moved {moved:.4f} of the dataset (uniform: 0.3333); neighbours that stay within "
          f"{WINDOW} samples {near:.3f} (uniform: {share * (2 - share):.3f})", flush=True)


def clicks(time, rng):
    """Samples at the times, which go from 0 to 1 in training."""
    count = len(time)
    user = rng.integers(0, USERS, count)
    # Items are alive for a fifth of the time.
    item = ((time + 0.2 * rng.random(count)) / 1.5 * ITEMS).astype(np.int64)
    fixed = np.random.default_rng(5)
    liking, appeal, drift = fixed.normal(size=USERS), fixed.normal(size=ITEMS), fixed.normal(size=USERS)
    logit = liking[user] + appeal[item] + drift[user] * np.sin(12 * time) + 0.5 * np.sin(40 * time) - 1
    label = rng.random(count) < 1 / (1 + np.exp(-logit))
    return {"click": label.astype(np.uint8), "noise": rng.random(count).astype(np.float32), "user": user, "item": item}


def save(path, samples):
    dataset.write(path, samples, label="click", dense=["noise"],
                  sparse={"user": dataset.Integers(USERS), "item": dataset.Integers(ITEMS)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000000)
    parser.add_argument("--folder")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "cpu"))
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    describe("reader", reader_order(arguments.samples, rng))
    describe("whole", rng.permutation(arguments.samples))
    programs = os.path.join(os.path.abspath(arguments.build), "bin")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        save(os.path.join(folder, "train.h5"), clicks(np.sort(rng.random(arguments.samples)), rng))
        save(os.path.join(folder, "all.h5"), clicks(rng.random(200000), rng))
        save(os.path.join(folder, "after.h5"), clicks(1 + 0.02 * rng.random(200000), rng))
        with open(os.path.join(folder, "c.yaml"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(users=USERS, items=ITEMS))

        def run(*words):
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        run(f"{programs}/dlrm-data", "shuffle", "train.h5", "--output", "whole.h5")
        for name, train, shuffle in (("none", "train.h5", "false"), ("data.shuffle", "train.h5", "true"),
                                     ("whole", "whole.h5", "false")):
            aucs = []
            for test, more in (("all.h5", ()), ("after.h5", ("--eval-only", "--resume=ckpt-" + name))):
                run(f"{programs}/dlrm-train", "c.yaml", "--set", f"data.train={train}", "--set", f"data.shuffle={shuffle}",
                    "--set", f"data.test={test}", "--set", f"output.directory=run-{name}-{test}", "--set",
                    f"checkpoint.directory=ckpt-{name}", "--set", "checkpoint.at_end=true", *more)
                with open(os.path.join(folder, f"run-{name}-{test}", "summary.json"), encoding="utf-8") as file:
                    aucs.append(json.load(file)["eval"]["auc"])
            print(f"{name:<14} AUC of the whole time {aucs[0]:.4f}, of the time after {aucs[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
