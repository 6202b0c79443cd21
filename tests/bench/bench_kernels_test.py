#!/usr/bin/env python3
"""The output of dlrm-bench limits and kernels: its form and counts, not its times."""
import json
import os
import subprocess
import tempfile
import unittest

import bench_program
from bench_program import bench, main


class Limits(unittest.TestCase):
    def test_are_one_json_object(self):
        done = bench("limits", "--size", "64", "--megabytes", "1", "--seconds", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        limits = json.loads(done.stdout)
        self.assertEqual(limits["matrix_size"], 64)
        self.assertGreater(limits["gflops"]["onednn_sgemm"], 0)
        known = [v for k, v in limits["gflops"].items() if k.endswith("_sgemm") and v is not None]
        self.assertEqual(limits["gflops"]["sgemm"], max(known))
        for rate in limits["gb_per_second"].values():
            self.assertTrue(0 < rate < 1e4)  # no machine is faster, so the unit is wrong
        self.assertLess(max(known), 1e6)


class Kernels(unittest.TestCase):
    SMALL = ["--batch=24", "--tables=2", "--rows=50", "--hotness=3", "--width=8", "--features=5", "--matrix=16",
             "--copied=4096", "--layer=16", "--crossed=40", "--rank=8", "--parameters=1000", "--seconds=0"]

    def run_kernels(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernels.jsonl")
            done = bench("kernels", "--device=cpu", *self.SMALL, "--output", path, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.lines(path), done.stdout

    @staticmethod
    def lines(path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    @staticmethod
    def rows(lines):
        return [line for line in lines if "name" in line]

    def test_every_operation_has_a_time_and_a_share_of_a_limit(self):
        lines, _ = self.run_kernels()
        names = [row["name"] for row in self.rows(lines)]
        self.assertEqual(len(names), len(set(names)))
        for name in ("lookup fp32, uniform ids", "group and update, zipf ids", "dot bf16 forward", "dot bf16 backward",
                     "lookup bf16, zipf ids, one a bag", "update adagrad, uniform ids, mixed bags",
                     "lookup fp32, uniform ids, 8 wide", "linear bf16 weight gradient, 479 to 1024",
                     "linear bf16 weight gradient, 256 to 1", "linear bf16 forward, bias and a matrix added",
                     "cross layer bf16 down forward", "cross layer bf16 up weight and bias gradient"):
            self.assertIn(name, names)
        self.assertEqual(lines[0]["sizes"]["rank"], 8)
        limits = {line["limit"]: line.get("gb_per_second", line.get("gflops")) for line in lines if "limit" in line}
        self.assertEqual(sorted(limits), ["copy", "product bf16", "product fp32"])
        self.assertTrue(all(rate > 0 for rate in limits.values()))
        for row in self.rows(lines):
            self.assertGreater(row["milliseconds"], 0, row["name"])
            self.assertGreaterEqual(row["median_milliseconds"], row["milliseconds"], row["name"])
            self.assertGreater(row["share"], 0, row["name"])
            self.assertLess(row["gb_per_second"], 1e5, row["name"])
            self.assertLess(row.get("gflops", 0), 1e6, row["name"])

    def test_a_dot_product_reads_its_vectors_once(self):
        lines, _ = self.run_kernels("--only", "dot bf16 forward")
        rows = self.rows(lines)
        self.assertEqual([row["name"] for row in rows], ["dot bf16 forward"])
        self.assertEqual(rows[0]["bytes"], 24 * 2 * (5 * 8 + 8 + 8 + 15))

    def test_prints_a_line_for_each_figure(self):
        lines, table = self.run_kernels("--only", "cross fp32")
        self.assertEqual(len(table.splitlines()), 1 + len(lines))  # the head has two

    def test_a_killed_run_has_written_what_it_has_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernels.jsonl")
            with subprocess.Popen([bench_program.program, "kernels", "--device=cpu", *self.SMALL[:-1], "--only=dot",
                                   "--seconds=60", "--output", path], stdout=subprocess.PIPE, text=True) as process:
                for _ in range(2):
                    process.stdout.readline()  # the head; the first figure takes a minute
                self.assertIsNone(process.poll())
                process.kill()
            self.assertEqual([line["sizes"]["batch"] for line in self.lines(path)], [24])

    def test_a_file_that_cannot_be_written_is_named_first(self):
        done = bench("kernels", "--device=cpu", *self.SMALL, "--output", "/nowhere/kernels.jsonl")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--output: /nowhere/kernels.jsonl", done.stderr)


if __name__ == "__main__":
    main()
