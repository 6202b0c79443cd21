#!/usr/bin/env python3
"""The comparison's arithmetic, against the figures that docs and dlrm-train give, and its table."""
import json
import os
import subprocess
import sys
import unittest

import compare
import compare_report
import infer_peers
import model_shapes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def shapes(model):
    return model_shapes.load(os.path.join(ROOT, compare.MODELS[model]))


class Shapes(unittest.TestCase):
    def test_count_the_weights_of_the_kaggle_model(self):
        bottom = 13 * 512 + 512 * 256 + 256 * 64 + 64 * 16
        top = (16 + 27 * 26 // 2) * 512 + 512 * 256 + 256
        self.assertEqual(shapes("kaggle").mlp_weights(), bottom + top)

    def test_count_the_bytes_of_lookups_and_updates(self):
        self.assertEqual(shapes("lookup").bytes_per_sample(), 3 * 80 * 8 * 64 * 4)

    def test_expand_counted_tables(self):
        self.assertEqual([t.name for t in shapes("lookup").tables], [f"t_{i}" for i in range(8)])


class Report(unittest.TestCase):
    def test_takes_the_peers_better_number_of_threads(self):
        self.assertEqual(compare_report.peer({"1": [2, 3, 4], "2": [1, 2, 9]}), (3, "1"))

    def test_the_limit_is_that_of_products_or_of_memory(self):
        limits = {"gflops": {"sgemm": 1.0, "onednn_bf16": 4.0}, "gb_per_second": {"triad": 2.0}}
        for precision, size, expected in (("fp32", 1e6, 1000), ("bf16", 1e6, 2000), ("fp32", 1e7, 200)):
            row = {"precision": precision, "flops": 1e6, "bytes": size}
            self.assertAlmostEqual(compare_report.limit(row, limits), expected)


class Peer(unittest.TestCase):
    def test_trains_on_the_tiny_model(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("PyTorch is not installed")
        done = subprocess.run([sys.executable, os.path.join(HERE, "pytorch_dlrm.py"), os.path.join(HERE, "tiny.yaml"),
                               "--batch", "8", "--threads", "1", "--seconds", "0.01"], check=True,
                              stdout=subprocess.PIPE, text=True)
        self.assertGreater(json.loads(done.stdout)["samples_per_second"], 0)


class InferPeers(unittest.TestCase):
    def test_takes_medians_the_better_threads_and_names_what_is_missing(self):
        def rounds(*rates):
            return [[{"batch": 8, "samples_per_second": r, "p50_ms": 1, "p99_ms": 2}] for r in rates]

        figures = {"fp32": rounds(1, 900, 600), "onnxruntime 1": rounds(200, 200, 1), "onnxruntime 2": rounds(150, 100, 150)}
        row = infer_peers.table(figures, ["torch", "onnxruntime"], [8]).splitlines()[-1]
        self.assertEqual(row, "| 8 | 600/s, p99 2.000 ms | not installed | 200/s, p99 2.000 ms | 3.00 |")

    def test_percentiles_are_values_that_were_seen(self):
        self.assertEqual([infer_peers.percentile([4, 1, 3, 2], p) for p in (50, 99)], [2, 4])


if __name__ == "__main__":
    unittest.main()
