#!/usr/bin/env python3
"""dlrm.dataset: weights of samples, written, read and refused."""
import os
import sys
import unittest

import h5py
import numpy as np

from dataset_test import BLOCK, Folder, content, damaged
from dlrm.dataset import Dataset, Writer, write, write_config


def sample(count, seed=1):
    r = np.random.default_rng(seed)
    return {"y": r.integers(0, 2, count), "u": r.integers(0, 9, count), "w": r.random(count) * 3}


class Weights(Folder):
    def test_are_kept_at_odd_sizes(self):
        for count in (0, 1, BLOCK, BLOCK + 1):
            data = sample(count)
            write(self.path, data, "y", sparse=["u"], weight="w")
            batch = Dataset(self.path)[:]
            self.assertEqual(batch.weight.dtype, np.float32)
            np.testing.assert_array_equal(batch.weight, data["w"].astype(np.float32))
            np.testing.assert_array_equal(batch.label, data["y"])

    def test_of_chunks_are_those_of_the_whole(self):
        data, whole = sample(40000), os.path.join(self.folder, "whole.h5")
        write(whole, data, "y", sparse=["u"], weight="w")
        with Writer(self.path, "y", sparse=["u"], weight="w") as writer:
            for begin in range(0, 40000, 7001):
                writer.append({name: values[begin:begin + 7001] for name, values in data.items()})
        self.assertTrue(content(whole) == content(self.path))

    def test_may_be_integers_and_absent(self):
        write(self.path, {"y": [0, 1], "w": [0, 7]}, "y", weight="w")
        self.assertEqual(Dataset(self.path)[:].weight.tolist(), [0, 7])
        write(self.path, {"y": [0, 1], "w": [0, 7]}, "y")
        self.assertIsNone(Dataset(self.path)[:].weight)
        with h5py.File(self.path) as file:
            self.assertNotIn("weight", file)

    def test_of_a_folder_follow_one_another(self):
        os.mkdir(os.path.join(self.folder, "all"))
        data = sample(10)
        for name, begin, end in (("a", 0, 4), ("b", 4, 10)):
            write(os.path.join(self.folder, f"all/{name}.h5"),
                  {key: values[begin:end] for key, values in data.items()}, "y", sparse=["u"], weight="w")
        folder = Dataset(os.path.join(self.folder, "all"))
        np.testing.assert_array_equal(folder[2:7].weight, data["w"][2:7].astype(np.float32))
        write(os.path.join(self.folder, "all/c.h5"), data, "y", sparse=["u"])
        self.assert_error("do not belong together: the presence of /weight differs", Dataset,
                          os.path.join(self.folder, "all"))

    def test_move_with_the_last_samples(self):
        data, last = sample(100), os.path.join(self.folder, "last.h5")
        with Writer(self.path, "y", sparse=["u"], weight="w") as writer, \
             Writer(last, "y", sparse=["u"], weight="w") as other:
            writer.append(data)
            writer.move_last(30, other)
        np.testing.assert_array_equal(Dataset(self.path)[:].weight, data["w"][:70].astype(np.float32))
        np.testing.assert_array_equal(Dataset(last)[:].weight, data["w"][70:].astype(np.float32))

    def test_that_are_damaged_are_found(self):
        write(self.path, sample(BLOCK + 5), "y", sparse=["u"], weight="w")
        with h5py.File(self.path, "r+") as file:
            file["weight"][...] = damaged(file["weight"][...], 3)
        self.assert_error(f"/weight is damaged in samples 0 to {BLOCK - 1}", Dataset(self.path).__getitem__,
                          slice(9, 10))

    def test_that_cannot_be_are_named(self):
        for value, expected in ((-1, "weight -1 is not a finite number of at least 0"), (np.inf, "is not finite"),
                                (np.nan, "the value is missing"), (1e39, "too large for float32"),
                                ("x", "a number is needed")):
            data = {"y": [0, 1, 0], "w": [1, 2, value]}
            self.assert_error(expected, write, self.path, data, "y", weight="w")
            self.assertIn("column w, record 2", self.assert_error(expected, write, self.path, data, "y", weight="w"))
        self.assert_error("column w ends at record 1, column y at record 2", write, self.path, {"y": [0, 1], "w": [1]},
                          "y", weight="w")
        self.assert_error("a sample has one weight", write, self.path, {"y": [0, 1], "w": np.ones((2, 2))}, "y",
                          weight="w")
        self.assert_error("there is no column v", write, self.path, {"y": [0, 1]}, "y", weight="v")

    def test_of_other_writers_are_checked(self):
        for value, expected in ((-1, "record 1: weight: weight -1"), (np.nan, "record 1: weight: weight nan")):
            write(self.path, {"y": [0, 1], "w": [1, 1]}, "y", weight="w")
            with h5py.File(self.path, "r+") as file:
                del file.attrs["checksum_samples"]
                file["weight"][1] = value
            self.assert_error(expected, Dataset(self.path).__getitem__, slice(None))
        with h5py.File(self.path, "r+") as file:
            del file["weight"]
            file["weight"] = np.ones(2)
        self.assert_error("/weight must hold float32", Dataset, self.path)


class IdWeights(Folder):
    def data(self, count, seed=2):
        r = np.random.default_rng(seed)
        lengths = r.integers(0, 4, count)
        return {"y": r.integers(0, 2, count), "u": r.integers(0, 9, count), "uw": r.normal(size=count),
                "h": r.integers(0, 9, (count, 3)), "hw": r.normal(size=(count, 3)),
                "t": [r.integers(0, 9, n).tolist() for n in lengths], "tw": [r.normal(size=n) for n in lengths]}

    def write(self, data, path=None):
        write(path or self.path, data, "y", sparse=["u", "h", "t"], weights={"u": "uw", "h": "hw", "t": "tw"})

    def test_are_kept_at_odd_sizes(self):
        for count in (0, 1, BLOCK + 1):
            data = self.data(count)
            self.write(data)
            sparse = Dataset(self.path)[:].sparse
            for name in "uht":
                expected = np.concatenate([np.ravel(value) for value in data[name + "w"]] + [[]])
                self.assertEqual(sparse[name].weights.dtype, np.float32)
                np.testing.assert_array_equal(sparse[name].weights, expected.astype(np.float32))
        part = Dataset(self.path)[5:9].sparse["t"]
        np.testing.assert_array_equal(part.weights, np.concatenate(data["tw"][5:9]).astype(np.float32))

    def test_of_chunks_and_of_moved_samples_are_those_of_the_whole(self):
        data, whole = self.data(300), os.path.join(self.folder, "whole.h5")
        other = os.path.join(self.folder, "other.h5")
        self.write({name: values[:200] for name, values in data.items()}, whole)
        columns = {"u": "uw", "h": "hw", "t": "tw"}
        with Writer(self.path, "y", sparse=["u", "h", "t"], weights=columns) as writer, \
                Writer(other, "y", sparse=["u", "h", "t"], weights=columns) as last:
            for begin in range(0, 300, 71):
                writer.append({name: values[begin:begin + 71] for name, values in data.items()})
            writer.move_last(100, last)
        self.assertTrue(content(whole) == content(self.path))
        np.testing.assert_array_equal(Dataset(other)[:].sparse["t"].weights,
                                      np.concatenate(data["tw"][200:]).astype(np.float32))

    def test_are_checked(self):
        data = self.data(20)
        data["hw"][7, 1] = np.nan
        self.assert_error("column hw, record 7: the value is missing", self.write, data)
        data = self.data(20)
        data["tw"][3] = [1.0] * 9
        self.assert_error("column tw, record 3: 9 weights for", self.write, data)
        self.assert_error("which is no sparse feature", write, self.path, self.data(2), "y", sparse=["u"],
                          weights={"t": "tw"})

    def test_are_checked_when_they_are_read(self):
        self.write(self.data(20))
        with h5py.File(self.path, "r+") as file:
            file["sparse/h/weights"][7] = np.inf
        self.assert_error("/sparse/h/weights is damaged in samples 0 to 19", lambda: Dataset(self.path)[:])
        with h5py.File(self.path, "r+") as file:
            del file.attrs["checksum_samples"]
        self.assert_error("record 2: feature h: weight inf of an id is not a finite number",
                          lambda: Dataset(self.path)[:])

    def test_of_a_file_and_config_are_named(self):
        self.write(self.data(20))
        config = os.path.join(self.folder, "config.yaml")
        write_config(config, self.path, shared={"all": ["u", "h"]})
        with open(config, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("weights: true"), 3)


if __name__ == "__main__":
    unittest.main()
