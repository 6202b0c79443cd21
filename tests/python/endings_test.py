#!/usr/bin/env python3
"""Python programs end with one error line and exit code 2 for bad input, or 3 for a failure."""
import contextlib
import errno
import glob
import io
import os
import subprocess
import sys
import tempfile
import unittest

import dlrm
from dlrm.endings import Refused, exit_code

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(dlrm.__file__)))


def programs():
    """The modules that `python3 -m` runs."""
    for path in sorted(glob.glob(os.path.join(PACKAGES, "dlrm", "**", "*.py"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            if "\nif __name__ ==" in file.read():
                yield os.path.relpath(path, PACKAGES)[:-len(".py")].replace(os.sep, ".")


class Endings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def check(self, program, *words, code=2, missing=None):
        """`missing`: a module that cannot be imported."""
        paths = [self.folder, PACKAGES]
        if missing:
            paths.insert(0, os.path.join(self.folder, "without_" + missing))
            os.makedirs(paths[0], exist_ok=True)
            self.write(f"without_{missing}/{missing}.py", f"raise ModuleNotFoundError('none', name='{missing}')\n")
        done = subprocess.run([sys.executable, "-m", program, *words], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, timeout=120)
        with self.subTest(program=program, words=words, output=done.stdout + done.stderr):
            self.assertEqual(done.returncode, code)
            self.assertRegex(done.stderr, r"\Aerror: [^\n]+\n\Z")
        return done.stderr

    def test_every_program_names_an_unknown_option(self):
        found = list(programs())
        self.assertGreater(len(found), 8)
        for program in found:
            error = self.check(program, "--nonsense")
            self.assertTrue("--nonsense" in error or "required" in error or " has no " in error or "is missing" in error, error)

    def test_what_is_no_result_of_a_benchmark_is_named(self):
        self.write("text.json", "no JSON\n")
        self.write("other.json", '{"device": "cpu"}\n')
        self.write("list.json", "[[1]]\n")
        self.write("prices.yaml", "currency: EUR\nper_hour: {other.json: 1, list.json: 1, text.json: 1}\n")
        for name in ("none.json", "text.json", "other.json", "list.json"):
            for kind in ("batch-sweep", "cache", "feeding"):
                self.check("dlrm.plot", kind, name, "--output", "o.svg")
            self.check("dlrm.bench.advise", name, "--prices", "prices.yaml")
        self.assertNotIn("o.svg", os.listdir(self.folder))

    def test_what_is_no_run_is_named(self):
        os.mkdir(os.path.join(self.folder, "run"))
        for text in (None, "no JSON\n", "[1]\n"):
            if text:
                self.write("run/metrics.jsonl", text)
            self.assertIn("run", self.check("dlrm.plot", "run", "run", "--output", "o.svg"))
            self.assertIn("run", self.check("dlrm.runs.compare", "run"))
            self.check("dlrm.runs.tensorboard", "run")

    def test_a_missing_package_is_named(self):
        for program, words in (("dlrm.model.import_weights", ["a.npz", "b", "c"]),
                               ("dlrm.model.export", ["a", "--to", "npz", "b.npz"])):
            self.assertIn("h5py", self.check(program, *words, missing="h5py"))

    def test_no_subpackage_needs_pytorch_or_the_binding(self):
        modules = [os.path.relpath(path, PACKAGES)[:-len("/__init__.py")].replace(os.sep, ".")
                   for path in glob.glob(os.path.join(PACKAGES, "dlrm", "*", "__init__.py"))]
        self.assertIn("dlrm.dataset", modules)
        done = subprocess.run([sys.executable, "-c", "import sys; sys.modules.update(dict.fromkeys(['torch', 'dlrm._dlrm']))\n"
                               f"import {', '.join(modules)}"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_missing_binding_is_named(self):
        done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['dlrm._dlrm'] = None\nimport dlrm\ndlrm.Dataset"],
                              capture_output=True, text=True, check=False)
        self.assertRegex(done.stderr, r"ImportError: dlrm.Dataset needs the compiled part .*pip install")

    def test_a_missing_torch_is_named(self):
        try:
            import h5py, numpy, yaml  # noqa
        except ImportError:
            self.skipTest("needs NumPy, h5py and PyYAML")
        self.write("weights.pt", "weights")
        self.assertIn("torch", self.check("dlrm.model.import_weights", "weights.pt", "initial", "imported", missing="torch"))
        self.assertIn("torch", self.check("dlrm.model.export", "initial", "--to", "torch", "m.py", missing="torch"))

    def test_codes_tell_bad_input_from_failures(self):
        def ends(error):
            def function():
                raise error
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                code = exit_code(function)
            self.assertRegex(said.getvalue(), r"\Aerror: [^\n]+\n\Z")
            return code

        self.assertEqual(ends(Refused("a\nb")), 2)
        self.assertEqual(ends(FileNotFoundError(errno.ENOENT, "none", "x")), 2)
        self.assertEqual(ends(OSError(errno.ENOSPC, "full", "x")), 3)
        self.assertEqual(ends(KeyError("x")), 3)
        self.assertEqual(ends(MemoryError()), 3)


if __name__ == "__main__":
    unittest.main()
