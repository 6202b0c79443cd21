#!/usr/bin/env python3
"""dlrm-compare, dlrm-plot and dlrm.runs.tensorboard, with folders as runs leave them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import dlrm
from dlrm.runs import files

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(dlrm.__file__)))

CONFIG = """model:
  dense_features: 13
  bottom_mlp: [64, 16]
  interaction: {type: cross, layers: 3}
  tables:
    - {name: C1, rows: ROWS, features: [{name: a, hotness: 2}]}
    - {name: "no", rows: 7}
data:
  train: "/d/a, b: [1].h5"
  test: ""
train:
  dense_optimizer: {type: adagrad, lr: LR}
comm: auto
output:
  directory: FOLDER
"""

try:
    import matplotlib  # noqa: F401
    DRAWS = True
except ImportError:
    DRAWS = False


# In the place of tensorboardX: writes its calls as JSON lines.
TENSORBOARDX = """
import json, os
class SummaryWriter:
    def __init__(self, logdir):
        os.makedirs(logdir)
        self.file = open(logdir + "/events.out.tfevents.1", "w")
    def add_scalar(self, tag, value, step, walltime=None):
        print(json.dumps([tag, value, step, walltime]), file=self.file)
    def add_text(self, tag, text):
        print(json.dumps([tag, text]), file=self.file)
    def close(self):
        self.file.close()
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_folder(self, name, lr="0.1", rows="100", auc=0.75, ended=True, tasks=None):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        self.write(folder, "config.yaml", CONFIG.replace("LR", lr).replace("ROWS", rows).replace("FOLDER", name))
        lines = [{"step": 1, "samples": 8, "loss": 0.7, "samples_per_second": 100.0},
                 {"step": 20, "samples": 160, "loss": 0.5, "samples_per_second": 1500.0},
                 {"step": 20, "auc": auc, "log_loss": 0.512345, "accuracy": 0.6, "calibration": 1.0}]
        self.write(folder, "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        if ended:
            self.write(folder, "summary.json", json.dumps({
                "samples_per_second": 12345.6, "device": "cpu", "stages_ms": {"lookup": 1.0, "top": 2.0},
                "eval": {"auc": auc, "log_loss": 0.512345, **({"tasks": tasks} if tasks else {})}}))
        return folder

    def write(self, folder, name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def tool(self, name, *words, **variables):
        """Modules of the test's folder stand in for others."""
        return subprocess.run([sys.executable, "-m", name, *words], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join([self.folder, PACKAGES]), **variables})

    def assert_refused(self, expected, *words, **variables):
        done = self.tool(*words, **variables)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        self.assertIn(expected, done.stderr)

    def compare(self, *folders):
        done = self.tool("dlrm.runs.compare", *folders)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.split("  ") for line in done.stdout.splitlines()]

    def cells(self, *folders):
        return [[cell.strip() for cell in line if cell.strip()] for line in self.compare(*folders)]


class Config(unittest.TestCase):
    def test_is_read_flat(self):
        flat = files.flat_config(CONFIG)
        self.assertEqual(flat, {
            "model.dense_features": "13", "model.bottom_mlp": "[64, 16]", "model.interaction.type": "cross",
            "model.interaction.layers": "3", "model.tables.C1.rows": "ROWS", "model.tables.C1.features.a.hotness": "2",
            "model.tables.no.rows": "7", "data.train": "/d/a, b: [1].h5", "data.test": "",
            "train.dense_optimizer.type": "adagrad", "train.dense_optimizer.lr": "LR", "comm": "auto",
            "output.directory": "FOLDER"})


class Compare(Runs):
    def test_shows_results_and_the_keys_that_differ(self):
        one, two = self.run_folder("one"), self.run_folder("two", lr="0.02", rows="200", auc=0.76543219)
        self.assertEqual(self.cells(one, two), [
            ["run", "steps", "AUC", "log loss", "samples/s", "model.tables.C1.rows", "train.dense_optimizer.lr"],
            ["one", "20", "0.75000", "0.51235", "12,346", "100", "0.1"],
            ["two", "20", "0.76543", "0.51235", "12,346", "200", "0.02"]])

    def test_shows_a_run_that_has_not_ended(self):
        folder = self.run_folder("one", auc=None, ended=False)
        with open(os.path.join(folder, "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step": 40, "lo')
        self.assertEqual(self.cells(folder)[1], ["one", "20 (no end)", "-", "0.51235", "1,500"])

    def test_shows_every_task(self):
        one = self.run_folder("one", tasks={"click": {"auc": 0.8}, "buy": {"auc": None}})
        two = self.run_folder("two", tasks={"click": {"auc": 0.7}})
        head, *rows = self.cells(one, two, self.run_folder("three"))
        self.assertEqual(head[3:7], ["log loss", "AUC click", "AUC buy", "samples/s"])
        self.assertEqual([row[4:6] for row in rows], [["0.80000", "-"], ["0.70000", "-"], ["-", "-"]])

    def test_tells_runs_of_one_name_apart(self):
        one, two = self.run_folder("a/run"), self.run_folder("b/run")
        self.assertEqual([line[0] for line in self.cells(one, two)], ["run", one, two])

    def test_names_what_is_wrong(self):
        folder = self.run_folder("one")
        self.assert_refused("no such folder", "dlrm.runs.compare", os.path.join(self.folder, "none"))
        self.assert_refused("there is no metrics.jsonl", "dlrm.runs.compare", self.folder)
        self.write(folder, "metrics.jsonl", '{"step": 1, "loss": 1}\n[3]\n')
        self.assert_refused("metrics.jsonl: line 2 is not a JSON object", "dlrm.runs.compare", folder)
        self.write(folder, "metrics.jsonl", "")
        self.write(folder, "summary.json", "{")
        self.assert_refused("summary.json: cannot be read", "dlrm.plot", "run", folder, "--output", "x.svg")
        self.write(folder, "summary.json", "{}")
        self.write(folder, "config.yaml", "model: {a: 1\n")
        self.assert_refused("config.yaml: cannot be read", "dlrm.runs.compare", folder)


class Rates(Runs):
    def test_are_those_of_samples_over_the_time_of_several_lines(self):
        folder = self.run_folder("one")
        lines = [{"step": i, "samples": 100 * i, "loss": 1, "samples_per_second": (50, 100)[i % 2]} for i in range(1, 201)]
        self.write(folder, "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        rates = files.Run(folder).rates
        self.assertEqual((len(rates), rates[-1]["step"]), (40, 200))
        for rate in rates:  # between 2 of 5 and 3 of 5 lines are fast
            self.assertTrue(500 / 8 - 1e-6 <= rate["samples_per_second"] <= 500 / 7 + 1e-6, rate)

    def test_of_few_lines_are_theirs(self):
        rates = files.Run(self.run_folder("one")).rates
        self.assertEqual(rates, [{"step": 1, "samples_per_second": 100.0}, {"step": 20, "samples_per_second": 1500.0}])


class Figures(Runs):
    def test_without_matplotlib_name_the_package(self):
        self.write(self.folder, "matplotlib.py", "raise ImportError\n")
        run = self.run_folder("one")
        measured = os.path.join(run, "summary.json")
        for words in (("dlrm.plot", "run", run, "--output"), ("dlrm.runs.compare", run, "--figure"),
                      ("dlrm.plot", "cache", measured, "--output"), ("dlrm.plot", "batch-sweep", measured, "--output"),
                      ("dlrm.plot", "feeding", measured, "--output")):
            done = self.tool(*words, os.path.join(self.folder, "x.svg"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("has no matplotlib: install it with launch/install_deps.sh python", done.stderr)

    @unittest.skipUnless(DRAWS, "matplotlib is not installed")
    def test_are_drawn(self):
        runs = [self.run_folder("one"), self.run_folder("two", lr="0.2", auc=None, ended=False)]
        for words, ending, start in ((["dlrm.plot", "run", runs[0], "--output"], ".svg", b"<?xml"),
                                     (["dlrm.plot", "run", runs[1], "--output"], ".png", b"\x89PNG"),
                                     (["dlrm.runs.compare", *runs, "--figure"], ".svg", b"<?xml")):
            figure = os.path.join(self.folder, "figure" + ending)
            done = self.tool(*words, figure)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(figure, "rb") as file:
                self.assertTrue(file.read().startswith(start))
            os.remove(figure)
        self.assertEqual(sorted(os.listdir(self.folder)), ["one", "two"])

    def test_name_an_input_that_is_none(self):
        self.write(self.folder, "text", "no JSON")
        self.write(self.folder, "list", "[1]")
        for name, expected in (("none", "No such file or directory"), ("text", "text: no JSON"),
                               ("list", "not written by dlrm-bench" if DRAWS else "matplotlib")):
            for kind in ("cache", "batch-sweep", "feeding"):
                self.assert_refused(expected, "dlrm.plot", kind, os.path.join(self.folder, name), "--output", "x.svg")

    @unittest.skipUnless(DRAWS, "matplotlib is not installed")
    def test_name_an_output_that_cannot_be(self):
        run = self.run_folder("one")
        self.assert_refused("a figure ends with one of", "dlrm.plot", "run", run, "--output", "x.txt")
        self.assert_refused("No such file or directory", "dlrm.plot", "run", run, "--output", self.folder + "/no/x.svg")


class TensorBoard(Runs):
    def convert(self, *words):
        return self.tool("dlrm.runs.tensorboard", *words, "--output", self.path("board"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def lines(self, run):
        with open(self.path("board", run, "events.out.tfevents.1"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_gets_every_number_by_step(self):
        self.write(self.folder, "tensorboardX.py", TENSORBOARDX)
        run, other = self.run_folder("one"), self.run_folder("two", auc=None, ended=False)
        with open(os.path.join(run, "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step": 30, "loss": 0.4, "cache": {"misses": 7}, "time": "2026-01-31T12:00:00Z"}\n')
        for _ in range(2):  # again in the place of what is there
            done = self.convert(run, other)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("2 runs in", done.stdout)
        self.assertEqual(sorted(os.listdir(self.path("board"))), ["one", "two"])
        lines = self.lines("one")
        self.assertEqual(lines[:3], [["train/samples", 8, 1, None], ["train/loss", 0.7, 1, None],
                                     ["train/samples_per_second", 100.0, 1, None]])
        self.assertIn(["train/cache/misses", 7, 30, 1769860800.0], lines)
        self.assertIn(["eval/auc", 0.75, 20, None], lines)
        self.assertEqual(lines[-1][0], "config")
        self.assertIn("    train.dense_optimizer.lr: 0.1\n", lines[-1][1])
        self.assertFalse([line for line in self.lines("two") if line[0] == "eval/auc"])  # it is null

    def test_refuses_what_it_would_lose(self):
        self.write(self.folder, "tensorboardX.py", TENSORBOARDX)
        run = self.run_folder("one")
        os.makedirs(self.path("board", "one"))
        self.write(self.path("board", "one"), "mine.txt", "")
        for words, expected in (((run,), "board/one: exists, and holds more than TensorBoard's events"),
                                ((run, self.run_folder("a/one")), "two runs are called one")):
            done = self.convert(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(expected, done.stderr)
        self.assertEqual(os.listdir(self.path("board", "one")), ["mine.txt"])
        self.write(self.folder, "file", "")
        done = self.tool("dlrm.runs.tensorboard", run, "--output", self.path("file"))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("file/one: cannot be written: Not a directory", done.stderr)

    def test_without_tensorboardx_names_the_package(self):
        self.write(self.folder, "tensorboardX.py", "raise ModuleNotFoundError(name='tensorboardX')\n")
        done = self.convert(self.run_folder("one"))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("has no tensorboardX: install it with launch/install_deps.sh python", done.stderr)

    def test_is_written_by_the_real_package(self):
        done = self.tool("dlrm.runs.tensorboard", self.run_folder("one"), "--output", self.path("board"))
        if "has no tensorboardX" in done.stderr:
            self.skipTest("tensorboardX is not installed")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        name, = os.listdir(self.path("board", "one"))
        with open(self.path("board", "one", name), "rb") as file:
            content = file.read()
        for tag in (b"train/loss", b"eval/auc", b"train.dense_optimizer.lr"):
            self.assertIn(tag, content)


if __name__ == "__main__":
    unittest.main()
