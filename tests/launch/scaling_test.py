#!/usr/bin/env python3
"""dlrm-scaling, with stand-ins for mpirun and dlrm-train."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from dlrm.scaling import report
from scripts_test import ROOT, Tree

SCALING = [sys.executable, "-m", "dlrm.scaling.command"]
CONFIG = """
model:
  dense_features: 13
  tables:
    - {name: "no", rows: 100, dim: 1e1}
    - {name: t, count: 2, rows: &many 7}
    - {name: u, rows: *many}
data: {source: hdf5, train: none.h5, shuffle: false}
sharding: {strategy: row, tables: {t: column}, machine: own.json}
train:
  epochs: 2
  global_batch_size: 64
  dense_optimizer: {type: sgd, lr: 1e-3}
checkpoint: {directory: precious, every_steps: 5}
output: {directory: mine}
"""
# Writes a summary in which ranks and calls can be told apart. A file `fail` or `wait` disturbs one run.
TRAIN = """
import json, os, re, signal, sys, time
words, ranks = sys.argv[1:], int(os.environ["RANKS"])
if "--plan-only" in words:
    text = open(words[0]).read()
    rows = int(re.search("rows: ([0-9]+)", text).group(1))
    if rows > 10**9:
        print("error: too many rows", file=sys.stderr)
        sys.exit(2)
    print("plan\\n" + ("fits: yes" if rows <= 30 else "does not fit: no"))
    sys.exit(0)
run = os.path.dirname(words[0])
with open("calls", "a") as calls:
    print(run, ranks, *words[1:], file=calls)
if os.path.exists("fail"):
    os.remove("fail")
    print("error: the loss is not finite", file=sys.stderr)
    sys.exit(3)
if os.path.exists("wait"):
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(130))
    os.remove("wait")
    time.sleep(60)
rate = 1000 * ranks * (0.8 if ranks > 1 else 1) + 10 * int(os.path.basename(run))
with open(run + "/summary.json", "w") as file:
    json.dump({"samples_per_second": rate, "step_ms": {"mean": 3, "p50": 2, "p99": 8 * ranks}, "world_size": ranks,
               "device": "cpu: AMD EPYC",
               "stages_ms": {"bottom": 3, "route": 0.5, "return": ranks - 1, "allreduce": 0.5},
               "stages_max_ms": {"late": 0.25, "return": ranks, "bottom": 3 + int(os.path.basename(run))},
               "plan": {"exchange_bytes": 3 * 2**20, "expected_exchange_bytes": 2**20, "between_nodes_bytes": 2**19, "lookup_imbalance": 1.25},
               "memory": {"process_peak_bytes": 2**29}, "eval": {}}, file)
"""
BENCH = """
import json, sys
words = sys.argv[1:]
with open("simulated", "a") as file:
    print(*words, file=file)
ranks = int(words[words.index("--ranks") + 1])
with open(words[words.index("--output") + 1], "w") as file:
    machine = words[words.index("--machine") + 1]
    json.dump({"machine": {"name": "M of " + machine, "hash": "h"}, "points": [{
        "step_ms": 160 / ranks, "samples_per_second": 400 * ranks, "stages": [], "memory_bytes": 3 * 2**30,
        "exchange_ms": {"total": 40, "exposed": 30, "hidden": 10},
        "exchanged_bytes": {"rank_within_node": 2**20, "node_with_others": 5 * 2**20}}]}, file)
"""
MPIRUN = 'while [ "$1" != -np ]; do shift; done; export RANKS=$2; shift 2; exec "$@"'


class Scaling(Tree):
    def setUp(self):
        super().setUp()
        self.write("config.yaml", CONFIG)
        self.program("bin/mpirun", MPIRUN)
        self.write("train.py", TRAIN)
        self.program("bin/dlrm-train", f'exec {sys.executable} -S -E "{self.folder}/train.py" "$@"')

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def scaling(self, *words):
        return self.start([*SCALING, "config.yaml", "--output", "out", *words])

    def simulator(self):
        self.program("bin/dlrm-bench", f'exec {sys.executable} -S -E "{self.folder}/bench.py" "$@"')
        self.write("bench.py", BENCH)

    def machine(self, name, processor):
        self.write(name, json.dumps({"measured": {"processor": processor}} if processor else {}))

    def results(self):
        with open(self.path("out/results.json"), encoding="utf-8") as file:
            return json.load(file)

    def calls(self):
        """The runs since the last call."""
        if not os.path.exists(self.path("calls")):
            return []
        with open(self.path("calls"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(self.path("calls"))
        return lines

    def point(self, name):
        with open(self.path("out", name, "0/point.yaml"), encoding="utf-8") as file:
            return file.read()

    def test_each_mode_has_its_batch_and_rows(self):
        done = self.scaling("--ranks", "2,6", "--mode", "strong,weak,memory", "--repeats", "1", "--steps", "9",
                            "--rows-scale", "0.5")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([(p["name"], p["batch"], p["rows_factor"]) for p in self.results()["points"]],
                         [("strong_fresh_2", 64, 1), ("strong_fresh_6", 64, 1), ("weak_fresh_2", 64, 1),
                          ("weak_fresh_6", 192, 1), ("memory_fresh_2", 64, 1), ("memory_fresh_6", 192, 3)])
        text = self.point("memory_fresh_6")
        for words in ['{name: "no", rows: 150, dim: 1e1}', "rows: &id001 10}", "rows: *id001}", "lr: 1e-3",
                      "shuffle: false, source: synthetic, test: \"\"", "steps: 9", "global_batch_size: 192",
                      'directory: "out/memory_fresh_6/0"', "at_end: false"]:
            self.assertIn(words, text)
        for words in ["epochs", "precious", "mine", "every_steps"]:
            self.assertNotIn(words, text)
        self.assertIn("0.5 times the config's rows", done.stdout)

    def test_repeats_begin_with_another_point(self):
        done = self.scaling("--ranks", "1,2", "--data", "fresh,replay", "--repeats", "2", "--", "--device", "cpu")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = ["strong_fresh_1", "strong_fresh_2", "strong_replay_1", "strong_replay_2"]
        self.assertEqual(self.calls(), [
            *(f"out/{name}/0 {name[-1]} --device cpu" for name in names),
            *(f"out/{name}/1 {name[-1]} --device cpu" for name in names[1:] + names[:1])])
        self.assertIn("source: replay", self.point("strong_replay_2"))

    def test_the_table_has_medians_and_ratios(self):
        done = self.scaling("--ranks", "1,4", "--repeats", "3")
        lines = [line.split() for line in done.stdout.splitlines()]
        # 1000, 1010 and 1020 samples/s on one rank, 3200, 3210 and 3220 on four.
        self.assertIn("strong fresh config 1 64 1010 2.0 1.000 2.000 8.000 25.0 3.00 1.00 0.50 1.25 0.50".split(), lines)
        self.assertIn("strong fresh config 4 64 3210 0.6 0.795 2.000 32.000 57.1 3.00 1.00 0.50 1.25 0.50".split(), lines)

    def test_the_slowest_rank_of_each_stage_is_shown_in_the_order_of_a_step(self):
        done = self.scaling("--ranks", "1,4", "--repeats", "3")
        _, _, text = done.stdout.partition("ms a step of the rank that takes longest in each stage\n")
        self.assertEqual([line.split() for line in text.splitlines()],
                         ["mode data sharding ranks bottom return late".split(),
                          "strong fresh config 1 4.000 1.000 0.250".split(), "strong fresh config 4 4.000 4.000 0.250".split()])

    def test_published_steps_of_the_config_are_named(self):
        published = {"program": "other 1", "source": "its page",
                     "points": [{"config": name, "ranks": ranks, "ms": ranks + 0.5}
                                for name in ("config.yaml", "else.yaml") for ranks in (1, 2, 3)]}
        self.write("configs/published/other.json", json.dumps(published))
        done = self.scaling("--ranks", "1,3", "--repeats", "1")
        self.assertEqual(done.stdout.splitlines()[-1], "published steps of other 1 (its page): 1.5 ms on 1, 3.5 ms on 3")

    def test_the_same_command_makes_the_missing_runs(self):
        self.assertEqual(self.scaling("--ranks", "1,2", "--repeats", "1").returncode, 0)
        self.calls()
        self.assertEqual(self.scaling("--ranks", "1,2", "--repeats", "1").returncode, 0)
        self.assertEqual(self.calls(), [])
        self.assertEqual(self.scaling("--ranks", "1,2", "--repeats", "2").returncode, 0)
        self.assertEqual(self.calls(), ["out/strong_fresh_2/1 2", "out/strong_fresh_1/1 1"])
        self.write("config.yaml", CONFIG.replace("1e-3", "2e-3"))
        done = self.scaling("--ranks", "1,2", "--repeats", "2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("out: holds results of another config", done.stderr)

    def test_runs_of_another_batch_are_not_continued(self):
        self.assertEqual(self.scaling("--ranks", "2,6", "--mode", "weak", "--repeats", "1").returncode, 0)
        self.calls()
        for words, batches in [(["--ranks", "2,6", "--batch", "32"], ("weak_fresh_2", 64, 32)),
                               (["--ranks", "6"], ("weak_fresh_6", 192, 64))]:
            done = self.scaling(*words, "--mode", "weak", "--repeats", "1")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--output out: holds {} with batch {} and 1 times the rows, not {} and 1".format(*batches),
                          done.stderr)
        self.assertEqual(self.calls(), [])

    def test_a_run_that_fails_is_named_and_tried_again(self):
        self.write("fail", "")
        done = self.scaling("--ranks", "1,2", "--repeats", "2")
        self.assertEqual(done.returncode, 3)
        self.assertIn("strong_fresh_1 failed: error: the loss is not finite", done.stderr)
        self.assertEqual(len(self.calls()), 3, "a failed point is not run again at once")
        self.assertEqual(self.scaling("--ranks", "1,2", "--repeats", "2").returncode, 0)
        self.assertEqual(self.calls(), ["out/strong_fresh_1/0 1", "out/strong_fresh_1/1 1"])

    def test_a_request_to_stop_ends_the_run_and_keeps_the_others(self):
        self.assertEqual(self.scaling("--ranks", "1", "--repeats", "1").returncode, 0)
        self.write("wait", "")
        environment = {**os.environ, "PATH": self.path("bin") + ":/usr/bin:/bin", "PYTHONPATH": self.path("python")}
        process = subprocess.Popen([*SCALING, "config.yaml", "--output", "out", "--ranks", "1", "--repeats", "2"],
                                   cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while os.path.exists(self.path("wait")):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 130)
        self.assertEqual(len(self.results()["points"][0]["runs"]), 1)

    def test_rows_are_halved_until_the_plan_fits(self):
        done = self.scaling("--ranks", "1,2", "--repeats", "1", "--rows-scale", "auto")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.results()["rows_scale"], 0.25)
        self.assertIn("rows: 25,", self.point("strong_fresh_1"))
        self.assertFalse(os.path.exists(self.path("out/fit.yaml")))

    def test_a_launcher_starts_the_runs(self):
        self.program("bin/srun", 'export RANKS=${1#--ntasks=}; shift; exec "$@"')
        done = self.scaling("--ranks", "3", "--repeats", "1", "--launcher", "srun --ntasks={ranks} dlrm-train")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.calls(), ["out/strong_fresh_3/0 3"])

    def test_predicts_the_measured_numbers_of_ranks_and_more(self):
        self.simulator()
        self.machine("m.json", "AMD EPYC (family 25, model 17)")
        done = self.scaling("--ranks", "1,2", "--repeats", "1", "--mode", "strong,weak", "--machine", "m.json",
                            "--predict-to", "11", "--", "--set", "a=b", "--device", "cpu", "--set=c=d")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        predicted = self.results()["predicted"]
        self.assertEqual([(p["mode"], p["ranks"], p["batch"]) for p in predicted],
                         [("strong", n, 64) for n in (1, 2, 4, 8)] + [("weak", n, 64 * n) for n in (1, 2, 4, 8)])
        with open(self.path("simulated"), encoding="utf-8") as file:
            self.assertIn("simulate out/predict.yaml --ranks 8 --ranks-per-node 8 --machine m.json --output out/predict.json "
                          "--set a=b --set c=d\n", file.readlines())
        lines = [line.split() for line in done.stdout.splitlines()]
        # 1600 samples/s of batches of 64 are 40 ms a step; 80 are predicted.
        self.assertIn("strong config 2 64 800 80.000 30.000 10.000 1.00 5.00 3.00 40.000 +100.0".split(), lines)
        self.assertIn("strong config 8 64 3200 20.000 30.000 10.000 1.00 5.00 3.00 - -".split(), lines)
        self.assertIn("predicted by dlrm-bench simulate for M of m.json, not measured", done.stdout)
        self.assertEqual(sorted(os.listdir(self.path("out"))), [".lock", "results.json", *(f"{mode}_fresh_{n}" for mode in
                                                                ("strong", "weak") for n in (1, 2))])

    def test_nodes_are_those_of_the_machine_file_unless_all_ranks_run_here(self):
        self.simulator()
        self.machine("m.json", None)
        self.machine("a.json", None)
        words = ["--ranks", "3", "--repeats", "1", "--machine", "m.json"]
        self.program("bin/srun", 'export RANKS=${1#--ntasks=}; shift; exec "$@"')
        self.scaling(*words, "--launcher", "srun --ntasks={ranks} dlrm-train")
        self.start([*SCALING, "config.yaml", "--output", "new", *words], MPIRUN_OPTIONS="--oversubscribe")
        self.start([*SCALING, "config.yaml", "--output", "newer", *words, "--predict-for", "a.json"])
        with open(self.path("simulated"), encoding="utf-8") as file:
            nodes = ["--ranks-per-node 3 --machine m.json" in line for line in file]
        self.assertEqual(nodes, [False, False, True, False])

    def test_a_machine_file_of_another_machine_has_no_error(self):
        self.simulator()
        for processor in ("AMD EPYC 9654 (family 25, model 17)", None):
            self.machine("m.json", processor)
            done = self.scaling("--ranks", "2", "--repeats", "1", "--machine", "m.json")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("simulate for M of m.json, another machine, not measured", done.stdout)
            self.assertIn("strong config 2 64 800 80.000 30.000 10.000 1.00 5.00 3.00 - -".split(),
                          [line.split() for line in done.stdout.splitlines()])

    def test_other_machines_are_predicted_with_all_rows(self):
        self.simulator()
        for name in ("m.json", "a.json", "b.json"):
            self.machine(name, "AMD EPYC (family 25, model 17)")
        self.program("bin/dlrm-bench", 'cp out/predict.yaml "$(mktemp predict.XXXX)"; '
                     f'exec {sys.executable} -S -E "{self.folder}/bench.py" "$@"')
        done = self.scaling("--ranks", "2", "--repeats", "1", "--rows-scale", "0.5", "--batch", "32", "--machine", "m.json",
                            "--predict-for", "a.json,b.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([(p["machine"]["name"], p["batch"], p["full_size"]) for p in self.results()["predicted"]],
                         [("M of m.json", 32, False), ("M of a.json", 64, True), ("M of b.json", 64, True)])
        rows = []
        for name in os.listdir(self.folder):
            if name.startswith("predict."):
                with open(self.path(name), encoding="utf-8") as file:
                    rows.append("rows: 100," in file.read())
        self.assertEqual(sorted(rows), [False, True, True])
        self.assertIn("for M of b.json, all rows and the config's batch, not measured", done.stdout)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(lines.count("strong config 2 64 800 80.000 30.000 10.000 1.00 5.00 3.00 - -".split()), 2)

    def test_shardings_are_compared(self):
        self.simulator()
        self.machine("m.json", "AMD EPYC (family 25, model 17)")
        done = self.scaling("--ranks", "2", "--repeats", "1", "--sharding", "table,data_parallel", "--machine", "m.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.calls(), ["out/strong_fresh_table_2/0 2", "out/strong_fresh_data_parallel_2/0 2"])
        self.assertIn("sharding: {machine: own.json, strategy: data_parallel}", self.point("strong_fresh_data_parallel_2"))
        lines = [line.split() for line in done.stdout.splitlines()]
        for sharding in ("table", "data_parallel"):
            self.assertIn(f"strong fresh {sharding} 2 64 1600 0.0 1.000 2.000 16.000 40.0 3.00 1.00 0.50 1.25 0.50".split(), lines)
            self.assertIn(f"strong {sharding} 2 64 800 80.000 30.000 10.000 1.00 5.00 3.00 40.000 +100.0".split(), lines)

    def test_ranks_that_share_a_processor_are_named(self):
        cores = len(os.sched_getaffinity(0))
        self.assertNotIn("take turns", self.scaling("--ranks", str(cores), "--repeats", "1").stdout)
        done = self.scaling("--ranks", str(cores + 1), "--batch", "64", "--repeats", "1")
        self.assertIn(f"this machine has {cores} processors: with more ranks they take turns", done.stdout)

    def test_parallelism_has_one_table_of_all_configs(self):
        self.simulator()
        for name in ("a100_dgx", "h200_dgx"):
            self.machine(f"configs/machines/{name}.json", None)
        self.write("small.yaml", CONFIG.replace("hdf5", "synthetic"))
        command = [sys.executable, "-m", "dlrm.scaling.parallelism", "--ranks", "2", "--rows-scale", "0.25", "--repeats", "1", "--output"]
        done = self.start([*command, "out", "--configs", "config.yaml,small.yaml"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(self.calls()), 6)
        table = [line.split() for line in done.stdout.partition("ms a step")[2].splitlines()]
        # A rank trains 1000 samples a second, two train 1600: batches of 4096.
        for name in ("config", "small"):
            self.assertIn(f"measured here, 0.25 of the rows {name} strong 2 4096 2560.000 2560.000 2560.000 table".split(), table)
            self.assertIn(f"predicted, M of {self.folder}/configs/machines/h200_dgx.json {name} strong 2 64 80.000 80.000 80.000 "
                          "table".split(), table)
        self.write("fail", "")
        done = self.start([*command, "new", "--configs", "config.yaml"])
        self.assertEqual(done.returncode, 3)
        self.assertIn("          -       2560.000       2560.000   auto", done.stdout)
        self.write("config.yaml", CONFIG.replace("1e-3", "1e-4"))
        self.assertEqual(self.start([*command, "new", "--configs", "config.yaml"]).returncode, 2)

    def test_a_machine_needs_the_program_and_says_what_it_says(self):
        done = self.scaling("--ranks", "1", "--machine", "m.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("build it with launch/build.sh cpu dlrm-bench", done.stderr)
        self.program("bin/dlrm-bench", 'echo "error: m.json: no such file" >&2; exit 2')
        done = self.scaling("--ranks", "1", "--repeats", "1", "--machine", "m.json")
        self.assertEqual((done.returncode, done.stderr), (2, "error: m.json: no such file\n"))

    def test_bad_input_ends_with_one_line(self):
        for words, text in [
            (["--ranks", "2,1"], "2,1: must rise"),
            (["--ranks", "0"], "0: not a whole number from 1"),
            (["--ranks", "1", "--mode", "strong,strong"], "must be one or more of strong,weak,memory"),
            (["--ranks", "1", "--predict-to", "8"], "needs --machine"),
            (["--ranks", "1", "--sharding", "table,rows"], "must be one or more of auto,table,row,column,grid,data_parallel"),
            (["--ranks", "1", "--rows-scale", "-1"], "must be auto or a number above 0"),
            (["--ranks", "1", "--launcher", "srun dlrm-train"], "must contain {ranks}"),
            (["--ranks", "1", "--launcher", "x {ranks}", "--rows-scale", "auto"], "with --launcher give a number"),
        ]:
            done = self.scaling(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(text, done.stderr)
        for text, message in [("model: {", "not YAML"), ("a: 1", "has model and train"),
                              (CONFIG.replace("rows: 100", "rows: 10000000000"), "too many rows"),
                              (CONFIG.replace("size: 64", "size: auto"), "give --batch")]:
            self.write("config.yaml", text)
            done = self.scaling("--ranks", "1")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(message, done.stderr)

    def test_the_exchange_is_the_share_of_stages_that_wait(self):
        self.assertEqual(report.exchange_share({"stages_ms": {"route": 1, "return": 2, "allreduce": 3, "top": 6}}), 0.5)
        self.assertEqual(report.exchange_share({}), 0)


if __name__ == "__main__":
    unittest.main()
