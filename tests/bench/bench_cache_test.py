#!/usr/bin/env python3
"""The output of dlrm-bench cache: its form and counts, not its times."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from bench_program import ROOT, TINY, bench, built_without_gpu, main


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def measure(self, *words):
        path = os.path.join(self.folder.name, "cache.json")
        done = bench("cache", TINY, "--seconds", "0", "--warm-up", "0", "--set", "model.tables.a.rows=80000",
                     "--set", "data.synthetic.samples=5000", "--set",
                     f"memory.cached.directory={self.folder.name}", "--output", path, *words)
        if done.returncode:
            raise AssertionError(done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file), done.stdout

    def test_measures_each_share_of_each_policy_against_resident_tables(self):
        for part in ("tables", "step"):
            result, table = self.measure("--shares", "10,50", "--policies", "lookahead,lru16", "--part", part)
            self.assertEqual(result["chain"], "host over SSD")
            points = result["points"]
            self.assertEqual([(p["policy"], p["share"]) for p in points],
                             [("resident", 100), ("lookahead", 10), ("lookahead", 50), ("lru16", 10), ("lru16", 50)])
            self.assertEqual(points[0]["ratio"], 1)
            for point in points[1:]:
                self.assertGreater(point["misses_per_step"], 0)
                self.assertLess(point["hit_rate"], 1)
                self.assertAlmostEqual(point["hit_rate"], 1 - point["misses_per_step"] / point["rows_per_step"])
                self.assertGreater(point["fetched_bytes"], 0)
                self.assertAlmostEqual(point["ratio"], point["samples_per_second"] / point["resident_samples_per_second"])
                self.assertTrue(0 < point["cpu_limit"] <= point["limit"] <= 1)
            self.assertGreater(points[1]["misses_per_step"], points[2]["misses_per_step"])
            self.assertEqual(sum(line.startswith(("resident", "lookahead", "lru16")) for line in table.splitlines()), 5)

    def test_measures_a_gpu(self):
        if built_without_gpu():
            self.skipTest("no GPU here")
        result, _ = self.measure("--shares", "5", "--part", "tables", "--set", "device=cuda", "--set",
                                 "data.synthetic.samples=1600", "--set", "memory.cached.middle=20%")
        self.assertEqual(result["chain"], "GPU over host over SSD")
        point = result["points"][1]
        self.assertGreater(point["misses_per_step"], 0)
        self.assertGreater(point["fetched_bytes"], 0)
        self.assertNotIn("cpu_limit", point)

    def test_counts_the_accesses_of_the_hottest_entries(self):
        accesses = self.measure("--shares", "50")[0]["accesses"]
        self.assertEqual(accesses["entries"], 80000 + 60)
        # Eight parts of 1000 batches of 8 samples with 7 ids.
        self.assertEqual(accesses["counted"], 8 * 1000 * 8 * 7)
        self.assertEqual(accesses["shares"], sorted(accesses["shares"]))
        self.assertAlmostEqual(accesses["shares"][-1], 1)

    def test_writes_every_row_of_a_table_that_is_read_in_parts(self):
        # More than 2^22 values, which are written at once.
        result, _ = self.measure("--shares", "50", "--set", "model.tables.a.rows=1100000")
        self.assertEqual(result["accesses"]["entries"], 1100000 + 60)
        self.assertGreater(result["points"][1]["misses_per_step"], 0)

    def test_wrong_shares_are_refused(self):
        for shares in ("0", "101", "10..", "5..1", "1,,2", "x"):
            done = bench("cache", TINY, "--shares", shares)
            self.assertEqual(done.returncode, 2, shares)
            self.assertIn("--shares", done.stderr)

    def test_is_drawn_by_the_plot_program(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        self.measure("--shares", "10,50")
        figure = os.path.join(self.folder.name, "cache.png")
        subprocess.run([sys.executable, "-m", "dlrm.plot", "cache",
                        os.path.join(self.folder.name, "cache.json"), "--output", figure], check=True)
        with open(figure, "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")


if __name__ == "__main__":
    main()
