#!/usr/bin/env python3
"""The output of dlrm-bench batch-sweep: its form and counts, not its times."""
import math
import os
import subprocess
import sys
import tempfile
import unittest

from bench_program import ROOT, TINY, bench, built_without_gpu, main, sweep


class BatchSweep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_doubles_the_batch_from_the_first_size_to_the_last(self):
        result, _ = sweep(self.folder.name, "--batches", "8..33", "--samples", "64")
        self.assertEqual([p["batch"] for p in result["points"]], [8, 16, 32])

    def test_takes_the_steps_that_the_samples_need(self):
        result, _ = sweep(self.folder.name, "--batches", "8,16,300", "--samples", "200")
        self.assertEqual([p["steps"] for p in result["points"]], [26, 14, 2])  # epochs of 150 end in a partial batch

    def test_times_every_repeat(self):
        result, _ = sweep(self.folder.name, "--batches", "8..16", "--samples", "200")
        for point in result["points"]:
            seconds = point["seconds"]
            self.assertEqual(len(seconds["repeats"]), 2)
            self.assertTrue(all(s > 0 for s in seconds["repeats"]))
            self.assertAlmostEqual(seconds["mean"], sum(seconds["repeats"]) / 2)
            self.assertAlmostEqual(point["samples_per_second"], 200 / seconds["mean"])

    def test_reports_cores_memory_and_moved_data(self):
        result, _ = sweep(self.folder.name, "--batches", "8", "--samples", "40")
        point = result["points"][0]
        self.assertEqual(len(point["core_utilization"]), os.cpu_count())
        self.assertTrue(all(0 <= u <= 1 for u in point["core_utilization"]))
        self.assertGreater(point["resident_bytes"], 0)
        self.assertLess(point["memory_share"], 1)
        moving = sum(point["stages_ms"][s] for s in result["moving_stages"])
        self.assertTrue(math.isclose(point["moving_share"], moving / sum(point["stages_ms"].values()), rel_tol=1e-6))

    def test_times_of_stages_are_those_of_a_step(self):
        result, _ = sweep(self.folder.name, "--batches", "8", "--samples", "200")
        point = result["points"][0]
        # Stages follow one another, so together they take no longer than the loop.
        self.assertLessEqual(sum(point["stages_ms"].values()) * point["steps"], 1e3 * point["seconds"]["mean"])
        self.assertGreater(sum(point["stages_ms"].values()), 0)

    def test_the_process_uses_at_most_the_cores(self):
        result, _ = sweep(self.folder.name, "--batches", "8", "--samples", "2000",
                          "--set", f"train.threads={4 * os.cpu_count()}")
        self.assertEqual(result["threads"], 4 * os.cpu_count())
        for point in result["points"]:
            self.assertGreater(point["process_utilization"], 0)
            self.assertLess(point["process_utilization"], 0.3)  # a quarter of the threads

    def test_samples_that_need_too_much_memory_are_refused_with_their_bytes(self):
        done = bench("batch-sweep", TINY, "--batches", "8", "--samples", str(1 << 40))
        self.assertEqual(done.returncode, 2, done.stderr)
        # 3 numbers and a label of 4 bytes, 3 offsets and 7 ids of 8.
        self.assertIn("--samples would take 98304.0 GiB of memory", done.stderr)

    def test_prints_a_line_for_each_batch_size(self):
        _, table = sweep(self.folder.name, "--batches", "8..16", "--samples", "40")
        self.assertEqual([line.split()[0] for line in table.splitlines()[2:]], ["8", "16"])

    def test_is_drawn_by_the_plot_program(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        sweep(self.folder.name, "--batches", "8..16", "--samples", "40")
        figure = os.path.join(self.folder.name, "sweep.png")
        subprocess.run([sys.executable, "-m", "dlrm.plot", "batch-sweep",
                        os.path.join(self.folder.name, "sweep.json"), "--output", figure], check=True)
        with open(figure, "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")

    def test_on_a_gpu_times_steps_that_are_launched_as_graphs(self):
        if built_without_gpu():
            return
        result, table = sweep(self.folder.name, "--device", "cuda", "--batches", "8,50", "--samples", "100")
        self.assertTrue(result["device"].startswith("cuda"))
        self.assertEqual(result["moving_stages"], [])
        for point in result["points"]:
            self.assertGreater(point["recorded_steps"], 0)
            self.assertNotIn("moving_share", point)
        # Two batches of one size, in both places that routed batches take: the second and each later pass launch all.
        self.assertEqual(result["points"][1]["recorded_steps"], 2)
        self.assertEqual([line.split()[5] for line in table.splitlines()[2:]], ["-", "-"])

    def test_on_a_gpu_launches_every_timed_step_as_a_graph_at_any_depth(self):
        if built_without_gpu():
            return
        for depth, steps in ((0, 1), (2, 2)):
            result, _ = sweep(self.folder.name, "--device", "cuda", "--batches", "50", "--samples", str(50 * steps),
                              "--set", f"routing.depth={depth}", repeats=1)
            self.assertEqual(result["points"][0]["recorded_steps"], steps, depth)

    def test_refuses_sizes_that_are_none(self):
        for batches in ("0..8", "16..8", "8,x", "", "8..", "-4"):
            done = bench("batch-sweep", TINY, f"--batches={batches}")
            self.assertEqual(done.returncode, 2, batches)
            self.assertIn("--batches", done.stderr.splitlines()[-1])


class Crossovers(unittest.TestCase):
    def test_are_found_both_ways(self):
        from dlrm.bench.batch_sweep import crossovers

        def line(*seconds):
            points = zip((8, 16, 32, 64, 128), seconds)
            return {"points": [{"batch": batch, "seconds": {"mean": s}} for batch, s in points]}

        cpu = line(4, 4, 4, 4, 4)
        self.assertEqual(crossovers(cpu, line(8, 8, 8, 8, 8)), [])
        (first, second) = crossovers(cpu, line(16, 8, 2, 2, 8))
        self.assertTrue(16 < first[0] < 32 and first[1])
        self.assertTrue(64 < second[0] < 128 and not second[1])


if __name__ == "__main__":
    main()
