#!/usr/bin/env python3
"""The output of dlrm-bench infer: its form and counts, not its times."""
import json
import os
import resource
import subprocess
import tempfile
import unittest

import bench_program
from bench_program import TINY, bench, main


class Infer(unittest.TestCase):
    """One checkpoint of a model that has not been trained: dlrm-train stands beside dlrm-bench."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.checkpoints = cls.save("ckpt")

    @classmethod
    def save(cls, name, *words):
        """The folder of a checkpoint."""
        checkpoints = os.path.join(cls.folder.name, name)
        words = [*words, "train.steps=0", "checkpoint.at_end=true", f"checkpoint.directory={checkpoints}",
                 f"output.directory={cls.folder.name}/run"]
        done = subprocess.run([os.path.join(os.path.dirname(bench_program.program), "dlrm-train"), TINY,
                               *(w for word in words for w in ("--set", word))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        return checkpoints

    def infer(self, *words):
        return bench("infer", self.checkpoints, "--seconds=0.01", "--threads=1", *words)

    def test_times_each_type_batch_and_rate(self):
        path = os.path.join(self.folder.name, "infer.json")
        done = self.infer("--batches=1,3,300", "--tables=fp32,int8", "--rates=2000,max", "--clients=2", "--output", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(result["checkpoint"], os.path.join(self.checkpoints, "step_000000000"))
        self.assertEqual((result["step"], result["threads"], result["clients"]), (0, 1, 2))
        fp32, int8 = result["models"]
        self.assertEqual((fp32["tables"], int8["tables"]), ("fp32", "int8"))
        self.assertLess(int8["table_bytes"], fp32["table_bytes"])
        for model in result["models"]:
            self.assertEqual([p["batch"] for p in model["batches"]], [1, 3, 300])
            self.assertEqual([p["rate"] for p in model["rates"]], [2000, "max"])
            self.assertEqual(model["rates"][0]["calls"], 20)  # those that are due within 10 ms
            for point in model["batches"] + model["rates"]:
                self.assertGreaterEqual(point["p99_ms"], point["p50_ms"])
                self.assertGreater(point["samples_per_second"], 0)
            for point in model["batches"]:
                self.assertGreaterEqual(point["calls"], 10)
                # Calls follow one another: half of them take at least the median.
                self.assertLessEqual(point["samples_per_second"] * point["p50_ms"] / 1e3, 2 * point["batch"] * 1.001)
        self.assertEqual([line.split()[:2] for line in done.stdout.splitlines()[2:8]],
                         [["fp32", "batch"]] * 3 + [["fp32", "2000/s"], ["fp32", "max"], ["fp32", "memory"]])

    def test_requests_share_the_threads_as_in_the_server(self):
        path = os.path.join(self.folder.name, "served.json")
        for threads, batches in ((3, 1), (8, 2)):  # of 256 samples, which take up to four threads
            done = bench("infer", self.checkpoints, "--seconds=0.01", f"--threads={threads}", "--batches=1", "--tables=fp32",
                         "--rates=max", "--clients=2", "--output", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            self.assertEqual((result["threads"], result["models"][0]["served_batches"]), (threads, batches))

    def test_the_largest_batch_must_fit_the_memory(self):
        many = self.save("many", "model.tables.t.hotness=20000", "data.workers=0")
        for batches in ("1,16777216", "16777216,1"):
            command = [bench_program.program, "infer", many, "--seconds=0.01", "--threads=1", f"--batches={batches}"]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("error: --batches would take", done.stderr)

    def test_wrong_values_are_refused(self):
        for words in ("--tables=fp16", "--tables=", "--rates=0", "--rates=1e9", "--rates=", "--rates=5,inf", "--rates=nan",
                      "--batches=0", "--batches=8..4", "--clients=0", "--seconds=-1", "--batch-wait=-1", "--threads=-1"):
            done = self.infer(words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn(words.split("=")[0], done.stderr.splitlines()[-1])
            self.assertEqual(done.stdout, "")

    def test_a_folder_without_a_checkpoint_is_named(self):
        done = bench("infer", self.folder.name)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(self.folder.name + ": there is no checkpoint", done.stderr)


if __name__ == "__main__":
    main()
