#!/usr/bin/env python3
"""The guarantees of launch/gpu_acceptance.sh: no step loses another's results, and no process is left running."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import archive
import main
import plan
import report
from commands import Failure, Skip, members
from steps import Session, matches
from suites import suite

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HEAD = {"date": "today", "command": "a", "gpu": "one", "emulated": False}


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def session(self, seconds=30, **options):
        os.makedirs(os.path.join(self.folder, "bin"), exist_ok=True)
        return Session(ROOT, os.path.join(self.folder, "bin"), self.folder, seconds, **options)

    def program(self, name, body, folder=None):
        path = os.path.join(folder or self.folder, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
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

        session.step("one", "One", 5, breaks)
        session.step("two", "Two", 5, lambda _: [][1])
        session.step("three", "Three", 5, lambda _: [row("after")])
        self.assertEqual([r["status"] for r in session.records], ["failed", "failed", "passed"])
        self.assertEqual(session.records[0]["rows"][0]["what"], "before")
        self.assertIn("IndexError", session.records[1]["detail"])
        text = report.markdown(HEAD, session.records)
        for words in ("| One | before |", "failed: bad", "| Three | after |"):
            self.assertIn(words, text)

    def test_a_missed_goal_is_below_goal(self):
        session = self.session()
        session.step("one", "One", 5, lambda _: [("a", "1", "2", False)])
        self.assertEqual(session.records[0]["status"], "below goal")

    def test_the_record_is_written_after_each_row(self):
        session = self.session()
        session.changed = lambda: report.write(self.folder, HEAD, session.records, session.facts)
        seen = []

        def body(_):
            yield row("first")
            seen.append(self.record()["steps"][0])
            yield row("second")

        session.step("one", "One", 5, body)
        self.assertEqual([len(step["rows"]) for step in seen], [1])
        self.assertEqual(seen[0]["status"], "cut short")
        self.assertEqual(self.record()["steps"][0]["status"], "passed")

    def test_without_time_a_step_is_skipped(self):
        session = self.session(seconds=1)
        session.step("one", "One", 30, lambda _: [row("never")])
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_a_failed_command_s_last_lines_are_kept(self):
        session = self.session()

        def body(s):
            s.run("loud", ["bash", "-c", "echo the reason; exit 3"]).expect_success("loud")

        session.step("one", "One", 5, body)
        self.assertIn("exit code 3", session.records[0]["detail"])
        self.assertEqual(session.records[0]["log"], ["the reason"])

    def test_what_is_not_installed_is_skipped(self):
        session = self.session()
        session.step("one", "One", 5, lambda s: [row(str(s.run("none", ["no-such-program-here"])))])
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_names_choose_steps_by_key_and_beginning(self):
        self.assertTrue(matches("losses", "losses-dot"))
        self.assertFalse(matches("loss", "losses-dot"))
        session = self.session(wanted=lambda key: matches("two", key))
        for key in ("one", "two"):
            session.step(key, key, 5, lambda _: [row("x")])
        self.assertEqual([r["key"] for r in session.records], ["two"])

    def test_the_steps_of_a_part_share_its_time(self):
        session = self.session()
        with session.part(5):
            session.step("one", "One", 60, lambda s: s.run("one", ["sleep", "600"]).expect_success("one"))
            session.step("two", "Two", 60, lambda _: [row("never")])
        session.step("three", "Three", 60, lambda _: [row("x")])
        self.assertEqual([r["status"] for r in session.records], ["skipped", "skipped", "passed"])
        self.assertLess(sum(r["seconds"] for r in session.records), 20)


class Commands(InAFolder):
    def test_past_its_limit_a_command_ends_with_all_it_started(self):
        # Job control gives the second one a process group of its own, as mpirun gives its ranks.
        session = self.session()
        pids = os.path.join(self.folder, "pids")

        def body(s):
            run = s.run("slow", ["bash", "-c", f"set -m; sleep 600 & echo $$ >{pids}; trap '' TERM; sleep 600"])
            self.assertTrue(run.timed_out)
            run.expect_success("slow")

        session.step("one", "One", 3, body)
        self.assertIn("no end within", session.records[0]["detail"])
        with open(pids, encoding="utf-8") as file:
            self.assertEqual(members(int(file.read())), [])

    def test_what_the_session_s_end_cuts_is_skipped_not_failed(self):
        session = self.session(seconds=6)

        def body(s):
            s.part_end = time.monotonic() + 1
            s.run("slow", ["sleep", "600"]).expect_success("slow")

        session.step("one", "One", 60, body)
        self.assertEqual(session.records[0]["status"], "skipped")

    def test_a_silent_command_counts_as_hung(self):
        session = self.session()

        def body(s):
            s.run("quiet", ["bash", "-c", "echo begun; sleep 600"], silence=3).expect_success("quiet")

        session.step("one", "One", 20, body)
        self.assertIn("hung", session.records[0]["detail"])
        self.assertIn("begun", session.records[0]["detail"])

    def test_a_killed_acceptance_leaves_nothing_running(self):
        code = ("import sys; from commands import run_command\n"
                "run_command(['bash', '-c', 'echo $$; sleep 600'], sys.argv[1], 600, '/', None)\n")
        log = os.path.join(self.folder, "log")
        process = subprocess.Popen([sys.executable, "-c", code, log])
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
        session.step("one", "One", limit, lambda s: rows.extend(suite(s, "ops_test", "*", **options)) or rows)
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
        session.step("one", "One", 5, lambda s: suite(s, "ops_test", "*"))
        self.assertIn("no test of devices", session.records[0]["detail"])

    def test_of_a_partial_suite_what_passed_counts(self):
        record = self.run_suite("sleep 600", limit=4, partial=True)
        self.assertEqual(record["status"], "passed", record["detail"])
        self.assertIn("1 passed when time ended", record["rows"][0]["measured"])


class Records(InAFolder):
    def test_the_archive_has_the_logs_but_nothing_too_large_or_too_late(self):
        os.makedirs(os.path.join(self.folder, "scratch", "run"))
        for name, size in (("run/a.log", 10), ("b.csv", archive.MOST_OF_A_FILE + 1), ("c.h5", 10)):
            with open(os.path.join(self.folder, "scratch", name), "wb") as file:
                file.truncate(size)
        for seconds, expected in ((60, ["LEFT_OUT", "run/a.log"]), (0, ["LEFT_OUT"])):
            target = os.path.join(self.folder, "logs.tar.gz")
            archive.pack(os.path.join(self.folder, "scratch"), target, seconds)
            with tarfile.open(target) as packed:
                self.assertEqual(sorted(packed.getnames()), expected)
        self.assertEqual(sorted(os.listdir(self.folder)), ["logs.tar.gz", "scratch"])


class Plan(unittest.TestCase):
    def test_the_parts_of_a_call_fit_into_its_time(self):
        for call, limit in plan.LIMITS.items():
            parts = []

            class Parts(Session):
                def part(self, seconds):
                    parts.append(seconds)
                    return super().part(seconds)

                def step(self, key, name, limit, body):
                    if key == "kernels-apart":  # only after a failure, from the time of the steps at the end
                        parts.pop()

            plan.CALLS[call](Parts(ROOT, "", "", 0))
            self.assertLessEqual(sum(parts), limit)


class WholeCalls(InAFolder):
    """Whole calls with programs that break. The limits of 520 s are shortened in proportion."""
    TRAIN = "exit 3"
    BENCH = """
while [ "$1" != --output ]; do shift; done
echo '{"device": "cuda", "sizes": {"batch": 2}}' >$2
echo '{"name": "lookup fp32, uniform ids", "milliseconds": 2, "share": 0.5}' >>$2
"""
    HANG = "trap '' TERM; echo begun; sleep 600 & wait; sleep 600"

    def begin(self, train=TRAIN, bench=BENCH, call="--first", seconds="26"):
        """A call has its programs, its temporary files and its output in a folder of its own."""
        folder = tempfile.mkdtemp(dir=self.folder)
        programs = {"dlrm-train": '[ "$1" = --version ] && exit\n' + train, "dlrm-bench": bench,
                    "dlrm-preflight": "echo 'ok      mpi           Open MPI'", "mpirun": "exit 3"}
        for name in ("ops_test", "device_test", "train_test"):
            programs[name] = "echo '[ RUN      ] A.One'; echo '[       OK ] A.One (0 ms)'"
        for name, body in programs.items():
            self.program(name, body, folder)
        binaries = os.path.join(folder, "bin")
        process = subprocess.Popen([os.path.join(ROOT, "launch/gpu_acceptance.sh"), call, "--emulated", "--seconds", seconds,
                                    "--bin", binaries, "--output", os.path.join(folder, "output")],
                                   env={**os.environ, "PATH": binaries + ":" + os.environ["PATH"], "TMPDIR": folder},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        return process, folder

    def end(self, process, folder):
        said = process.communicate(timeout=120)[0]
        self.assertEqual(sorted(os.listdir(os.path.join(folder, "output"))), ["logs.tar.gz", "record.json", "record.md"])
        self.assertEqual([name for name in os.listdir(folder) if name.startswith("gpu-acceptance-")], [])
        with open(os.path.join(folder, "output", "record.json"), encoding="utf-8") as file:
            steps = {step["key"]: step for step in json.load(file)["steps"]}
        with tarfile.open(os.path.join(folder, "output", "logs.tar.gz")) as packed:
            return said, steps, packed.getnames()

    def test_a_crash_fails_its_step_and_the_others_run(self):
        process, folder = self.begin("kill -SEGV $$")
        said, steps, logs = self.end(process, folder)
        self.assertEqual(process.returncode, 1, said)
        self.assertEqual(list(steps), [key for key, _, _ in main.listed("first")])
        for key in ("start", "kernels", "operations", "devices"):
            self.assertEqual(steps[key]["status"], "passed", said)
        for key in ("losses-dot-sgd-fp32", "dcnv2-uniform", "stages"):
            self.assertEqual(steps[key]["status"], "failed", said)
        self.assertIn("dcnv2-uniform.log", logs)

    def test_programs_that_hang_do_not_outlast_the_call(self):
        calls = {call: self.begin(self.HANG, self.HANG, "--" + call) for call in ("first", "second")}
        for call, (process, folder) in calls.items():
            said, steps, logs = self.end(process, folder)
            self.assertEqual(process.returncode, 1, said)
            self.assertEqual(list(steps), [key for key, _, _ in main.listed(call)])
            self.assertNotIn("cut short", [step["status"] for step in steps.values()])
            self.assertIn("preflight.log", logs)

    def test_after_sigterm_the_record_has_what_was_measured_and_nothing_runs(self):
        process, folder = self.begin(f"echo $$ >{self.folder}/pid; {self.HANG}", seconds="520")
        for _ in range(600):
            time.sleep(0.05)
            if os.path.exists(f"{self.folder}/pid"):
                break
        process.send_signal(signal.SIGTERM)
        said, steps, logs = self.end(process, folder)
        self.assertEqual(process.returncode, 1, said)
        self.assertEqual([step["status"] for step in steps.values()], ["passed", "cut short"])
        self.assertIn("preflight.log", logs)
        with open(f"{self.folder}/pid", encoding="utf-8") as file:
            self.assertEqual(members(int(file.read())), [])


class Skipping(InAFolder):
    def test_a_missing_program_is_skipped(self):
        with self.assertRaises(Skip):
            self.session().program("dlrm-train")


if __name__ == "__main__":
    unittest.main()
