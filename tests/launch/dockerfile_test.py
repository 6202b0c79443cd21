#!/usr/bin/env python3
"""launch/Dockerfile, without Docker: what it names exists."""
import json
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Dockerfile(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "launch", "Dockerfile"), encoding="utf-8") as file:
            text = file.read()
        self.text = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ")
        with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
            self.presets = {preset["name"] for preset in json.load(file)["buildPresets"]}

    def test_scripts_and_folders_are_in_the_tree(self):
        scripts = re.findall(r"launch/\S+\.sh", self.text)
        self.assertEqual(scripts, ["launch/install_deps.sh", "launch/build.sh"])
        for path in scripts:
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)

    def test_each_base_is_a_preset(self):
        bases = re.findall(r"FROM \S+ AS base-(\S+)", self.text)
        self.assertEqual(bases, ["cpu", "cuda"])
        self.assertLessEqual(set(bases), self.presets)
        self.assertIn(re.search(r"ARG PRESET=(\S+)", self.text).group(1), bases)

    def test_every_line_is_an_instruction(self):
        known = ("ADD", "ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR")
        for line in filter(None, self.text.split("\n")):
            self.assertIn(line.split()[0], known)


if __name__ == "__main__":
    unittest.main()
