#!/usr/bin/env python3
"""Dataset files of dlrm.dataset beside those of dlrm-data, and trained on.
dataset_programs_test.py PATH/TO/dlrm-data PATH/TO/dlrm-train"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from dataset_test import content
from dlrm.dataset import Dataset, DatasetError, Dictionary, Hashed, Integers, Writer, write, write_config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DATA = TRAIN = ""


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.theirs, self.ours = self.path("theirs.h5"), self.path("ours.h5")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.folder,
                              env={"OMP_WAIT_POLICY": "passive", **os.environ, "OMP_NUM_THREADS": "1"})

    def succeed(self, *command):
        done = self.start(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_same_content(self):
        theirs, ours = content(self.theirs), content(self.ours)
        self.assertEqual(sorted(theirs), sorted(ours))
        for name in theirs:
            self.assertEqual(sorted(theirs[name]), sorted(ours[name]), name)
            for key in theirs[name]:
                self.assertTrue(theirs[name][key] == ours[name][key], f"{name}, {key}")


class SameContent(Programs):
    def test_as_of_synthetic_samples(self):
        config = self.path("model.yaml")
        shutil.copy(os.path.join(ROOT, "tests", "end_to_end", "small_model.yaml"), config)
        with open(config, "a", encoding="utf-8") as file:
            file.write("train: {global_batch_size: 64}\n")
        self.succeed(DATA, "synth", "--config", config, "--samples", "40001", "--output", self.theirs)
        dataset = Dataset(self.theirs)
        features = dataset.features
        with Writer(self.ours, "y", "x", {name: Integers(info.rows) for name, info in features.items()}) as writer:
            for begin in range(0, len(dataset), 9999):
                batch = dataset[begin:begin + 9999]
                writer.append({"y": batch.label, "x": batch.dense, **{
                    name: bags.ids.reshape(-1, features[name].hotness) for name, bags in batch.sparse.items()}})
        self.assert_same_content()

    def test_as_of_a_click_log(self):
        log = self.path("log.tsv")
        self.succeed(DATA, "synth", "--criteo", "--samples", "20000", "--output", log)
        with open(log, encoding="utf-8") as file:
            fields = [line.rstrip("\n").split("\t") for line in file]
        columns = {f"C{c}": [line[13 + c] for line in fields] for c in range(1, 27)}
        columns["label"] = [int(line[0]) for line in fields]
        numbers = {name: [int(value, 16) if value else 1 << 32 for value in column]
                   for name, column in columns.items() if name != "label"}
        names = list(numbers)
        cases = ((["--dictionary", self.path("d.h5")], {}, lambda: Dictionary()),
                 (["--frequency-threshold", "3"], {}, lambda: Dictionary(threshold=3)),
                 (["--max-rows", "500"], numbers, lambda: Hashed(500)))
        for options, values, encoding in cases:
            with self.subTest(options):
                self.succeed(DATA, "criteo", log, "--output", self.theirs, *options)
                dense = Dataset(self.theirs)[:].dense
                write(self.ours, {**columns, **values, "dense": dense}, "label", "dense",
                      {name: encoding() for name in names})
                self.assert_same_content()


class Inspect(Programs):
    def setUp(self):
        super().setUp()
        r = np.random.default_rng(5)
        write(self.ours, {"y": r.integers(0, 2, 16390), "x": r.random(16390),
                          "bags": [[1, 2, 3][:n] for n in r.integers(0, 4, 16390)]}, "y", ["x"], ["bags"])

    def test_accepts_a_file_with_bags(self):
        self.assertIn("bags", self.succeed(DATA, "inspect", self.ours))

    def test_refuses_what_the_reader_refuses(self):
        with h5py.File(self.ours, "r+") as file:
            file["sparse/bags/ids"][5] ^= 1
        done = self.start(DATA, "inspect", self.ours)
        self.assertEqual(done.returncode, 2)
        with self.assertRaises(DatasetError) as caught:
            Dataset(self.ours)[5:6]
        told = "is damaged in samples 0 to 16383: their CRC32C is not the one that was written"
        self.assertIn(told, str(caught.exception))
        self.assertIn(told, done.stderr)


class Training(Programs):
    def samples(self, count, seed):
        """A label that the user, and the number of tags, decide together."""
        r = np.random.default_rng(seed)
        users, lengths = r.integers(0, 20, count), r.integers(0, 4, count)
        return {"click": (users + lengths) % 2, "age": r.random(count), "price": r.random(count) * 100,
                "user": [f"user {u}" for u in users], "tags": [[7, 8, 9][:n] for n in lengths]}

    def test_resumes_on_the_same_data_only(self):
        for name, count in (("one", 640), ("moved", 640), ("two", 6400)):
            write(self.path(f"{name}.h5"), self.samples(count, count), label="click", dense=["age"], sparse=["tags"])
        write_config(self.path("mine.yaml"), self.path("one.h5"), batch=64)
        self.assertNotIn("data.train", self.succeed(TRAIN, "mine.yaml"))
        for name, code, told in (("one", 0, ""), ("moved", 0, "continues at sample 640 "), ("two", 2, "has 6400 samples")):
            done = self.start(TRAIN, "mine.yaml", "--resume", "--set", f"data.train={self.path(name)}.h5")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(told, done.stdout + done.stderr)
            self.assertEqual("data.train" in done.stderr, name != "one", done.stderr)

    def test_learns_from_a_file_and_its_config(self):
        encodings = write(self.path("train.h5"), self.samples(6000, 1), label="click",
                          dense=["age", "price"], sparse=["user", "tags"])
        write(self.path("test.h5"), self.samples(1500, 2), label="click", dense=["age", "price"], sparse=encodings)
        write_config(self.path("mine.yaml"), self.path("train.h5"), self.path("test.h5"), batch=64, epochs=4,
                     output=self.path("run"))
        for run, lr in (("run", "0.05"), ("slow", "0.00001")):
            self.succeed(TRAIN, self.path("mine.yaml"), "--set", f"output.directory={self.path(run)}", "--set",
                         f"checkpoint.directory={self.path(run)}/c", "--set", f"train.sparse_optimizer.lr={lr}")
        table = self.succeed(sys.executable, "-m", "dlrm.runs.compare", self.path("run"),
                             self.path("slow")).splitlines()
        self.assertEqual(table[0].split(),
                         ["run", "steps", "AUC", "log", "loss", "samples/s", "train.sparse_optimizer.lr"])
        first, second = table[1].split(), table[2].split()
        self.assertEqual((first[0], first[1], first[5], second[5]), ("run", "376", "0.05", "1e-05"))
        self.assertGreater(float(first[2]), 0.95)
        self.assertLess(float(second[2]), float(first[2]))
        self.expect_a_sweep_to_resume(float(first[2]))

    def expect_a_sweep_to_resume(self, auc):
        """Successive halving ends with the model of an uninterrupted run."""
        self.succeed("env", f"DLRM_TRAIN={TRAIN}", sys.executable, "-m", "dlrm.sweep.command", self.path("mine.yaml"),
                     "--grid", "train.sparse_optimizer.lr=0.00001,0.05", "--halving", "--steps", "376", "--jobs", "2",
                     "--output", self.path("sweep"), "--", "--device", "cpu")
        with open(self.path("sweep/trial_001/results.json"), encoding="utf-8") as file:
            results = json.load(file)
        self.assertEqual(list(results), ["188", "376"])
        self.assertAlmostEqual(results["376"]["auc"], auc, places=4)  # of another number of threads


@unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
class Readme(Programs):
    def test_example_learns_from_a_data_frame(self):
        import pandas
        r = np.random.default_rng(3)
        users, lengths = r.integers(0, 20, 30000), r.integers(0, 4, 30000)
        pandas.DataFrame({
            "click": (users + lengths) % 2, "age": r.random(30000), "price": r.random(30000) * 100,
            "user": [f"user {u}" for u in users], "page": [f"/{p}" for p in r.integers(0, 99, 30000)],
            "tags": [["red", "green", "blue"][:n] for n in lengths],
            "time": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(r.random(30000) * 31, unit="D"),
        }).to_pickle(self.path("clicks.pkl"))
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            text = file.read()
        script, shell = re.search(r"```python\n(import pandas\n.*?)```\n\n```\n(.*?)```", text, re.S).groups()
        self.assertEqual((script.count("\n"), shell.count("\n")), (7, 2))
        with open(self.path("mine.py"), "w", encoding="utf-8") as file:
            file.write(script)
        shell = shell.replace("python3 ", sys.executable + " ").replace("dlrm-train ", TRAIN + " ")
        said = self.succeed("bash", "-ec", "exec 2>&1\n" + shell)
        auc = float(re.findall(r"AUC[ =:]+([0-9.]+)", said, re.I)[-1])
        self.assertGreater(auc, 0.9, said)


if __name__ == "__main__":
    DATA, TRAIN = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
