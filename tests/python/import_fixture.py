"""What the tests of `dlrm-data import` share. Without pyarrow they are skipped, with a message."""
import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest

from dlrm.dataset import Dataset

try:
    import pyarrow
    import yaml
    ABSENT = None
except ImportError as error:
    pyarrow = yaml = None
    ABSENT = f"{error.name or error} is missing (launch/install_deps.sh python)"

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@unittest.skipIf(ABSENT, ABSENT)
class Importing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def run_import(self, schema, inputs, *options):
        """(exit code, output, error). `schema` is YAML."""
        from dlrm.importing.command import main
        self.write("schema.yaml", schema)
        inputs = [inputs] if isinstance(inputs, str) else inputs
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([self.path("schema.yaml"), *inputs, "--output", self.path("out.h5"), *options])
        return code, out.getvalue(), err.getvalue()

    def imported(self, schema, inputs, *options):
        code, said, error = self.run_import(schema, inputs, *options)
        self.warnings = [line for line in error.splitlines() if line.startswith("warning: ")]
        self.assertEqual((code, error.splitlines()), (0, self.warnings))
        self.said = said
        return Dataset(self.path("out.h5"))[:]

    def assert_refused(self, expected, schema, inputs, *options):
        before = self.datasets()
        code, said, error = self.run_import(schema, inputs, *options)
        self.assertEqual((code, said), (2, ""), error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn(expected, error)
        self.assertTrue(error.startswith("error: "))
        self.assertEqual(self.datasets(), before)

    def datasets(self):
        return {name: os.stat(self.path(name)).st_mtime_ns for name in os.listdir(self.folder) if ".h5" in name}

    def lists(self, bags):
        return [bags.ids[a:b].tolist() for a, b in zip(bags.offsets, bags.offsets[1:])]


def main():
    """Runs the tests, with the reasons of those that are skipped."""
    result = unittest.main(exit=False).result
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"skipped: {reason}")
    if result.wasSuccessful() and result.testsRun and len(result.skipped) >= result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
