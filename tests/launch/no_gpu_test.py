#!/usr/bin/env python3
"""Programs built with CUDA on a machine without a GPU: they run on the CPU, or give the reason in one line.

    no_gpu_test.py FOLDER_OF_PROGRAMS"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(ROOT, "build/cuda/bin")
CONFIG = os.path.join(ROOT, "configs/bench/gpu/parity.yaml")


class NoGpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, program, *arguments, ranks=1):
        # If there is a GPU, this hides it.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
        launcher = ["mpirun", "--quiet", "--oversubscribe", "-np", str(ranks)] if ranks > 1 else []
        return subprocess.run([*launcher, os.path.join(PROGRAMS, program), *arguments], cwd=self.folder.name,
                              env=environment, capture_output=True, text=True, timeout=120)

    def train(self, *arguments, ranks=1):
        return self.start("dlrm-train", CONFIG, "--set", "train.steps=3", "--set", "output.directory=run", *arguments,
                          ranks=ranks)

    def expect_one_line(self, done, words):
        self.assertEqual(done.returncode, 2, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(words, errors[0])

    def test_auto_trains_on_the_cpu(self):
        for ranks in (1, 2):
            done = self.train("--overwrite", ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(self.folder.name, "run/summary.json"), encoding="utf-8") as file:
                self.assertTrue(json.load(file)["device"].startswith("cpu"))

    def test_asking_for_a_gpu_ends_with_the_reason(self):
        for ranks in (1, 2):
            self.expect_one_line(self.train("--device", "cuda", ranks=ranks), "device cuda: no GPU here")

    def test_kernels_are_not_timed(self):
        self.expect_one_line(self.start("dlrm-bench", "kernels", "--device", "cuda"), "device cuda: no GPU here")

    def test_plans_for_a_gpu_need_none(self):
        done = self.train("--device", "cuda", "--plan-only", "--ranks", "2", "--device-memory", "80")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
