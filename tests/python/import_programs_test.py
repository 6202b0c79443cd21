#!/usr/bin/env python3
"""`dlrm-data import` beside `dlrm-data criteo`, and dlrm-train on what it makes.
import_programs_test.py PATH/TO/dlrm-data PATH/TO/dlrm-train"""
import json
import os
import random
import subprocess
import sys

from dataset_test import content
from import_fixture import ROOT, Importing, main

DATA = TRAIN = ""
CRITEO = """
format: {type: tsv, header: false, columns: [COLUMNS]}
label: label
dense: [DENSE]
sparse: [SPARSE]
"""


def criteo_schema(encoding, split=""):
    dense = ", ".join(f"{{column: I{i}, fill: 0, log: true}}" for i in range(1, 14))
    sparse = ", ".join(f"{{column: C{i}, {encoding}, values: hex}}" for i in range(1, 27))
    columns = ", ".join(["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)])
    return CRITEO.replace("COLUMNS", columns).replace("DENSE", dense).replace("SPARSE", sparse) + split


class Programs(Importing):
    def start(self, *command, **environment):
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.folder, env={
            "OMP_WAIT_POLICY": "passive", **os.environ, "OMP_NUM_THREADS": "1", "DLRM_PYTHON": sys.executable,
            **environment})

    def succeed(self, *command):
        done = self.start(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Criteo(Programs):
    def log(self):
        """200 lines that users have, or as many that are made."""
        shared = os.path.join(os.path.dirname(ROOT), "shared", "data", "criteo_200.tsv")
        if os.path.exists(shared):
            return shared
        self.succeed(DATA, "synth", "--criteo", "--samples", "200", "--output", self.path("log.tsv"))
        return self.path("log.tsv")

    def compare(self, log, options, encoding, split="", *files):
        self.write("s.yaml", criteo_schema(encoding, split))
        test = ["--test-output", "a.h5", "--test-fraction", "0.3"] if split else []
        self.succeed(DATA, "criteo", log, "--output", "theirs.h5", *options, *test)
        test = ["--test-output", "b.h5"] if split else []
        self.succeed(DATA, "import", "s.yaml", log, "--output", "ours.h5", *files, *test)
        pairs = [("theirs.h5", "ours.h5")] + ([("a.h5", "b.h5")] if split else [])
        for theirs, ours in pairs:
            self.assertTrue(content(self.path(theirs)) == content(self.path(ours)), (options, ours))
            self.succeed(DATA, "inspect", ours)

    def test_logs_become_equal_datasets(self):
        large = self.path("large.tsv")
        self.succeed(DATA, "synth", "--criteo", "--samples", "20000", "--output", large)
        for log in (self.log(), large):
            self.compare(log, ["--max-rows", "1000"], "hash: 1000")
            self.compare(log, ["--dictionary", "d.h5"], "dictionary: {}")
            self.compare(log, ["--frequency-threshold", "3"], "dictionary: {threshold: 3}", "split: {fraction: 0.3}")
            os.unlink(self.path("d.h5"))

    def test_lines_that_one_refuses_the_other_does(self):
        with open(self.log(), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for place, value in ((0, "2"), (0, ""), (3, "x"), (20, "xyz"), (20, "123456789"), (5, "inf"), (9, "1.5.2")):
            fields = lines[7].split("\t")
            fields[place] = value
            log = self.write("bad.tsv", "\n".join(lines[:7] + ["\t".join(fields)] + lines[8:]) + "\n")
            self.write("s.yaml", criteo_schema("hash: 9"))
            theirs = self.start(DATA, "criteo", log, "--output", "t.h5", "--max-rows", "9")
            ours = self.start(DATA, "import", "s.yaml", log, "--output", "o.h5")
            self.assertEqual((theirs.returncode, ours.returncode), (2, 2))
            self.assertIn("bad.tsv:8: ", theirs.stderr)
            self.assertIn("bad.tsv:8: ", ours.stderr)
            self.compare(log, ["--max-rows", "9", "--skip-malformed"], "hash: 9", "", "--skip-malformed")


class Training(Programs):
    def test_learns_from_a_log_that_was_imported(self):
        r = random.Random(5)
        rows = []
        for _ in range(8000):
            user, tags = r.randrange(20), r.randrange(4)
            rows.append({"click": (user + tags) % 2, "age": r.random() * 70, "user": f"user {user}",
                         "tags": ["a", "b", "c"][:tags]})
        self.write("log.json", "".join(json.dumps(row) + "\n" for row in rows))
        self.succeed(DATA, "import", "mine.yaml", "log.json", "--infer")
        with open(self.path("mine.yaml"), "a", encoding="utf-8") as file:
            file.write("split: {fraction: 0.2}\n")
        said = self.succeed(DATA, "import", "mine.yaml", "log.json", "--output", "train.h5", "--test-output",
                            "test.h5", "--write-config", "config.yaml")
        self.assertIn("train.h5: 6400 rows\ntest.h5: 1600 rows\n", said)
        self.succeed(TRAIN, "config.yaml", "--set", "train.global_batch_size=64", "--set", "train.epochs=4")
        table = self.succeed(sys.executable, "-m", "dlrm.runs.compare", "runs/config")
        self.assertGreater(float(table.splitlines()[1].split()[2]), 0.95, table)

    def test_learns_two_labels_of_which_records_lack_some(self):
        r = random.Random(6)
        lines = ["user,item,click,stars"]
        for _ in range(8000):
            user, item = r.randrange(20), r.randrange(10)
            stars = "" if r.random() < 0.3 else 1 + 2 * (item % 3)
            lines.append(f"{user},{item},{(user + item) % 2},{stars}")
        log = self.write("log.csv", "\n".join(lines) + "\n")
        self.write("mine.yaml", "{label: [click, {column: stars, task: liked, above: 3}], sparse: [user, item], "
                                "split: {fraction: 0.2}}")
        self.succeed(DATA, "import", "mine.yaml", log, "--output", "train.h5", "--test-output", "test.h5",
                     "--write-config", "config.yaml")
        self.succeed(DATA, "inspect", "train.h5")
        self.succeed(TRAIN, "config.yaml", "--set", "train.global_batch_size=64", "--set", "train.epochs=4")
        with open(self.path("runs/config/summary.json"), encoding="utf-8") as file:
            tasks = json.load(file)["eval"]["tasks"]
        for task in ("click", "liked"):
            self.assertGreater(tasks[task]["auc"], 0.95, tasks)


class Starting(Programs):
    def test_takes_the_python_of_the_sources_before_that_of_path(self):
        self.write("python3", "#!/bin/sh\necho python3 of PATH \"$@\"\n")
        os.chmod(self.path("python3"), 0o755)
        path = f"{self.folder}:{os.environ['PATH']}"
        there = os.path.exists(os.path.join(ROOT, "build", "venv", "bin", "python3"))
        for command, module in (("import", "dlrm.importing"), ("export", "dlrm.model.export")):
            done = self.start(DATA, command, "--help", DLRM_PYTHON="", PATH=path)
            expected = r"usage: |error: .*build/venv/bin/python3" if there else rf"python3 of PATH -m {module} --help\n"
            self.assertRegex(done.stdout + done.stderr, rf"\A({expected})")
            done = self.start(DATA, command, "--help", DLRM_PYTHON=self.path("python3"))
            self.assertEqual(done.stdout, f"python3 of PATH -m {module} --help\n")

    def test_says_what_is_missing(self):
        done = self.start(DATA, "import", "x", DLRM_PYTHON="/nowhere/python3")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("error: cannot start /nowhere/python3: No such file", done.stderr)
        self.write("pyarrow.py", "raise ImportError('broken')")
        done = self.start(DATA, "import", "x", PYTHONPATH=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^error: .* has no pyarrow \(broken\): install it with launch/install_deps.sh python")
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_passes_on_options_and_exit_codes(self):
        self.assertIn("usage: dlrm-data import", self.succeed(DATA, "import", "--help"))
        done = self.start(DATA, "import", "s.yaml", "none.csv", "--output", "o.h5")
        self.assertEqual((done.returncode, done.stderr), (2, "error: none.csv: no such file\n"))


if __name__ == "__main__":
    DATA, TRAIN = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    main()
