"""Runs programs with wrong input, for the tests of their errors: TEST.py FOLDER/OF/PROGRAMS [--update]"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import unittest

from counted_calls_test import BASE
from pinned import UPDATE, Pinned

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
bin_folder = ""


def main():
    global bin_folder
    bin_folder = os.path.abspath(sys.argv.pop(1))
    unittest.main()


def program(name):
    return os.path.join(bin_folder, name)


class Provoking(Pinned):
    expected = os.path.join(HERE, "provoked_errors.json")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(HERE, "small_model.yaml"), encoding="utf-8") as model:
            cls.config = model.read() + BASE
        cls.write("config.yaml", cls.config)
        for command in ("dlrm-data synth --config config.yaml --samples 70 --output train.h5",
                        "dlrm-data synth --config config.yaml --samples 70 --output test.h5",
                        "dlrm-plan config.yaml --ranks 2 --output plan.json",
                        "dlrm-train config.yaml --set train.steps=2 --set checkpoint.at_end=true --set data.test= "
                        "--set eval.at_end=false --set train.threads=1"):
            code, text = cls.run_program(command)
            if code:
                raise AssertionError(text)
        cls.checkpoint = "ckpt/step_000000002"
        cls.rank_file_bytes = os.path.getsize(cls.path(cls.checkpoint + "/rank_00000.h5"))

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    @classmethod
    def run_program(cls, command, given="", folder=""):
        name, *words = command.split() if isinstance(command, str) else command
        done = subprocess.run([program(name), *words], input=given, capture_output=True, text=True,
                              cwd=cls.path(folder), timeout=120, env=dict(os.environ, OMP_NUM_THREADS="1"))
        return done.returncode, done.stderr

    @classmethod
    def masked(cls, text):
        """The errors and warnings, without what differs among machines."""
        lines = text.splitlines()
        text = "\n".join([line for line in lines if line.startswith(("error:", "warning:"))] or lines)
        for pattern, to in [(re.escape(cls.folder), "FOLDER"), (re.escape(ROOT), "ROOT"), (r"on host \S+", "on HOST"),
                            (r"CRC32C [0-9a-f]{8}\b", "CRC32C A"), (r"should be [0-9a-f]{8}\b", "should be B"),
                            (r"\.[0-9a-f]{8}\.tmp", ".TEMPORARY"), (rf"\b{cls.rank_file_bytes}\b", "SIZE")]:
            text = re.sub(pattern, to, text)
        return text

    def check(self, group, cases):
        """`cases`: a command by its name, or a pair of a function that makes its input, and the command."""
        found = {}
        alone = [name for name, command in cases.items() if not isinstance(command, tuple)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            done = dict(zip(alone, pool.map(lambda name: self.run_program(cases[name]), alone)))
        for name, command in cases.items():
            if isinstance(command, tuple):
                make, command = command
                make()
                done[name] = self.run_program(command)
            code, text = done[name]
            self.assertIn(code, (2, 3), f"{group}: {name}: {text}")
            found[name] = f"{code}: {self.masked(text)}"
        self.compare(group, found)

    def compare(self, group, found):
        """`found`: what is in the file, by name."""
        if UPDATE:
            self.known[group] = found
        else:
            known = self.known[group]
            other = [name for name in {**known, **found} if known.get(name) != found.get(name)]
            self.assertEqual({name: found.get(name) for name in other}, {name: known.get(name) for name in other}, group)
