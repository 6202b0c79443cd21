#!/usr/bin/env python3
"""Python programs end with one error line and exit code 2 for bad input, or 3 for a failure."""
import contextlib
import errno
import glob
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "data_tools"))
from endings import Refused, exit_code


def programs():
    for path in sorted(glob.glob(os.path.join(ROOT, "data_tools", "*.py")) + glob.glob(os.path.join(ROOT, "launch", "*.py"))):
        with open(path, encoding="utf-8") as file:
            if "\nif __name__ ==" in file.read():
                yield path


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
        paths = [self.folder]
        if missing:
            paths.insert(0, os.path.join(self.folder, "without_" + missing))
            os.makedirs(paths[0], exist_ok=True)
            self.write(f"without_{missing}/{missing}.py", f"raise ModuleNotFoundError('none', name='{missing}')\n")
        if not os.path.dirname(program):
            program = os.path.join(ROOT, "data_tools", program)
        done = subprocess.run([sys.executable, program, *words], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, timeout=120)
        with self.subTest(program=program, words=words, output=done.stdout + done.stderr):
            self.assertEqual(done.returncode, code)
            self.assertRegex(done.stderr, r"\Aerror: [^\n]+\n\Z")
        return done.stderr

    def test_every_program_names_an_unknown_option(self):
        found = list(programs())
        self.assertGreater(len(found), 10)
        for program in found:
            error = self.check(program, "--nonsense")
            self.assertTrue("--nonsense" in error or "required" in error or " has no " in error or "is missing" in error, error)

    def test_what_is_no_result_of_a_benchmark_is_named(self):
        self.write("text.json", "no JSON\n")
        self.write("other.json", '{"device": "cpu"}\n')
        self.write("list.json", "[[1]]\n")
        self.write("prices.yaml", "currency: EUR\nper_hour: {other.json: 1, list.json: 1, text.json: 1}\n")
        for name in ("none.json", "text.json", "other.json", "list.json"):
            for program in ("plot_batch_sweep.py", "plot_cache.py", "plot_feeding.py"):
                self.check(program, name, "--output", "o.svg")
            self.check("advise.py", name, "--prices", "prices.yaml")
        self.assertNotIn("o.svg", os.listdir(self.folder))

    def test_what_is_no_run_is_named(self):
        os.mkdir(os.path.join(self.folder, "run"))
        for text in (None, "no JSON\n", "[1]\n"):
            if text:
                self.write("run/metrics.jsonl", text)
            self.assertIn("run", self.check("plot_run.py", "run", "--output", "o.svg"))
            self.assertIn("run", self.check("compare_runs.py", "run"))
            self.check("to_tensorboard.py", "run")

    def test_a_missing_package_is_named(self):
        for program, words in (("import_model.py", ["a.npz", "b", "c"]), ("export_model.py", ["a", "--to", "npz", "b.npz"])):
            self.assertIn("h5py", self.check(program, *words, missing="h5py"))

    def test_a_missing_package_is_looked_for_in_the_environment_of_the_sources(self):
        os.makedirs(os.path.join(self.folder, "data_tools"))
        shutil.copy(os.path.join(ROOT, "data_tools", "endings.py"), os.path.join(self.folder, "data_tools"))
        self.write("data_tools/program.py", "import sys\nfrom endings import need\nneed('some', found_there='Found')\n"
                   "import found_there\nprint(found_there.WORD, *sys.argv[1:])\n")
        program = os.path.join(self.folder, "data_tools", "program.py")
        self.assertIn("has no Found: install it with launch/install_deps.sh some", self.check(program))
        environment = os.path.join(self.folder, "build", "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        self.check(program)  # which lacks it, too
        (packages,) = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages"))
        with open(os.path.join(packages, "found_there.py"), "w", encoding="utf-8") as file:
            file.write("WORD = 'there'\n")
        without = {name: value for name, value in os.environ.items() if name != "DLRM_PYTHON"}
        done = subprocess.run([sys.executable, program, "a b", "c"], capture_output=True, text=True, env=without)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "there a b c\n", ""))

    def test_a_missing_torch_is_named(self):
        try:
            import h5py, numpy, yaml  # noqa
        except ImportError:
            self.skipTest("needs NumPy, h5py and PyYAML")
        self.write("weights.pt", "weights")
        self.assertIn("torch", self.check("import_model.py", "weights.pt", "initial", "imported", missing="torch"))
        self.assertIn("torch", self.check("export_model.py", "initial", "--to", "torch", "m.py", missing="torch"))

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
