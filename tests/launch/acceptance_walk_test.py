#!/usr/bin/env python3
"""launch/gpu_acceptance.sh walks both of its calls with the programs of the preset simt: acceptance_walk_test.py BIN"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
programs = ""

# Steps that an emulator, or a machine without PyTorch, leaves out.
MAY_SKIP = {"kernels-apart", "products", "launches", "counters", "memcheck", "synccheck", "racecheck", "pytorch"}


class Walk(unittest.TestCase):
    def walk(self, call):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "output")
            done = subprocess.run([os.path.join(ROOT, "launch/gpu_acceptance.sh"), call, "--emulated", "--bin", programs,
                                   "--output", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "TMPDIR": folder})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(sorted(os.listdir(output)), ["logs.tar.gz", "record.json", "record.md"])
            self.assertEqual(os.listdir(folder), ["output"])
            with tarfile.open(os.path.join(output, "logs.tar.gz")) as packed:
                self.assertIn("preflight.log", packed.getnames())
            with open(os.path.join(output, "record.json"), encoding="utf-8") as file:
                record = json.load(file)
        listed = subprocess.run([os.path.join(ROOT, "launch/gpu_acceptance.sh"), call, "--list"], stdout=subprocess.PIPE,
                                text=True, check=True).stdout
        self.assertEqual([step["key"] for step in record["steps"]], [line.split()[0] for line in listed.splitlines()])
        for step in record["steps"]:
            with self.subTest(step["key"]):
                skipped = step["status"] == "skipped" and step["key"] in MAY_SKIP
                self.assertTrue(skipped or step["status"] == "passed" and step["rows"], step)
        return record

    def test_first_measures_then_tests(self):
        record = self.walk("--first")
        self.assertIn("lookup fp32, uniform ids", [row["name"] for row in record["kernels"]["kernels"]])
        self.assertIn("dcnv2-uniform", record["runs"])
        self.assertIn("update", record["stages_ms"])

    def test_second_measures_what_takes_longer(self):
        record = self.walk("--second")
        self.assertIn("cpu-kaggle-2048-threads-1", record["runs"])


if __name__ == "__main__":
    programs = os.path.abspath(sys.argv.pop(1))
    unittest.main()
