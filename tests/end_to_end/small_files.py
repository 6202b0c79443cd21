"""The small model's config, datasets and log, for tests in Python: TEST.py FOLDER/OF/PROGRAMS"""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRAINING = """train:
  global_batch_size: 65
  steps: 20
  threads: 1
  sparse_optimizer: {type: adagrad, lr: 0.05}
eval: {at_end: false}
checkpoint: {directory: ckpt}
output: {directory: run, metrics_every: 1}
"""
LINE = "\t".join(["1"] * 14 + ["0000000a"] * 26) + "\n"  # of a Criteo log
programs = ""


def main():
    global programs
    programs = os.path.abspath(sys.argv.pop(1))
    unittest.main()


class SmallFiles(unittest.TestCase):
    """`folder` holds config.yaml, train.h5, test.h5 and log.tsv. It is removed after the tests."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        with open(os.path.join(HERE, "small_model.yaml"), encoding="utf-8") as file:
            cls.config = file.read() + TRAINING
        cls.write("config.yaml", cls.config)
        cls.write("log.tsv", LINE * 60)
        for name in ("train.h5", "test.h5"):
            cls.made(f"dlrm-data synth --config config.yaml --samples 70 --output {name}")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w" if isinstance(text, str) else "wb") as file:
            file.write(text)

    @classmethod
    def run_program(cls, command, folder=None, **environment):
        """`command`: words, or a text of them. Returns the exit code, stdout and stderr."""
        name, *words = command.split() if isinstance(command, str) else command
        done = subprocess.run([os.path.join(programs, name), *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, cwd=folder or cls.folder, timeout=120,
                              env=dict(os.environ, OMP_NUM_THREADS="1", **environment))
        return done.returncode, done.stdout, done.stderr

    @classmethod
    def made(cls, command, folder=None):
        code, _, errors = cls.run_program(command, folder)
        if code:
            raise AssertionError(f"{command}: {errors}")
