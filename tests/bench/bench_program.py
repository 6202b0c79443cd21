"""Runs dlrm-bench, for the tests of its commands: TEST.py PATH/TO/dlrm-bench"""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TINY = os.path.join(HERE, "tiny.yaml")
program = ""


def main():
    global program
    program = sys.argv.pop(1)
    unittest.main()


def bench(*words):
    return subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
