#!/usr/bin/env python3
"""The output of dlrm-bench machine and simulate: its form and counts, not its times."""
import json
import os
import subprocess
import tempfile
import unittest

import bench_program
from bench_program import ROOT, TINY, bench, main


class Machine(unittest.TestCase):
    def measure(self, ranks):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "machine.json")
            words = [bench_program.program, "machine", "--seconds", "0", "--largest", "65536", "--output", path]
            if ranks > 1:
                words = ["mpirun", "--oversubscribe", "-np", str(ranks), *words]
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(done.stdout, text)
            return json.loads(text)

    def test_of_ranks_has_what_a_plan_needs_and_all_collectives(self):
        machine = self.measure(3)
        self.assertEqual(machine["ranks_per_node"], 3)
        self.assertLessEqual(machine["processors_per_node"], os.cpu_count())
        self.assertGreaterEqual(machine["threads_per_rank"], 1)
        self.assertGreater(machine["draw_id_seconds"], 1e-11)
        for key in ("memory", "local", "network"):
            self.assertGreater(machine[key + "_bytes_per_second"], 0)
        self.assertIn("measured", machine["sources"]["local_bytes_per_second"])
        self.assertIn("assumed", machine["sources"]["network_bytes_per_second"])
        self.assertGreater(machine["local_exchange_seconds"], 0)
        for key in ("route", "lookup"):
            self.assertGreater(machine[key + "_id_seconds"], 0)
        for key in ("route", "receive", "lookup", "update"):  # exchange and vectors may leave nothing of some
            self.assertLess(machine.get(key + "_id_seconds", 0), 1e-3)
        self.assertNotIn("network_exchange_seconds", machine)
        for name in ("alltoall", "allgather", "allreduce"):
            points = machine["measured"][name]["seconds_by_bytes"]
            self.assertEqual([size for size, _ in points], [4096, 65536])
            self.assertEqual(machine["measured"][name]["alpha_seconds"], points[0][1])
            # No call among processes takes less than a tenth of a microsecond.
            self.assertGreater(min(seconds for _, seconds in points), 1e-7)
        self.assertGreater(machine["local_exchange_seconds"], 1e-7)
        for key in ("memory", "local"):
            self.assertLess(machine[key + "_bytes_per_second"], 1e12)

    def test_of_one_rank_says_that_exchanges_are_derived(self):
        machine = self.measure(1)
        self.assertEqual(machine["ranks_per_node"], 1)
        self.assertEqual(machine["local_bytes_per_second"], machine["memory_bytes_per_second"] / 4)
        self.assertIn("quarter", machine["sources"]["local_bytes_per_second"])
        self.assertGreater(machine["fp32_products_per_second"], 1e6)
        self.assertGreater(machine["bf16_products_per_second"], 1e6)
        self.assertNotIn("local_exchange_seconds", machine)
        self.assertGreater(machine["lookup_id_seconds"], 0)
        self.assertEqual(machine["measured"], {"processor": machine["name"], "ranks": 1, "nodes": 1})


class Simulate(unittest.TestCase):
    MACHINE = os.path.join(ROOT, "configs", "machines", "a100_dgx.json")

    def simulate(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = bench("simulate", "--machine", self.MACHINE, "--output", path, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

    def test_predicts_each_number_of_ranks(self):
        result, text = self.simulate(TINY, "--ranks", "1..4")
        self.assertTrue(result["predicted"])
        self.assertIn("predicted, not measured", text)
        self.assertEqual([point["ranks"] for point in result["points"]], [1, 2, 4])
        for point in result["points"]:
            chain = sum(link["ms"] for link in point["critical_path"])
            self.assertAlmostEqual(chain, point["step_ms"], places=9)
            self.assertAlmostEqual(point["samples_per_second"], 1e3 * result["batch"] / point["step_ms"])
            self.assertIn(f"{point['step_ms']:.4f}", text)
            exchange = point["exchange_ms"]
            self.assertAlmostEqual(exchange["hidden"], max(0, exchange["total"] - exchange["exposed"]))
            self.assertGreater(point["memory_bytes"], 0)
        self.assertEqual(result["points"][0]["exchange_ms"]["total"], 0)
        self.assertGreater(result["points"][1]["exchange_ms"]["total"], 0)

    def test_ranks_per_node_replace_those_of_the_machine_file(self):
        for per_node, between in ((16, False), (4, True)):
            result, _ = self.simulate(TINY, "--ranks", "16", "--ranks-per-node", str(per_node))
            sent = result["points"][0]["exchanged_bytes"]["node_with_others"]
            self.assertEqual(sent > 0, between)

    def test_compares_with_published_times(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "times.json")
            times = {"program": "P", "source": "S", "largest_slice_elements": 1e9,
                     "seconds": {"id": 0, "element": 0, "input": 0.5, "model_input": 0},
                     "points": [{"config": TINY, "ranks": 1, "ms": 1000, "fitted": True},
                                {"config": TINY, "ranks": 2, "ms": 2000}]}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(times, file)
            result, text = self.simulate("--published", path)
            first, second = result["points"]
            self.assertTrue(first["fitted"])
            self.assertFalse(second["fitted"])
            self.assertGreater(first["predicted_ms"], 1e3 * 0.5)
            for point in (first, second):
                self.assertAlmostEqual(point["error"], point["predicted_ms"] / point["published_ms"] - 1)
            self.assertLess(second["dlrm_train_ms"], 500)
            alone, text_alone = self.simulate(TINY, "--ranks", "2", "--like", path)
            self.assertAlmostEqual(alone["points"][0]["step_ms"], second["predicted_ms"])
            self.assertEqual(alone["program"], "P")
            self.assertIn("not measured: P with", text_alone)
            self.assertIn("1 other points", text)
            for key in ("program", "points", "seconds", "largest_slice_elements"):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({k: v for k, v in times.items() if k != key}, file)
                done = bench("simulate", "--published", path, "--machine", self.MACHINE)
                self.assertEqual(done.returncode, 2)
                self.assertIn(key, done.stderr)

    def test_wrong_uses_are_refused(self):
        for words, named in [(["--machine", self.MACHINE], "CONFIG"), ([TINY], "--machine"),
                             ([TINY, "--machine", self.MACHINE, "--ranks", "0"], "--ranks"),
                             ([TINY, "--machine", self.MACHINE, "--ranks", "4..2"], "--ranks"),
                             ([TINY, "--machine", self.MACHINE, "--ranks-per-node", "0"], "--ranks-per-node"),
                             (["--published", TINY, "--machine", self.MACHINE, "--ranks-per-node", "2"],
                              "--ranks-per-node"),
                             ([TINY, "--machine", "/nowhere.json"], "/nowhere.json")]:
            done = bench("simulate", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(named, done.stderr)


if __name__ == "__main__":
    main()
