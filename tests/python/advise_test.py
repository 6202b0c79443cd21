#!/usr/bin/env python3
"""dlrm.bench.advise, with sweeps whose best machines are known."""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from dlrm.bench import advise

try:
    import yaml  # noqa: F401
    HAS_YAML = True
except ImportError:
    HAS_YAML = False
try:
    import matplotlib  # noqa: F401
    DRAWS = True
except ImportError:
    DRAWS = False


def sweep(rates, config="model.yaml"):
    return {"config": config, "samples": 1000,
            "points": [{"batch": batch, "samples_per_second": rate} for batch, rate in rates.items()]}


# The small machine costs a quarter. The large one is faster from batch 16 on, and its samples are cheaper between
# 32 and 128. At batch 512 only the large one was measured.
SMALL = {8: 1000, 32: 2000, 128: 2000}
LARGE = {8: 500, 32: 4000, 128: 12800, 512: 20000}


class Advise(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def run_tool(self, *words):
        return subprocess.run([sys.executable, "-m", "dlrm.bench.advise", *words], capture_output=True, text=True)

    def series(self):
        return [advise.Series(name, price, advise.training_series(sweep(rates))[0][""])
                for name, price, rates in [("small", 0.36, SMALL), ("large", 1.44, LARGE)]]

    def test_the_cheapest_is_by_the_price_of_samples(self):
        chosen, changes = advise.choices(self.series(), advise.by_cost)
        self.assertEqual([s.name for _, s in chosen], ["small", "small", "large", "large"])
        # Samples cost twice as much at 32, and 1 / 1.6 times as much at 128.
        self.assertAlmostEqual(changes[0][0], 32 * 4 ** (math.log(2) / math.log(2 * 1.6)))
        small = self.series()[0]
        self.assertAlmostEqual(small.cost(small.at(8)), 0.36 / 3600 / 1000 * 1e9)

    @unittest.skipUnless(HAS_YAML, "PyYAML is not installed")
    def test_prints_the_best_machine_for_each_batch_rate_and_limit(self):
        files = [self.write("small.json", sweep(SMALL)), self.write("large.json", sweep(LARGE))]
        prices = self.write("prices.yaml", "currency: EUR\nper_hour: {small.json: 0.36, large.json: 1.44}\n")
        figure = os.path.join(self.folder.name, "figure.svg")
        done = self.run_tool(*files, "--prices", prices, *(["--output", figure] if DRAWS else []))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        self.assertIn("8 small 1000 small 100.000", lines)
        self.assertIn("128 large 12800 large 31.250", lines)
        self.assertIn("from batch 16 on, large is the fastest", lines)
        self.assertIn("2000 small 32 0.360", lines)
        self.assertIn("20000 large 512 1.440", lines)
        limits = lines[lines.index("ms of a batch fastest batch samples/s cheapest batch EUR per 10^9") + 1:]
        self.assertEqual(limits, [
            # Of equal costs the smaller batch counts.
            "8.000 large 32 4000 small 8 100.000",
            "10.000 large 128 12800 large 128 31.250",
            "25.600 large 512 20000 large 512 20.000",
        ])
        if DRAWS:
            self.assertGreater(os.path.getsize(figure), 0)

    @unittest.skipUnless(HAS_YAML, "PyYAML is not installed")
    def test_inference_has_a_series_for_each_type_of_the_tables(self):
        def infer(scale):
            return {"checkpoint": "ckpt/step_000000010", "step": 10, "models": [
                {"tables": tables, "batches": [{"batch": 1, "samples_per_second": scale * rate, "p99_ms": 2}]}
                for tables, rate in [("fp32", 100), ("int8", 200)]]}
        files = [self.write("a.json", infer(1)), self.write("b.json", infer(3))]
        prices = self.write("prices.yaml", "per_hour: {a.json: 0.36, b.json: 3.6}\n")
        done = self.run_tool(*files, "--prices", prices, "--infer")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1 b, int8 600 a, int8 500.000", " ".join(done.stdout.split()))

    @unittest.skipUnless(HAS_YAML, "PyYAML is not installed")
    def test_bad_input_ends_with_one_line(self):
        good, other = self.write("good.json", sweep(SMALL)), self.write("other.json", sweep(SMALL, "another.yaml"))
        infer, broken = self.write("infer.json", {"models": []}), self.write("broken.json", "{")
        prices = self.write("prices.yaml", "per_hour: {good.json: 1, other.json: 1, infer.json: 1, broken.json: 1}")
        for words, text in [
            ([good, other], "other.json: measured another.yaml (1000)"),
            ([infer], "infer.json: not written by dlrm-bench batch-sweep"),
            ([good, "--infer"], "good.json: not written by dlrm-bench infer"),
            ([broken], "broken.json: no JSON"),
            ([self.write("free.json", sweep(SMALL))], "the prices have no `per_hour: free.json`"),
            ([os.path.join(self.folder.name, "none", "good.json")], "No such file"),
        ]:
            done = self.run_tool(*words, "--prices", prices)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for text in ["per_hour: 3", "per_hour: {good.json: -1}", "per_hour: {good.json: [", "- 1"]:
            done = self.run_tool(good, "--prices", self.write("wrong.yaml", text))
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn("wrong.yaml", done.stderr)


if __name__ == "__main__":
    unittest.main()
