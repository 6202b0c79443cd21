#!/usr/bin/env python3
"""dlrm-sweep, with stand-ins for mpirun, dlrm-train and Slurm."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from dlrm.sweep import command
from scripts_test import Tree

SWEEP = [sys.executable, "-m", "dlrm.sweep.command"]
# Trains to an AUC that grows with steps and "lr". An lr of 0.6 fails, and 0.5 waits for a request to stop, once.
TRAIN = """
import json, os, signal, sys, time
words = sys.argv[1:]
keys = dict(word.split("=", 1) for name, word in zip(words, words[1:]) if name == "--set")
steps, lr = int(keys.get("train.steps", 10)), float(keys.get("lr", 0))
if "nonsense" in keys:
    print("error: unknown key nonsense", file=sys.stderr)
    sys.exit(2)
if "--plan-only" in words:
    sys.exit(0)
run, saved = keys["output.directory"], keys["checkpoint.directory"]
if lr == 0.5:  # before the test sees the call
    signal.signal(signal.SIGUSR1, lambda *_: (os.makedirs(saved), os._exit(130)))
with open("calls", "a") as calls:
    print(os.path.basename(run), lr, steps, int(os.path.exists(saved) and "--resume" in words), os.environ.get("CUDA_VISIBLE_DEVICES", "-"),
          os.environ.get("OMP_NUM_THREADS", "-"), file=calls)
if lr == 0.6:
    print("error: the loss is not finite\\nmore", file=sys.stderr)
    sys.exit(3)
while lr == 0.5 and not os.path.exists(saved):
    time.sleep(0.01)
if "checkpoint.at_end" in keys:
    os.makedirs(saved, exist_ok=True)
result = {"auc": None if lr == 0.7 else 0.5 + lr / 2 + steps / 1e4, "log_loss": 1 - lr}
with open(run + "/metrics.jsonl", "w") as file:
    print(json.dumps({"step": steps, **result}), file=file)
with open(run + "/summary.json", "w") as file:
    json.dump({"eval": {**result, "log_loss": 9}, "best_eval": result}, file)
"""
MPIRUN = 'while [ "$1" != -np ]; do shift; done; shift 2; exec "$@"'
# Runs the tasks of an array one after the other, as a Slurm of one node does.
SBATCH = """echo "$@" >>submitted
for word; do case $word in --array=*) array=${word#--array=} ;; --ntasks=*) tasks=${word#--ntasks=} ;; esac; done
for task in $(echo "${array%\\%*}" | tr , ' '); do
  SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$task SLURM_NTASKS=$tasks bash "${@: -2:1}" "${@: -1}" >&2
done
echo "7;cluster" """


class Sweeps(Tree):
    def setUp(self):
        super().setUp()
        self.program("bin/mpirun", MPIRUN)
        self.write("train.py", TRAIN)
        self.program("bin/dlrm-train", f'[[ "$*" != *" --print "* ]] || exit 2\nexec {sys.executable} -S -E '
                                       f'"{self.folder}/train.py" "$@"')

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def sweep(self, *words):
        return self.start([*SWEEP, "config.yaml", *words])

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def calls(self):
        """Name, lr, steps and whether it was saved before, of each run since the last call."""
        try:
            with open(self.path("calls"), encoding="utf-8") as file:
                lines = [line.split() for line in file]
            os.remove(self.path("calls"))
        except FileNotFoundError:
            return []
        return sorted((name, float(lr), int(steps), int(saved)) for name, lr, steps, saved, *_ in lines)

    def table(self, done):
        return [line.split()[0] for line in done.stdout.splitlines() if line.startswith("trial_") and ":" not in line]


class Grids(unittest.TestCase):
    def test_are_all_combinations_in_order(self):
        grid = command.read_grid(["a=1,2", "b=[8,1],{x: 1, y: 2},'p,q'"], False)
        self.assertEqual(grid["b"], ["[8,1]", "{x: 1, y: 2}", "'p,q'"])
        self.assertEqual(command.combinations(grid, None, 1)[:4], [
            ["a=1", "b=[8,1]"], ["a=1", "b={x: 1, y: 2}"], ["a=1", "b='p,q'"], ["a=2", "b=[8,1]"]])

    def test_drawn_combinations_are_distinct_and_the_seed_s(self):
        grid = {name: [str(value) for value in range(1000)] for name in "abcd"}
        drawn = command.combinations(grid, 50, 3)
        self.assertEqual(len({tuple(settings) for settings in drawn}), 50)
        self.assertEqual(drawn, command.combinations(grid, 50, 3))
        self.assertNotEqual(drawn, command.combinations(grid, 50, 4))
        self.assertEqual(command.combinations({"a": ["1", "2"]}, 5, 3), [["a=1"], ["a=2"]])


class Endings(Sweeps):
    def test_a_damaged_file_of_a_sweep_is_one_line(self):
        os.makedirs(self.path("out"))
        self.write("config.yaml", "train: {steps: 10}\n")
        self.write("out/sweep.json", '{"trials": 3}')
        done = self.sweep("--grid", "train.dense_optimizer.lr=0.1,0.2", "--output", self.path("out"))
        self.assertIn(done.returncode, (2, 3))
        self.assertRegex(done.stderr, r"^error: .*\n$")


class OnThisMachine(Sweeps):
    def test_reports_all_trials_and_runs_only_those_again_that_failed(self):
        words = ["--grid", "lr=0.1,0.6,0.3", "--output", "out"]
        done = self.sweep(*words)
        self.assertEqual((done.returncode, done.stderr),
                         (3, "out/trial_001 failed: error: the loss is not finite\n"), done.stdout)
        self.assertIn("3 trials in out: 2 with results, 1 failed, 0 not finished\n", done.stdout)
        self.assertEqual(self.table(done), ["trial_002", "trial_000"])  # the best first
        self.assertEqual([call[0] for call in self.calls()], ["trial_000", "trial_001", "trial_002"])
        done = self.sweep(*words)
        self.assertEqual(done.returncode, 3)
        self.assertEqual([call[0] for call in self.calls()], ["trial_001"])
        self.write("train.py", "import sys; sys.exit(9)")
        self.assertEqual(self.sweep(*words).stderr, "out/trial_001 failed: exit code 9\n")
        # A wider grid keeps what is there.
        self.write("train.py", TRAIN)
        done = self.sweep("--grid", "lr=0.2,0.3", "--output", "out")
        self.assertEqual((done.returncode, self.table(done)), (0, ["trial_002", "trial_003"]), done.stderr)
        self.assertEqual([call[0] for call in self.calls()], ["trial_003"])

    def test_a_stopped_sweep_saves_and_resumes(self):
        words = [*SWEEP, "config.yaml", "--grid", "lr=0.1,0.5,0.2"]
        environment = dict(os.environ, PATH=self.path("bin") + ":/usr/bin:/bin", PYTHONPATH=self.path("python"))
        with subprocess.Popen(words, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            calls = self.path("calls")
            deadline = time.monotonic() + 30
            while not (os.path.exists(calls) and "trial_001" in self.read("calls")):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            shown = process.communicate(timeout=30)[0]
        self.assertEqual(process.returncode, 130, shown)
        self.assertIn("1 with results, 0 failed, 2 not finished", shown)
        self.calls()
        done = self.start(words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(self.calls(), [("trial_001", 0.5, 10, 1), ("trial_002", 0.2, 10, 0)])

    def test_jobs_run_on_gpus_and_cpus_of_their_own(self):
        self.program("bin/nvidia-smi", "printf 'GPU 0: a\\nGPU 1: b\\n'")
        done = self.sweep("--grid", "lr=0.1,0.2", "--jobs", "2", "--", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("calls"), encoding="utf-8") as file:
            found = sorted(line.split()[4:] for line in file)
        threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
        self.assertEqual(found, [["0", threads], ["1", threads]])
        with open(self.path("sweeps/config/trial_001/arguments"), encoding="utf-8") as file:
            words = file.read().split("\n")
        self.assertEqual(words[:5], ["config.yaml", "--set", "lr=0.2", "--device", "cpu"])


class Halving(Sweeps):
    WORDS = ["--grid", "lr=0.1,0.4,0.6,0.3,0.2", "--halving", "--steps", "800", "--output", "out"]

    def test_gives_the_better_half_twice_the_steps(self):
        done = self.sweep(*self.WORDS)
        self.assertEqual(done.returncode, 3, done.stderr)  # for 0.6
        self.assertEqual(self.calls(), sorted(
            [(f"trial_{i:03d}", lr, 100, 0) for i, lr in enumerate((0.1, 0.4, 0.6, 0.3, 0.2))] +
            [(f"trial_{i:03d}", lr, 200, 1) for i, lr in ((1, 0.4), (3, 0.3), (4, 0.2))] +
            [("trial_001", 0.4, 400, 1), ("trial_003", 0.3, 400, 1), ("trial_001", 0.4, 800, 1)]))
        self.assertEqual(self.table(done), ["trial_001", "trial_003", "trial_004", "trial_000"])
        self.assertEqual([os.path.exists(self.path(f"out/trial_00{i}/ckpt")) for i in (0, 1, 3, 4)],
                         [False, True, False, False])
        # As if the sweep had been killed before it took the last result.
        results = json.loads(self.read("out/trial_001/results.json"))
        self.write("out/trial_001/results.json", json.dumps({key: results[key] for key in ("100", "200", "400")}))
        self.write("out/trial_002/results.json", json.dumps({"100": {"auc": 0.1}}))
        done = self.sweep(*self.WORDS)
        self.assertEqual((done.returncode, self.calls()), (0, []), done.stderr)
        self.assertEqual(json.loads(self.read("out/trial_001/results.json")), results)

    def test_by_log_loss_takes_the_lowest(self):
        done = self.sweep("--grid", "lr=0.1,0.7", "--halving", "--steps", "8", "--metric", "log_loss")
        self.assertEqual((done.returncode, self.table(done)), (0, ["trial_001", "trial_000"]), done.stderr)

    def test_refuses_another_grid_and_trials_without_a_metric(self):
        done = self.sweep("--grid", "lr=0.1,0.7", "--halving", "--steps", "8", "--output", "none")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "error: none/trial_001: there is no auc to compare: --halving needs data.valid or data.test, "
                                      "with samples of both classes\n")
        done = self.sweep("--grid", "lr=0.1", "--halving", "--steps", "8", "--output", "none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("another grid", done.stderr)


class SlurmArrays(Sweeps):
    def test_run_the_trials(self):
        self.program("bin/sbatch", SBATCH)
        self.program("bin/squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
        self.program("bin/srun", '[ "$1" != --mpi=list ] || { echo pmix; exit; }; until [ "$1" = dlrm-train ]; do shift; '
                                 'done; exec "$@"')
        self.program("bin/scontrol", '[ "$1" != requeue ] || echo "$2" >>requeued')
        words = ["--slurm", "--jobs", "4", "--ranks", "2", "--grid", "lr=0.1,0.6,0.3", "--sbatch=--time=60"]
        done = self.sweep(*words)
        self.assertEqual((done.returncode, self.table(done)), (3, ["trial_002", "trial_000"]), done.stderr)
        self.assertEqual(done.stderr, "sweeps/config/trial_001 failed: error: the loss is not finite\n")
        with open(self.path("submitted"), encoding="utf-8") as file:
            self.assertEqual(file.read(), f"--parsable --array=0,1,2%4 --ntasks=2 --time=60 "
                                          f"{self.folder}/launch/slurm/sweep.sbatch sweeps/config\n")
        self.calls()
        self.sweep(*words)
        self.assertEqual([call[0] for call in self.calls()], ["trial_001"])
        # A task that is stopped is requeued, and has not failed.
        self.write("train.py", "import sys; sys.exit(130)")
        done = self.sweep(*words)
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertIn("2 with results, 0 failed, 1 not finished", done.stdout)
        with open(self.path("requeued"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "7_1\n")

    def test_a_running_array_is_waited_for(self):
        self.program("bin/sbatch", SBATCH)
        self.program("bin/squeue", "[ -e asked ] || { touch asked; echo RUNNING; }")
        self.write("sweeps/config/job", "7\n")
        done = self.start([*SWEEP, "config.yaml", "--slurm", "--grid", "lr=0.1"], DLRM_SWEEP_POLL_SECONDS="0.01")
        self.assertEqual(done.returncode, 3)
        self.assertIn("waiting for the job array 7", done.stdout)
        self.assertFalse(os.path.exists(self.path("submitted")))


class WrongUse(Sweeps):
    def test_is_one_line(self):
        lr = ["--grid", "lr=0.1"]
        for words, expected in (
                ([], "required: --grid"), (["--grid", "lr"], "--grid lr: expected KEY=V1,V2"),
                (["--grid", "lr=1,,2"], "expected KEY=V1,V2"), (["--grid", "lr=1,1"], "a value is given twice"),
                ([*lr, *lr], "lr is given twice"), (["--grid", "output.directory=a"], "sets output.directory itself"),
                ([*lr, "--jobs", "0"], "0: not a whole number from 1"), ([*lr, "--halving"], "--steps N go together"),
                ([*lr, "--steps", "3"], "--steps N go together"), ([*lr, "--sbatch=--x"], "goes with --slurm"),
                (["--grid", "train.steps=1,2", "--halving", "--steps", "3"], "sets train.steps itself"),
                ([*lr, "--", "--resume=a"], "--resume=a cannot be given to trials"),
                ([*lr, "--slurm"], "there is no sbatch on PATH"), ([*lr, "--output", "config.yaml/x"], "Not a directory"),
                (["--grid", "a=" + ",".join(map(str, range(101))), "--grid", "b=" + ",".join(map(str, range(101)))],
                 "10201 trials are more than 10000"), (["--grid", "nonsense=1"], "unknown key nonsense")):
            if "no sbatch" in expected and os.path.exists("/usr/bin/sbatch"):
                continue
            done = self.sweep(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("error: "), done.stderr)
            self.assertIn(expected, done.stderr)
        self.assertEqual(self.calls(), [])
        done = self.start([*SWEEP, "none.yaml", *lr])
        self.assertEqual((done.returncode, done.stderr), (2, "error: none.yaml: there is no such file\n"))

    def test_a_folder_holds_trials_of_one_config(self):
        self.assertEqual(self.sweep("--grid", "lr=0.1").returncode, 0)
        self.write("config.yaml", "train: {global_batch_size: 16}\n")
        done = self.sweep("--grid", "lr=0.1")
        self.assertEqual((done.returncode, done.stderr), (2, "error: --output sweeps/config: holds a sweep with other "
                                                          "config: name another folder\n"))


if __name__ == "__main__":
    unittest.main()
