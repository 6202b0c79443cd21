#!/usr/bin/env python3
"""The guarantees of launch/gpu_acceptance.sh: no step loses another's results, and no process is left running."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "launch", "acceptance"))

import report  # noqa: E402
from commands import Failure, Skip, members  # noqa: E402
from proofs import compare, compare_bf16  # noqa: E402
from steps import Session, matches, merged  # noqa: E402
from suites import suite  # noqa: E402

HEAD = {"date": "today", "command": "a", "gpu": "one", "driver": "5", "version": "1", "emulated": False}


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def session(self, seconds=30, **options):
        os.makedirs(os.path.join(self.folder, "bin"), exist_ok=True)
        return Session(ROOT, os.path.join(self.folder, "bin"), self.folder, seconds, **options)

    def program(self, name, body):
        path = os.path.join(self.folder, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + body)
        os.chmod(path, 0o755)

    def record(self):
        with open(os.path.join(self.folder, "record.json"), encoding="utf-8") as file:
            return json.load(file)


def row(what):
    return (what, "1", "", None)


class Steps(InAFolder):
    def test_a_failed_step_keeps_its_rows_and_the_others(self):
        session = self.session()

        def breaks(_):
            yield row("before")
            raise Failure("bad")

        session.step("proof", "one", "One", 5, breaks)
        session.step("proof", "two", "Two", 5, lambda _: [][1])
        session.step("proof", "three", "Three", 5, lambda _: [row("after")])
        self.assertEqual([r["status"] for r in session.records], ["failed", "failed", "passed"])
        self.assertEqual(session.records[0]["rows"][0]["what"], "before")
        self.assertIn("IndexError", session.records[1]["detail"])
        text = report.markdown(HEAD, session.records)
        for words in ("| One | before |", "failed: bad", "| Three | after |"):
            self.assertIn(words, text)

    def test_a_missed_goal_is_below_goal(self):
        session = self.session()
        session.step("benchmark", "one", "One", 5, lambda _: [("a", "1", "2", False)])
        self.assertEqual(session.records[0]["status"], "below goal")

    def test_the_record_is_written_after_each_row(self):
        session = self.session()
        session.changed = lambda: report.write(self.folder, HEAD, session.records, session.facts)
        seen = []

        def body(_):
            yield row("first")
            seen.append(self.record()["steps"][0])
            yield row("second")

        session.step("proof", "one", "One", 5, body)
        self.assertEqual([len(step["rows"]) for step in seen], [1])
        self.assertEqual(seen[0]["status"], "cut short")
        self.assertEqual(self.record()["steps"][0]["status"], "passed")

    def test_without_time_a_step_is_skipped(self):
        session = self.session(seconds=1)
        session.step("proof", "one", "One", 30, lambda _: [row("never")])
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_a_failed_command_s_last_lines_are_kept(self):
        session = self.session()

        def body(s):
            s.run("loud", ["bash", "-c", "echo the reason; exit 3"]).expect_success("loud")

        session.step("proof", "one", "One", 5, body)
        self.assertIn("exit code 3", session.records[0]["detail"])
        self.assertEqual(session.records[0]["log"], ["the reason"])

    def test_what_is_not_installed_is_skipped(self):
        session = self.session()
        session.step("proof", "one", "One", 5, lambda s: [row(str(s.run("none", ["no-such-program-here"])))])
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_names_choose_steps_by_group_key_and_beginning(self):
        self.assertTrue(matches("proof", "proof", "losses-dot"))
        self.assertTrue(matches("losses", "proof", "losses-dot"))
        self.assertFalse(matches("loss", "proof", "losses-dot"))
        session = self.session(wanted=lambda group, key: matches("two", group, key))
        for key in ("one", "two"):
            session.step("proof", key, key, 5, lambda _: [row("x")])
        self.assertEqual([r["key"] for r in session.records], ["two"])


class Commands(InAFolder):
    def test_past_its_limit_a_command_ends_with_all_it_started(self):
        # Job control gives the second one a process group of its own, as mpirun gives its ranks.
        session = self.session()
        pids = os.path.join(self.folder, "pids")

        def body(s):
            run = s.run("slow", ["bash", "-c", f"set -m; sleep 600 & echo $$ >{pids}; trap '' TERM; sleep 600"])
            self.assertTrue(run.timed_out)
            run.expect_success("slow")

        session.step("proof", "one", "One", 3, body)
        self.assertIn("no end within", session.records[0]["detail"])
        with open(pids, encoding="utf-8") as file:
            self.assertEqual(members(int(file.read())), [])

    def test_what_the_session_s_end_cuts_is_skipped_not_failed(self):
        session = self.session(seconds=6)

        def body(s):
            s.end = time.monotonic() + 1
            s.run("slow", ["sleep", "600"]).expect_success("slow")

        session.step("proof", "one", "One", 60, body)
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_a_silent_command_counts_as_hung(self):
        session = self.session()

        def body(s):
            s.run("quiet", ["bash", "-c", "echo begun; sleep 600"], silence=3).expect_success("quiet")

        session.step("proof", "one", "One", 20, body)
        self.assertIn("hung", session.records[0]["detail"])
        self.assertIn("begun", session.records[0]["detail"])

    def test_a_killed_acceptance_leaves_nothing_running(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from commands import run_command\n"
                "run_command(['bash', '-c', 'echo $$; sleep 600'], sys.argv[2], 600, '/', None)\n")
        log = os.path.join(self.folder, "log")
        process = subprocess.Popen([sys.executable, "-c", code, os.path.join(ROOT, "launch/acceptance"), log])
        for _ in range(200):
            time.sleep(0.05)
            if os.path.exists(log) and os.path.getsize(log):
                break
        with open(log, encoding="utf-8") as file:
            child = int(file.read())
        process.send_signal(signal.SIGKILL)
        process.wait()
        for _ in range(100):
            if not os.path.exists(f"/proc/{child}") or child not in members(child):
                return
            time.sleep(0.05)
        self.fail("the command runs on")


class Suites(InAFolder):
    """A stand-in for a GoogleTest program of three tests; the second breaks as told."""

    def run_suite(self, breaking, limit=20, **options):
        session = self.session()
        self.program("ops_test", f"""
flags=$(cat "${{1#--gtest_flagfile=}}")
for test in A.One/0 A.Two/0 A.Three/0; do
  [[ ${{flags#*-}} == *"$test"* ]] && continue
  echo "[ RUN      ] $test"
  if [ $test = A.Two/0 ]; then {breaking}; fi
  echo "[       OK ] $test (0 ms)"
done
""")
        rows = []
        session.step("proof", "one", "One", limit, lambda s: rows.extend(suite(s, "ops_test", "*", **options)) or rows)
        return session.records[0]

    def test_all_good(self):
        record = self.run_suite("true")
        self.assertEqual((record["status"], record["rows"][0]["measured"]), ("passed", "3 passed"))

    def test_a_crash_is_named_and_the_rest_runs(self):
        record = self.run_suite("kill -SEGV $$")
        self.assertEqual(record["status"], "failed")
        self.assertIn("1 failed, 2 passed: A.Two/0", record["detail"])

    def test_a_failure_is_named_and_the_rest_runs_anew(self):
        record = self.run_suite('echo "[  FAILED  ] $test, where GetParam() = 1 (0 ms)"; '
                                'echo "[  FAILED  ] 1 test, listed below:"; exit 1')
        self.assertIn("1 failed, 2 passed: A.Two/0", record["detail"])
        self.assertEqual(len(record["commands"]), 2)

    def test_a_skipped_test_is_neither(self):
        record = self.run_suite('echo "[  SKIPPED ] $test (0 ms)"; continue')
        self.assertEqual((record["status"], record["rows"][0]["measured"]), ("passed", "2 passed"))

    def test_no_tests_at_all_is_a_failure(self):
        session = self.session()
        self.program("ops_test", "exit 0")
        session.step("proof", "one", "One", 5, lambda s: suite(s, "ops_test", "*"))
        self.assertIn("no test of devices", session.records[0]["detail"])

    def test_of_a_partial_suite_what_passed_counts(self):
        record = self.run_suite("sleep 600", limit=4, partial=True)
        self.assertEqual(record["status"], "passed", record["detail"])
        self.assertIn("1 passed when time ended", record["rows"][0]["measured"])


def step(key, status="passed", rows=1):
    return {"group": "proof", "key": key, "name": key, "status": status, "detail": "", "commands": [],
            "rows": [dict(zip(("what", "measured", "goal", "met"), row(status)))] * rows}


class Records(unittest.TestCase):
    def test_newer_steps_count_unless_they_say_nothing(self):
        both = merged([step("a"), step("b")], [step("b", "skipped", 0), step("c")])
        self.assertEqual([(s["key"], s["status"]) for s in both], [("a", "passed"), ("b", "passed"), ("c", "passed")])
        self.assertEqual(merged([step("a")], [step("a", "failed", 0)])[0]["status"], "failed")

    def test_records_of_one_build_are_joined_with_their_facts(self):
        head, steps, facts = report.joined([(HEAD, [step("a")], {"runs": {"x": 1}, "kernels": 1}),
                                            ({**HEAD, "command": "b"}, [step("b")], {"runs": {"y": 2}})])
        self.assertEqual(head["command"], "a; b")
        self.assertEqual([s["key"] for s in steps], ["a", "b"])
        self.assertEqual(facts, {"runs": {"x": 1, "y": 2}, "kernels": 1})

    def test_records_of_unlike_gpus_are_not(self):
        with self.assertRaises(ValueError):
            report.joined([(HEAD, [], {}), ({**HEAD, "gpu": "another"}, [], {})])

    def test_builds_are_told_apart(self):
        self.assertEqual(report.fingerprint("/bin/true"), report.fingerprint("/bin/true"))
        self.assertNotEqual(report.fingerprint("/bin/true"), report.fingerprint("/bin/false"))
        self.assertFalse(report.alike({**HEAD, "program": "1"}, {**HEAD, "program": "2"}))

    def test_a_written_record_reads_as_it_was(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        whole = (HEAD, [step("a")], {"kernels": {"x": 1}})
        report.write(folder, *whole)
        self.assertEqual(report.read(os.path.join(folder, "record.json")), whole)


class Losses(unittest.TestCase):
    def test_fp32_losses_agree_within_the_tolerance(self):
        self.assertTrue(compare("a", [1.0, 2.0], [1.0, 2.00001], 1e-5)[3])
        for mine in ([1.0, 2.1], [1.0], [1.0, float("nan")], []):
            with self.assertRaises(Failure):
                compare("a", mine, [1.0, 2.0], 1e-5)

    def test_bf16_losses_are_no_further_from_fp32_than_the_cpu_s(self):
        wide, cpu = [1.0] * 4, [1.001, 1.01, 0.99, 1.01]
        self.assertTrue(compare_bf16("a", [1.001, 0.99, 1.01, 0.99], cpu, wide)[3])
        for mine in ([1.004, 1.01, 0.99, 1.01], [1.001, 1.03, 1.03, 1.03], [1.001, float("nan"), 1, 1], [1.001]):
            with self.assertRaises(Failure):
                compare_bf16("a", mine, cpu, wide)


class Skipping(InAFolder):
    def test_a_missing_program_is_skipped(self):
        with self.assertRaises(Skip):
            self.session().program("dlrm-train")


if __name__ == "__main__":
    unittest.main()
