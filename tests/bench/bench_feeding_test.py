#!/usr/bin/env python3
"""The output of dlrm-bench feeding: its form and counts, not its times."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from bench_program import ROOT, bench, hashed_log, main


class Feeding(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config, self.log = self.path("model.yaml"), self.path("log.tsv")
        tables = ", ".join(f"{{name: C{c}, rows: {c}}}" for c in range(1, 27))
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("model: {dense_features: 13, embedding_dim: 4, bottom_mlp: [4], top_mlp: [4, 1], "
                       f"tables: [{tables}]}}\ndata: {{train: none.h5}}\ntrain: {{global_batch_size: 64, threads: 1}}\n")
        hashed_log(self.log, 700)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_has_a_step_for_each_way(self):
        done = bench("feeding", self.config, "--data", self.log, "--rows", "50", "--workers", "2", "--rounds", "2",
                     "--set", "device=cpu", "--folder", self.path("work"), "--output", self.path("feeding.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("feeding.json"), encoding="utf-8") as file:
            feeding = json.load(file)
        steps = feeding["steps"]
        self.assertEqual([step["global_batch_size"] for step in steps], [64, 64, 64, 512, 512, 512])
        self.assertEqual([step["prepare_seconds"] > 0 for step in steps], [False, False, True, False, False, True])
        for step in steps:
            self.assertEqual(step["samples"], 700)
            rates = step["rounds"]["samples_per_second"]
            self.assertEqual(len(rates), 2)
            self.assertAlmostEqual(step["samples_per_second"], sum(rates) / 2, 3)
            self.assertTrue(0 <= step["busy_share"] <= 1)
            self.assertAlmostEqual(step["minutes_per_epoch"] * 60 * step["samples_per_second"], 700, 6)
            self.assertAlmostEqual(step["trials_per_day"] * step["minutes_per_epoch"], 24 * 60, 6)
        for text in ("text, parsed in the training thread", "shuffled before"):
            self.assertIn(text, done.stdout)
        self.assertTrue(os.path.exists(self.path("work/shuffled.h5")))
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            return
        subprocess.run([sys.executable, "-m", "dlrm.plot", "feeding", self.path("feeding.json"),
                        "--output", self.path("feeding.png")], check=True)

    def test_names_what_is_wrong(self):
        done = bench("feeding", self.config, "--data", self.path("none.tsv"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.tsv", done.stderr)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write("no line of a log\n")
        done = bench("feeding", self.config, "--data", self.log, "--set", "device=cpu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("log.tsv:701", done.stderr)


if __name__ == "__main__":
    main()
