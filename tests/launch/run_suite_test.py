#!/usr/bin/env python3
"""tests/run_suite.py and tests/report.py, with a stand-in for a GoogleTest program."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = f"#!{sys.executable}\n" + '''
import os, sys, time
names = ["A.One", "A.Two", "A.Three", "B/C.Four/0"]
if sys.argv[1] == "--gtest_list_tests":
    sys.exit(print("A.\\n  One\\n  Two\\n  Three\\n  DISABLED_Old\\nB/C.\\n  Four/0  # GetParam() = 1"))
chosen = open(sys.argv[1].split("=")[1]).readline().strip().split("=")[1].split(":")
bad = 0
for name in names:
    if name not in chosen:
        continue
    print("[ RUN      ]", name, flush=True)
    does = os.environ.get(name.split(".")[1].split("/")[0], "")
    if does == "crashes":
        print("before the end", flush=True)
        os.abort()
    if does == "hangs":
        time.sleep(60)
    if does == "is skipped":
        print("a_test.cpp:7: Skipped\\nno GPU here\\n")
    bad += does == "fails"
    word = {"fails": "[  FAILED  ]", "is skipped": "[  SKIPPED ]"}.get(does, "[       OK ]")
    print(word, name + (", where GetParam() = 1" if "/" in name and does else "") + " (1000 ms)", flush=True)
sys.exit(int(os.environ.get("EXIT", bool(bad))))
'''


class RunSuite(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = os.path.join(self.folder.name, "program_test")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chmod(self.program, 0o755)
        self.path = os.path.join(self.folder.name, "ctest.suites", "program.1.json")

    def run_suite(self, *arguments, **does):
        done = subprocess.run([sys.executable, os.path.join(TESTS, "run_suite.py"), self.program, self.path, *arguments],
                              env={**os.environ, **does}, capture_output=True, text=True, check=False)
        with open(self.path, encoding="utf-8") as file:
            results = {name: result["status"] for name, result in json.load(file).items()}
        return done, results

    def expect(self, statuses, code, **does):
        done, results = self.run_suite(**does)
        self.assertEqual(results, dict(zip(["A.One", "A.Two", "A.Three", "B/C.Four/0"], statuses)), done.stdout + done.stderr)
        self.assertEqual(done.returncode, code)
        return done.stdout

    def test_all_pass(self):
        self.expect(["ok"] * 4, 0)

    def test_shares_divide_the_tests(self):
        self.assertEqual(set(self.run_suite("0", "2")[1]), {"A.One", "A.Three"})
        self.assertEqual(set(self.run_suite("1", "2")[1]), {"A.Two", "B/C.Four/0"})

    def test_failures_are_named(self):
        self.assertIn("[  FAILED  ] B/C.Four/0", self.expect(["ok", "failed", "ok", "failed"], 1, Two="fails", Four="fails"))

    def test_a_crash_does_not_hide_the_other_tests(self):
        text = self.expect(["ok", "failed", "ok", "failed"], 1, Two="crashes", Four="crashes")
        self.assertIn("before the end\nended the program with status -6", text)

    def test_a_test_that_hangs_does_not_hide_the_other_tests(self):
        self.assertIn("took longer than 1 s", self.expect(["ok", "failed", "ok", "ok"], 1, Two="hangs", DLRM_TEST_LIMIT="1"))

    def test_an_exit_status_after_the_last_test_is_a_failure(self):
        self.assertIn("ended with status 3", self.expect(["ok", "ok", "ok", "failed"], 1, EXIT="3"))

    def test_the_report_counts_tests_and_lists_skipped_ones_with_their_reason(self):
        self.expect(["ok", "skipped", "failed", "ok"], 1, Two="is skipped", Three="fails")
        log = os.path.join(self.folder.name, "ctest.xml")
        with open(log, "w", encoding="utf-8") as file:
            file.write('<testsuite><testcase name="program.1" time="2.5" status="fail"/>'
                       '<testcase name="style.a" time="1" status="run"/><testcase name="style.b" status="fail"/>'
                       '<testcase name="c" status="notrun"><system-out>skipped: needs root\n</system-out></testcase></testsuite>')
        text = subprocess.run([sys.executable, os.path.join(TESTS, "report.py"), log], capture_output=True, text=True,
                              check=True).stdout
        self.assertRegex(text, r"program +2\.5 s +2 passed, 1 failed, 1 skipped")
        self.assertRegex(text, r"style +1\.0 s +1 passed, 1 failed, 0 skipped")
        self.assertRegex(text, r"no GPU here\n +\S+: A\.Two\n")
        self.assertRegex(text, r"needs root\n +\S+: c\n")
        self.assertEqual(text.splitlines()[-1], "3 2 2")


if __name__ == "__main__":
    unittest.main()
