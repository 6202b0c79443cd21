"""Tests that compare what they find with a JSON file, which --update writes anew."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

UPDATE = "--update" in sys.argv
if UPDATE:
    sys.argv.remove("--update")


class Pinned(unittest.TestCase):
    """`expected` names the file, `known` is what it holds. `folder` is removed after the tests."""
    maxDiff = None
    expected = ""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.known = folder.name, {}
        if os.path.exists(cls.expected):
            with open(cls.expected, encoding="utf-8") as file:
                cls.known = json.load(file)

    @classmethod
    def tearDownClass(cls):
        if UPDATE:
            with open(cls.expected, "w", encoding="utf-8") as file:
                file.write(cls.text(cls.known))

    @staticmethod
    def text(known):
        return json.dumps(known, indent=1, sort_keys=True) + "\n"

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def preload(cls, source, *options):
        """Compiles a library that a program can be started with."""
        path = cls.path("preload.so")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", *options, "-o", path, source, "-ldl"], check=True)
        return path
