#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md in their order. tutorial_test.py FOLDER_OF_PROGRAMS"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ""


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tutorial(unittest.TestCase):
    def test_its_commands_train_and_serve_a_model(self):
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        with open(os.path.join(ROOT, "docs/tutorial.md"), encoding="utf-8") as file:
            text = file.read()
        scripts, commands = blocks(text, "python"), blocks(text, "sh")
        self.assertEqual((len(scripts), len(commands)), (1, 6))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "clicks.py"), "w", encoding="utf-8") as file:
            file.write(scripts[0])
        script = "set -em\npython3() { " + sys.executable + ' "$@"; }\n' + "echo ==\n".join(commands)
        done = subprocess.run(
            ["bash", "-c", script.replace("8080", str(free_port()))], cwd=folder.name, text=True, timeout=300,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, DLRM=ROOT, PATH=PROGRAMS + ":" + os.environ["PATH"], DLRM_TRAIN=os.path.join(PROGRAMS, "dlrm-train"),
                     DLRM_PYTHON=sys.executable, OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stdout)
        told = float(re.search(r"test AUC (0\.\d+)", text).group(1))
        parts = done.stdout.split("==\n")
        for part in parts[1:4]:  # one rank, two ranks, and predictions of the second run's model
            self.assertAlmostEqual(float(re.search(r"test AUC (0\.\d+)", part).group(1)), told, delta=0.003, msg=part)
        self.assertRegex(parts[3], r"sample,label,probability\n0,[01],0\.\d+")
        self.assertTrue(os.path.exists(os.path.join(folder.name, "model.npz")))
        self.assertRegex(parts[5], r'\{"probabilities": \[0\.\d+\]\}')


if __name__ == "__main__":
    PROGRAMS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
