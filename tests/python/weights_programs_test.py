#!/usr/bin/env python3
"""Weights of samples through the programs. weights_programs_test.py PATH/TO/dlrm-data PATH/TO/dlrm-train"""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from dlrm.dataset import Dataset, write, write_config

DATA = TRAIN = ""
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


def samples(count, seed):
    """Labels of half of the users are noise, and these samples have small weights or none."""
    r = np.random.default_rng(seed)
    users = r.integers(0, 20, count)
    noise = users % 2 == 0
    return {"click": np.where(noise, r.integers(0, 2, count), users % 4 == 1), "age": r.random(count), "user": users,
            "w": np.where(noise, (users % 4) * 0.05, 1 + r.random(count))}


def metrics(y, p, w):
    """AUC by all pairs, log loss, accuracy and calibration, weighted."""
    one, none = y == 1, y == 0
    pairs = w[one][:, None] * w[none][None, :]
    ordered = np.sign(p[one][:, None] - p[none][None, :]) / 2 + 0.5
    loss = -np.log(np.where(one, p, 1 - p))
    return {"auc": (pairs * ordered).sum() / pairs.sum(), "log_loss": (w * loss).sum() / w.sum(),
            "accuracy": (w * ((p >= 0.5) == one)).sum() / w.sum(), "calibration": (w * p).sum() / (w * y).sum()}


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.folder,
                              env={**os.environ, **ENVIRONMENT})

    def succeed(self, *command):
        done = self.start(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Files(Programs):
    def test_are_described_and_shuffled_with_their_weights(self):
        data = samples(5000, 3)
        data["u"] = np.arange(5000)
        write(self.path("a.h5"), data, "click", "age", ["u"], weight="w")
        said = self.succeed(DATA, "inspect", "a.h5")
        weights = data["w"].astype(np.float32).astype(np.float64)
        self.assertIn(f"weight    min 0            max {weights.max():<12.6g} mean {weights.mean():.6g}", said)
        self.succeed(DATA, "shuffle", "a.h5", "--output", "b.h5", "--memory", "1MiB", "--seed", "3")
        shuffled = Dataset(self.path("b.h5"))[:]
        order = shuffled.sparse["u"].ids
        self.assertFalse(np.array_equal(order, np.arange(5000)))
        np.testing.assert_array_equal(shuffled.weight, data["w"].astype(np.float32)[order])


class Training(Programs):
    def setUp(self):
        super().setUp()
        for name, count, seed in (("train", 3000, 1), ("test", 701, 2)):
            write(self.path(f"{name}.h5"), samples(count, seed), "click", "age", ["user"], weight="w")
        write_config(self.path("mine.yaml"), self.path("train.h5"), self.path("test.h5"), batch=64, epochs=2)

    def train(self, run, *options, ranks=1):
        launch = ["mpirun", "-np", str(ranks), "--bind-to", "none"] if ranks > 1 else []
        self.succeed(*launch, TRAIN, "mine.yaml", *options, "--set", f"output.directory={run}", "--set",
                     f"checkpoint.directory={run}/c", "--set", "output.metrics_every=1")
        with open(self.path(f"{run}/summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def losses(self, run):
        with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line["loss"] for line in lines if "loss" in line]

    def check_metrics(self, found, chosen=slice(None)):
        """Compares with the metrics of predictions.csv."""
        with open(self.path("predictions.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        p = np.array([float(row["probability"]) for row in rows])
        test = Dataset(self.path("test.h5"))[:]
        np.testing.assert_array_equal([float(row["label"]) for row in rows], test.label)
        expected = metrics(test.label[chosen], p[chosen], test.weight[chosen].astype(np.float64))
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, 6, name)

    def test_reports_weighted_metrics_on_any_number_of_ranks(self):
        one = self.train("one", "--set", "eval.slice_by=user")
        self.succeed(TRAIN, "mine.yaml", "--predict", "predictions.csv", "--resume=one/c", "--set",
                     "output.directory=after")
        self.assertEqual(one["eval"]["samples"], 701)
        self.check_metrics(one["eval"])
        users = Dataset(self.path("test.h5"))[:].sparse["user"].ids
        for part in one["eval"]["by_id"]["slices"]:
            if part["id"] in (2, 6):  # with labels of both kinds
                self.assertEqual(part["samples"], (users == part["id"]).sum())
                self.check_metrics(part, users == part["id"])
        three = self.train("three", "--set", "sharding.strategy=row", ranks=3)
        for name in ("auc", "log_loss", "accuracy", "calibration"):
            self.assertAlmostEqual(three["eval"][name], one["eval"][name], 4, name)
        np.testing.assert_allclose(self.losses("three"), self.losses("one"), rtol=2e-5)
        self.assertGreater(one["eval"]["auc"], 0.95)

    def test_on_a_device_is_that_on_a_cpu(self):
        tried = self.start(TRAIN, "mine.yaml", "--device", "cuda", "--set", "train.steps=1", "--set",
                           "output.directory=try", "--set", "checkpoint.directory=try/c")
        if tried.returncode != 0:
            self.assertIn("device cuda", tried.stderr)
            self.skipTest("neither a GPU nor its emulator")
        for device in ("cpu", "cuda"):
            self.train(device, "--device", device, "--set", "train.steps=20")
        np.testing.assert_allclose(self.losses("cuda"), self.losses("cpu"), rtol=2e-5)

    def test_resumes_with_the_bits_of_an_uninterrupted_run(self):
        self.train("whole")
        self.train("parts", "--set", "train.epochs=1", "--set", "checkpoint.at_end=true")
        self.train("parts", "--resume")
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.assertEqual(len(self.losses("whole")), 94)

    def test_with_weights_of_one_is_that_without(self):
        for name, weight in (("plain", None), ("ones", "w")):
            data = {**samples(1000, 4), "w": np.ones(1000)}
            write(self.path(f"{name}.h5"), data, "click", "age", ["user"], weight=weight)
            self.train(name, "--set", f"data.train={name}.h5", "--set", f"data.test={name}.h5")
        self.assertEqual(self.losses("plain"), self.losses("ones"))
        with open(self.path("plain/summary.json"), encoding="utf-8") as a, \
             open(self.path("ones/summary.json"), encoding="utf-8") as b:
            self.assertEqual(json.load(a)["eval"], json.load(b)["eval"])

    def test_refuses_a_weight_that_cannot_be(self):
        with h5py.File(self.path("train.h5"), "r+") as file:
            del file.attrs["checksum_samples"]
            file["weight"][2999] = -1
        done = self.start(TRAIN, "mine.yaml", "--set", "output.directory=bad")
        self.assertEqual(done.returncode, 2)
        self.assertIn("train.h5: record 2999 (counted from 0): weight -1; a weight is a finite number of at least 0",
                      done.stderr.strip().splitlines()[-1])


if __name__ == "__main__":
    DATA, TRAIN = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
