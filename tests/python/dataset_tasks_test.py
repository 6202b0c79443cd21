#!/usr/bin/env python3
"""dlrm.dataset: several labels of a sample, of which some are missing."""
import os
import sys
import unittest

import h5py
import numpy as np

from dataset_test import BLOCK, Folder, content
from dlrm.dataset import Dataset, DatasetError, Writer, write, write_config


def sample(count, seed=1):
    r = np.random.default_rng(seed)
    return {"click": r.integers(0, 2, count), "buy": np.where(r.random(count) < 0.5, np.nan, r.random(count)),
            "u": r.integers(0, 9, count)}


class Tasks(Folder):
    def refused(self, expected, call, *words, **names):
        with self.assertRaises(DatasetError) as caught:
            call(*words, **names)
        self.assertIn(expected, str(caught.exception))
        self.assertFalse(os.path.exists(self.path))

    def test_are_kept_with_those_that_are_missing_at_odd_sizes(self):
        for count in (0, 1, BLOCK, BLOCK + 1):
            data = sample(count)
            write(self.path, data, ["click", "buy"], sparse=["u"])
            dataset = Dataset(self.path)
            self.assertEqual(dataset.num_labels, 2)
            batch = dataset[:]
            self.assertEqual((batch.label.dtype, batch.label.shape), (np.float32, (count, 2)))
            np.testing.assert_array_equal(batch.label, np.stack([data["click"], data["buy"]], 1).astype(np.float32))

    def test_of_chunks_are_those_of_the_whole(self):
        data, whole = sample(40000), os.path.join(self.folder, "whole.h5")
        write(whole, data, ["click", "buy"], sparse=["u"])
        with Writer(self.path, ["click", "buy"], sparse=["u"]) as writer:
            for begin in range(0, 40000, 7001):
                writer.append({name: values[begin:begin + 7001] for name, values in data.items()})
        self.assertTrue(content(whole) == content(self.path))

    def test_may_be_moved_to_another_file(self):
        data, other = sample(50), os.path.join(self.folder, "other.h5")
        with Writer(self.path, ["click", "buy"], sparse=["u"]) as first, \
                Writer(other, ["click", "buy"], sparse=["u"]) as second:
            first.append(data)
            first.move_last(20, second)
        np.testing.assert_array_equal(Dataset(self.path)[:].label[:, 1], data["buy"][:30].astype(np.float32))
        np.testing.assert_array_equal(Dataset(other)[:].label[:, 1], data["buy"][30:].astype(np.float32))

    def test_may_be_missing_in_other_ways(self):
        masked = np.ma.array([1, 0, 1], mask=[False, True, False])
        write(self.path, {"a": [1, None, 0.5], "b": masked, "u": [1, 2, 3]}, ["a", "b"], sparse=["u"])
        np.testing.assert_array_equal(Dataset(self.path)[:].label,
                                      np.array([[1, 1], [np.nan, np.nan], [0.5, 1]], np.float32))

    def test_that_are_bad_are_named(self):
        data = {"a": [0, np.nan, 2], "b": [0, 1, 1], "u": [1, 2, 3]}
        self.refused("column a, record 2: label 2 is outside 0 to 1", write, self.path, data, ["a", "b"], sparse=["u"])
        data["a"] = [0, None, "x"]
        self.refused("column a, record 2: 'x' is a str; a number is needed", write, self.path, data, ["a", "b"],
                     sparse=["u"])
        data["a"] = [0, 1]
        self.refused("column b ends at record 3, column a at record 2", write, self.path, data, ["a", "b"],
                     sparse=["u"])
        for names in (["b"], ["b", "b"], []):
            self.refused("a name is needed, or a list of different ones", write, self.path, data, names, sparse=["u"])

    def test_of_a_single_label_must_not_be_missing(self):
        self.refused("the value is missing", write, self.path, {"a": [0, np.nan], "u": [1, 2]}, "a", sparse=["u"])

    def test_have_checksums(self):
        write(self.path, sample(100), ["click", "buy"], sparse=["u"])
        with h5py.File(self.path, "r+") as file:
            file["label"][50, 0] = 1 - file["label"][50, 0]
        with self.assertRaises(DatasetError) as caught:
            Dataset(self.path)[:]
        self.assertIn("/label is damaged in samples 0 to 99", str(caught.exception))

    def test_of_files_must_be_as_many(self):
        folder = os.path.join(self.folder, "files")
        os.mkdir(folder)
        write(os.path.join(folder, "a.h5"), sample(5), ["click", "buy"], sparse=["u"])
        data = sample(5)
        data["like"] = data["buy"]
        write(os.path.join(folder, "b.h5"), data, ["click", "buy", "like"], sparse=["u"])
        with self.assertRaises(DatasetError) as caught:
            Dataset(folder)
        self.assertIn("do not belong together: the number of labels differs", str(caught.exception))

    def test_are_named_in_a_config(self):
        write(self.path, sample(100), ["click", "buy"], sparse=["u"])
        config = os.path.join(self.folder, "c.yaml")
        write_config(config, self.path, tasks=["click", "buy"])
        with open(config, encoding="utf-8") as file:
            self.assertIn("\n  tasks: [{name: click}, {name: buy}]\n", file.read())
        for tasks in (None, ["click"], ["click", "buy", "like"]):
            with self.assertRaises(DatasetError) as caught:
                write_config(config, self.path, tasks=tasks)
            self.assertIn("2 labels in a sample", str(caught.exception))

    def test_are_as_many_in_all_data_of_a_config(self):
        one, config = os.path.join(self.folder, "one.h5"), os.path.join(self.folder, "c.yaml")
        write(self.path, sample(10), ["click", "buy"], sparse=["u"])
        write(one, sample(10), "click", sparse=["u"])
        for place in ("valid", "test"):
            for train, other, tasks, expected in ((self.path, one, ["click", "buy"], "one.h5: 1 labels in a sample, 2"),
                                                  (one, self.path, None, "h5: 2 labels in a sample, 1 in ")):
                with self.assertRaises(DatasetError) as caught:
                    write_config(config, train, tasks=tasks, **{place: other})
                self.assertIn(expected, str(caught.exception))
                self.assertFalse(os.path.exists(config))


if __name__ == "__main__":
    unittest.main()
