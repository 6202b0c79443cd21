#!/usr/bin/env python3
"""Lets each file operation of a program fail in turn, and compares all endings with failing_files.json: the exit code,
the last line, and the files that are left.

    failing_files_test.py FOLDER/OF/PROGRAMS [--update]

storm/faults.c lets the operations fail. Which of them come first may depend on threads, so the set of endings is
compared. If an operation changes its place between two runs, it may fail in none of them. Therefore all fail once more
if endings are missing. With --update the file is written anew."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from counted_calls_test import BASE
from pinned import UPDATE, Pinned

HERE = os.path.dirname(os.path.abspath(__file__))
MOST = 400  # operations
ROUNDS = 3  # in which each fails
TRAIN = ["dlrm-train", "config.yaml"] + [word for key in (
    "train.threads=1", "data.workers=0", "data.source=synthetic", "data.test=", "eval.at_end=false",
    "checkpoint.at_end=true") for word in ("--set", key)]


class FailingFiles(Pinned):
    expected = os.path.join(HERE, "failing_files.json")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shim = cls.preload(os.path.join(os.path.dirname(HERE), "storm/faults.c"))
        os.mkdir(cls.path("first"))
        with open(os.path.join(HERE, "small_model.yaml"), encoding="utf-8") as model, \
                open(cls.path("first/config.yaml"), "w", encoding="utf-8") as config:
            config.write(model.read() + BASE)
        for name, samples in (("train.h5", "300"), ("test.h5", "70")):
            cls.run_program("first", ["dlrm-data", "synth", "--config", "config.yaml", "--samples", samples, "--output",
                                      name])
        with open(cls.path("first/log.tsv"), "w", encoding="utf-8") as file:
            for i in range(60):
                numbers = [str(i % (n + 2)) for n in range(13)]
                file.write("\t".join([str(i % 2), *numbers, *(f"{i * (c + 1) % 97:08x}" for c in range(26))]) + "\n")

    @classmethod
    def run_program(cls, folder, command, at=0):
        """The exit code and the last line that is no report of a step. `at`: the operation that fails."""
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        if at:
            environment.update(LD_PRELOAD=cls.shim, DLRM_FAULT_MARK=cls.path("mark"),
                               DLRM_FAULTS=f"folder={cls.path(folder)} seed=1 at={at}")
        done = subprocess.run([os.path.join(bin_folder, command[0]), *command[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=cls.path(folder), env=environment, timeout=120)
        if not at and done.returncode:
            raise AssertionError(done.stderr)
        lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in done.stderr.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith(("error:", "warning:"))] or lines[-1:] or [""]
        return done.returncode, " | ".join(wrong)

    @classmethod
    def masked(cls, text):
        for pattern, to in [(re.escape(cls.folder) + r"/\w+", "FOLDER"),
                            (r"\.[0-9a-f]{8}\.tmp", ".TEMPORARY"), (r"[\d.]+ s\b", "TIME"), (r"on host \S+", "on HOST"),
                            (r"[\d.]+[kM]? samples/s", "RATE"), (r"[\d.]+ ms a step", "TIME"), (r"0x[0-9a-f]+|\b[0-9a-f]{8}\b", "NUMBER"),
                            (r"\b\d{4,}\b", "N")]:
            text = re.sub(pattern, to, text)
        return text

    def files(self, folder):
        found = [os.path.relpath(os.path.join(here, name), self.path(folder))
                 for here, _, names in os.walk(self.path(folder)) for name in names]
        return " ".join(sorted({self.masked(name) for name in found}))

    def fail_each(self, command):
        """How the program ends if an operation fails, and the files that it leaves, for each operation in turn."""
        mark = self.path("mark")
        for at in range(1, MOST):
            shutil.rmtree(self.path("now"), ignore_errors=True)
            shutil.copytree(self.path("first"), self.path("now"))
            code, line = self.run_program("now", command, at)
            if not os.path.exists(mark):  # there are not so many operations
                return
            os.remove(mark)
            self.assertIn(code, (0, 2, 3), f"operation {at}: {line}")
            yield f"{code}: {self.masked(line)}", self.files("now")
        self.fail(f"more than {MOST} operations")

    def check(self, name, command, before=()):
        """`before`: commands that make what the program reads."""
        for made in ("ckpt", "run"):
            shutil.rmtree(self.path("first/" + made), ignore_errors=True)
        for made in before:
            self.run_program("first", made)
        endings = {}
        for _ in range(ROUNDS):
            for ending, files in self.fail_each(command):
                endings.setdefault(ending, files)
            if UPDATE or endings.keys() >= self.known[name].keys():
                break
        if UPDATE:
            self.known[name] = endings
        else:
            self.assertEqual(sorted(endings.items()), sorted(self.known[name].items()))

    def test_training(self):
        self.check("training", [*TRAIN, "--set", "train.steps=3"])

    def test_resuming(self):
        self.check("resuming", [*TRAIN, "--set", "train.steps=3", "--resume"], [[*TRAIN, "--set", "train.steps=2"]])

    def test_saving_again(self):
        """Each save removes the checkpoint before it."""
        self.check("saving again", [*TRAIN, "--set", "train.steps=3", "--set", "checkpoint.every_steps=1", "--set",
                                    "checkpoint.keep=1"])

    def test_data(self):
        self.check("synth", ["dlrm-data", "synth", "--config", "config.yaml", "--samples", "40", "--output", "drawn.h5"])
        self.check("criteo", ["dlrm-data", "criteo", "log.tsv", "--output", "log.h5", "--dictionary", "d.h5"])
        self.check("shuffle", ["dlrm-data", "shuffle", "train.h5", "--output", "shuffled.h5"])
        self.check("plan", ["dlrm-plan", "config.yaml", "--ranks", "2", "--output", "plan.json"])


if __name__ == "__main__":
    bin_folder = os.path.abspath(sys.argv.pop(1))
    unittest.main()
