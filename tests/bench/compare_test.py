#!/usr/bin/env python3
"""The comparison's arithmetic, against the figures that docs and dlrm-train give, and its table."""
import json
import os
import subprocess
import sys
import unittest

import compare_report
import compare_rows
import core_pace
import idle_machine
import infer_peers
import model_shapes

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def shapes(model):
    return model_shapes.load(os.path.join(ROOT, compare_rows.MODELS[model]))


def example(rate, rival, stage_ms=1.0, bound_by="compute"):
    runs = [{"samples_per_second": r, "stages_ms": {"lookup": stage_ms}} for r in rate]
    row = {"base": "x-8", "batch": 8, "precision": "fp32", "bound_by": bound_by, "goals": [0.6, 2.0, None],
           "flops_per_sample": 1e6,
           "lookup_bytes_per_sample": 1e6, "ours": {"hdf5": runs}, "peer": rival}
    limits = {"processor": "P", "threads": 2, "gflops": {"sgemm": 1.0}, "gb_per_second": {"triad": 16.0}}
    return {"date": "D", "rounds": 1, "load": [0.0], "disturbed": [0.0], "slowness": [0.0], "limits": [limits], "rows": {"x-8": row}}, row


class Shapes(unittest.TestCase):
    def test_count_the_weights_of_the_kaggle_model(self):
        bottom = 13 * 512 + 512 * 256 + 256 * 64 + 64 * 16
        top = (16 + 27 * 26 // 2) * 512 + 512 * 256 + 256
        self.assertEqual(shapes("kaggle").mlp_weights(), bottom + top)

    def test_count_the_bytes_that_a_sample_looks_up(self):
        self.assertEqual(shapes("lookup").lookup_bytes_per_sample(), 80 * 8 * 64 * 4)

    def test_expand_counted_tables(self):
        self.assertEqual([t.name for t in shapes("lookup").tables], [f"t_{i}" for i in range(8)])


class Report(unittest.TestCase):
    def test_takes_the_peers_better_number_of_threads(self):
        _, row = example([9], {"1": [2, 3, 4], "2": [1, 2, 9]})
        self.assertEqual(compare_report.peer(row), ([2, 3, 4], "1"))

    def test_shares_the_sgemm_rate_among_the_samples_flops(self):
        result, row = example([400, 500, 900], {})
        self.assertAlmostEqual(compare_report.share(result, row, "hdf5"), 0.5)

    def test_shares_the_triad_in_the_time_of_lookups_alone(self):
        result, row = example([1], {}, stage_ms=1.0, bound_by="lookups")
        self.assertAlmostEqual(compare_report.share(result, row, "hdf5"), 0.5)  # 8 MB in 1 ms of 16 GB/s


    def test_sets_goals_beside_what_was_reached(self):
        result, _ = example([500], {"1": [100]})
        line = compare_report.markdown(result).splitlines()[-1]
        self.assertEqual(line, "| x-8 | 1000 | 500 (500 to 500) | 50 % (goal 60 %) | 100 (100 to 100), 1 thr. | "
                         "5.00× (goal 2.00×) | - | - |")


class PaceOf:
    """Gives the slownesses that a test plans, in turn."""

    def __init__(self, *slownesses):
        self.left = list(slownesses)

    def slowness(self):
        return self.left.pop(0)


class Idle(unittest.TestCase):
    def measure(self, values, *slownesses):
        idle = idle_machine.IdleMachine(others_most=1.0, tries=3, pace=PaceOf(*slownesses))
        return idle.measure(lambda: values.pop(0), max)[0]

    def test_takes_the_first_try_whose_cores_kept_their_pace(self):
        self.assertEqual(self.measure([7, 9], 0.0, 0.0), 7)

    def test_tries_again_after_a_slow_spell(self):
        self.assertEqual(self.measure([4, 7, 9], 0.0, 0.3, 0.0, 0.0), 7)

    def test_takes_the_fastest_of_tries_that_were_all_disturbed(self):
        self.assertEqual(self.measure([4, 7, 5], 0.3, 0.3, 0.3, 0.3, 0.3, 0.3), 7)

    def test_measures_the_pace_of_all_cores(self):
        self.assertGreater(core_pace.seconds_of_all_cores(), 0)


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
