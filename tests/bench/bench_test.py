#!/usr/bin/env python3
"""The output of dlrm-bench: its form and counts, not its times. bench_test.py PATH/TO/dlrm-bench"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TINY = os.path.join(HERE, "tiny.yaml")
PROGRAM = ""
sys.path.insert(0, os.path.join(ROOT, "data_tools"))


def bench(*words):
    return subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sweep(folder, *words, repeats=2):
    path = os.path.join(folder, "sweep.json")
    done = bench("batch-sweep", TINY, "--repeats", str(repeats), "--output", path, *words)
    if done.returncode:
        raise AssertionError(done.stderr)
    with open(path, encoding="utf-8") as file:
        return json.load(file), done.stdout


def hashed_log(path, lines):
    """Text in Criteo's format."""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(lines):
            numbers = [str(i % (n + 2)) for n in range(13)]
            file.write("\t".join([str(i % 2), *numbers, *(f"{i * (c + 1) % 997:08x}" for c in range(26))]) + "\n")


def built_without_gpu():
    done = bench("batch-sweep", TINY, "--device", "cuda", "--batches", "8", "--samples", "8", "--repeats", "1")
    return done.returncode == 2


class Feeding(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config, self.log = self.path("model.yaml"), self.path("log.tsv")
        tables = ", ".join(f"{{name: C{c}, rows: {c}}}" for c in range(1, 27))
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("model: {dense_features: 13, embedding_dim: 4, bottom_mlp: [4], top_mlp: [4, 1], "
                       f"tables: [{tables}]}}\ndata: {{train: none.h5}}\ntrain: {{global_batch_size: 64, threads: 1}}\n")
        hashed_log(self.log, 700)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_has_a_step_for_each_way(self):
        done = bench("feeding", self.config, "--data", self.log, "--rows", "50", "--workers", "2", "--rounds", "2",
                     "--set", "device=cpu", "--folder", self.path("work"), "--output", self.path("feeding.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("feeding.json"), encoding="utf-8") as file:
            feeding = json.load(file)
        steps = feeding["steps"]
        self.assertEqual([step["global_batch_size"] for step in steps], [64, 64, 64, 512, 512, 512])
        self.assertEqual([step["prepare_seconds"] > 0 for step in steps], [False, False, True, False, False, True])
        for step in steps:
            self.assertEqual(step["samples"], 700)
            rates = step["rounds"]["samples_per_second"]
            self.assertEqual(len(rates), 2)
            self.assertAlmostEqual(step["samples_per_second"], sum(rates) / 2, 3)
            self.assertTrue(0 <= step["busy_share"] <= 1)
            self.assertAlmostEqual(step["minutes_per_epoch"] * 60 * step["samples_per_second"], 700, 6)
            self.assertAlmostEqual(step["trials_per_day"] * step["minutes_per_epoch"], 24 * 60, 6)
        for text in ("text, parsed in the training thread", "shuffled before"):
            self.assertIn(text, done.stdout)
        self.assertTrue(os.path.exists(self.path("work/shuffled.h5")))
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            return
        subprocess.run([sys.executable, os.path.join(ROOT, "data_tools/plot_feeding.py"), self.path("feeding.json"),
                        "--output", self.path("feeding.png")], check=True)

    def test_names_what_is_wrong(self):
        done = bench("feeding", self.config, "--data", self.path("none.tsv"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.tsv", done.stderr)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write("no line of a log\n")
        done = bench("feeding", self.config, "--data", self.log, "--set", "device=cpu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("log.tsv:701", done.stderr)


class Machine(unittest.TestCase):
    def measure(self, ranks):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "machine.json")
            words = [PROGRAM, "machine", "--seconds", "0", "--largest", "65536", "--output", path]
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
        for key in ("memory", "local", "network"):
            self.assertGreater(machine[key + "_bytes_per_second"], 0)
        self.assertIn("measured", machine["sources"]["local_bytes_per_second"])
        self.assertIn("assumed", machine["sources"]["network_bytes_per_second"])
        self.assertGreater(machine["local_exchange_seconds"], 0)
        self.assertNotIn("network_exchange_seconds", machine)
        for name in ("alltoall", "allgather", "allreduce"):
            points = machine["measured"][name]["seconds_by_bytes"]
            self.assertEqual([size for size, _ in points], [4096, 65536])
            self.assertEqual(machine["measured"][name]["alpha_seconds"], points[0][1])

    def test_of_one_rank_says_that_exchanges_are_derived(self):
        machine = self.measure(1)
        self.assertEqual(machine["ranks_per_node"], 1)
        self.assertEqual(machine["local_bytes_per_second"], machine["memory_bytes_per_second"] / 4)
        self.assertIn("quarter", machine["sources"]["local_bytes_per_second"])
        self.assertGreater(machine["fp32_products_per_second"], 1e6)
        self.assertGreater(machine["bf16_products_per_second"], 1e6)
        self.assertNotIn("local_exchange_seconds", machine)
        self.assertEqual(machine["measured"], {"ranks": 1, "nodes": 1})


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
        self.assertEqual(result["points"][0]["exchange_ms"]["total"], 0)
        self.assertGreater(result["points"][1]["exchange_ms"]["total"], 0)

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
                             ([TINY, "--machine", "/nowhere.json"], "/nowhere.json")]:
            done = bench("simulate", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(named, done.stderr)


class Options(unittest.TestCase):
    def assert_refused(self, *words):
        done = bench(*words)
        self.assertEqual(done.returncode, 2, (words, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, (words, done.stderr))
        return done.stderr

    def test_out_of_bounds_are_named(self):
        cases = {"machine": ["--seconds", "--largest", "--threads"],
                 "limits": ["--size", "--megabytes", "--seconds", "--threads"],
                 "kernels": ["--batch", "--tables", "--rows", "--hotness", "--width", "--features", "--matrix", "--copied",
                             "--layer", "--crossed", "--parameters", "--seconds", "--threads"],
                 "batch-sweep": ["--samples", "--repeats", "--batches"]}
        for command, options in cases.items():
            first = [command, TINY] if command == "batch-sweep" else [command]
            for option in options:
                for value in ("-1", "1e300", "99999999999999999999"):
                    self.assertIn(option, self.assert_refused(*first, f"{option}={value}"))

        for words in (["--seconds=-1"], ["--seconds=3601"], ["--warm-up=-1"], ["--warm-up=3601"], ["--part=rows"]):
            self.assertIn(words[0].split("=")[0], self.assert_refused("cache", TINY, *words))
        self.assertIn("memory.cached.policy", self.assert_refused("cache", TINY, "--policies", "lru"))

    def test_every_option_is_listed(self):
        expected = {
            "limits": "size megabytes seconds threads output",
            "machine": "seconds largest threads output",
            "simulate": "published like ranks machine device-memory set output",
            "batch-sweep": "batches samples repeats set device output",
            "infer": "batches tables rates batch-wait clients seconds threads output",
            "cache": "shares policies part seconds warm-up set output",
            "kernels": "batch tables rows hotness width features matrix copied layer crossed parameters seconds only device "
                       "tf32 threads output",
        }
        for command, names in expected.items():
            listed = re.findall(r"^ +(?:-[a-z],)?--([a-z0-9-]+)", bench(command, "--help").stdout, re.M)
            self.assertEqual(sorted(listed), sorted(["help", *names.split()]), command)

    def test_larger_than_the_memory_are_refused(self):
        self.assertIn("memory", self.assert_refused("kernels", "--rows", "1000000000000"))
        self.assertIn("memory", self.assert_refused("kernels", "--device", "cpu", "--copied", "1000000000000"))
        self.assertIn("memory", self.assert_refused("batch-sweep", TINY, "--samples", "1000000000000"))


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
        for part, chain, words in [("tables", "GPU over SSD", []),
                                   ("step", "GPU over host over SSD", ["--set", "memory.cached.middle=20%"])]:
            result, _ = self.measure("--shares", "5", "--part", part, "--set", "device=cuda", "--set",
                                     "data.synthetic.samples=1600", *words)
            self.assertEqual(result["chain"], chain)
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
        subprocess.run([sys.executable, os.path.join(ROOT, "data_tools/plot_cache.py"),
                        os.path.join(self.folder.name, "cache.json"), "--output", figure], check=True)
        with open(figure, "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")


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
        subprocess.run([sys.executable, os.path.join(ROOT, "data_tools/plot_batch_sweep.py"),
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
        for depth, steps in ((0, 1), (1, 1), (2, 2), (3, 3)):
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
        from plot_batch_sweep import crossovers

        def line(*seconds):
            points = zip((8, 16, 32, 64, 128), seconds)
            return {"points": [{"batch": batch, "seconds": {"mean": s}} for batch, s in points]}

        cpu = line(4, 4, 4, 4, 4)
        self.assertEqual(crossovers(cpu, line(8, 8, 8, 8, 8)), [])
        (first, second) = crossovers(cpu, line(16, 8, 2, 2, 8))
        self.assertTrue(16 < first[0] < 32 and first[1])
        self.assertTrue(64 < second[0] < 128 and not second[1])


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
            self.assertGreater(rate, 0)


class Kernels(unittest.TestCase):
    SMALL = ["--batch=24", "--tables=2", "--rows=50", "--hotness=3", "--width=8", "--features=5", "--matrix=16",
             "--copied=4096", "--layer=16", "--crossed=40", "--parameters=1000", "--seconds=0"]

    def run_kernels(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernels.json")
            done = bench("kernels", *self.SMALL, "--output", path, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

    def test_every_operation_has_a_time_and_a_share_of_a_limit(self):
        result, _ = self.run_kernels()
        names = [row["name"] for row in result["kernels"]]
        self.assertEqual(len(names), len(set(names)))
        for name in ("lookup fp32, uniform ids", "group and update, zipf ids", "dot bf16 forward", "dot bf16 backward",
                     "lookup bf16, zipf ids, one a bag", "update adagrad, uniform ids, mixed bags",
                     "lookup fp32, uniform ids, 8 wide", "linear bf16 weight gradient, 479 to 1024",
                     "linear bf16 weight gradient, 256 to 1"):
            self.assertIn(name, names)
        self.assertTrue(all(rate > 0 for rate in result["limits"].values()))
        for row in result["kernels"]:
            self.assertGreater(row["milliseconds"], 0, row["name"])
            self.assertGreaterEqual(row["median_milliseconds"], row["milliseconds"], row["name"])
            self.assertGreater(row["share"], 0, row["name"])

    def test_a_dot_product_reads_its_vectors_once(self):
        result, _ = self.run_kernels("--only", "dot bf16 forward")
        self.assertEqual([row["name"] for row in result["kernels"]], ["dot bf16 forward"])
        self.assertEqual(result["kernels"][0]["bytes"], 24 * (5 * 8 * 4 + 2 * (8 + 8 + 15)))

    def test_prints_a_line_for_each_operation(self):
        result, table = self.run_kernels("--only", "cross")
        self.assertEqual(len(table.splitlines()), 3 + len(result["kernels"]))


class Infer(unittest.TestCase):
    """One checkpoint of a model that has not been trained: dlrm-train stands beside dlrm-bench."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.checkpoints = os.path.join(cls.folder.name, "ckpt")
        words = ["train.steps=0", "checkpoint.at_end=true", f"checkpoint.directory={cls.checkpoints}",
                 f"output.directory={cls.folder.name}/run"]
        done = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "dlrm-train"), TINY,
                               *(w for word in words for w in ("--set", word))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)

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


class Program(unittest.TestCase):
    def test_needs_a_command(self):
        self.assertEqual(bench().returncode, 2)

    def test_tells_help_and_version(self):
        for words in (["--help"], ["--version"], ["batch-sweep", "--help"], ["limits", "--help"], ["kernels", "--help"]):
            self.assertEqual(bench(*words).returncode, 0, words)

    def test_names_a_config_that_is_missing(self):
        done = bench("batch-sweep", "nowhere.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere.yaml", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
