#!/usr/bin/env python3
"""Runs a share of the tests of a GoogleTest program, in as few processes as it takes: after a crash, and after a
test that takes too long, the rest runs in a new process. Prints the output of failed tests, and writes every
test's result for report.py.

    run_suite.py PROGRAM RESULTS.json [SHARE OF]       SHARE counts from 0"""
import json
import os
import re
import selectors
import subprocess
import sys
import time

LIMIT = float(os.environ.get("DLRM_TEST_LIMIT", 600))  # seconds for one test
MARK = re.compile(r"^\[ (RUN     |      OK| FAILED | SKIPPED) \] ([^\s,(]+\.[^\s,(]+)(?:.*\((\d+) ms\))?", re.M)


def names_of(program):
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        word = line.split("#")[0].rstrip()
        if line.startswith(" "):
            names.append(suite + word.strip())
        elif word.endswith("."):
            suite = word
    return [name for name in names if "DISABLED_" not in name]


class Share:
    """The results of some tests by name: status, seconds, and what a failed or skipped test printed."""

    def __init__(self, program, names, scratch):
        self.program, self.names, self.scratch = program, names, scratch
        self.results = {}

    def run(self):
        while len(self.results) < len(self.names):
            if not self.start([name for name in self.names if name not in self.results]):
                return

    def start(self, names):
        """Runs the tests in one process. False if it ran none of them."""
        flags = self.scratch + ".flags"
        with open(flags, "w", encoding="utf-8") as file:
            file.write("--gtest_filter=" + ":".join(names) + "\n--gtest_color=no\n")
        before = len(self.results)
        process = subprocess.Popen([self.program, "--gtest_flagfile=" + flags], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        current, printed, late = None, [], False
        for line in self.lines(process):
            if line is None:
                late = True
                break
            mark = MARK.match(line)
            if not mark:
                printed.append(line)
            elif mark.group(1).startswith("RUN"):
                current, printed = mark.group(2), []
            elif mark.group(2) == current:
                self.note(current, mark.group(1).strip().lower(), int(mark.group(3) or 0) / 1000, printed)
                current, printed = None, []
        if late:
            os.killpg(process.pid, 9)
        status = process.wait()
        os.remove(flags)
        if current:
            why = f"took longer than {LIMIT:.0f} s" if late else f"ended the program with status {status}"
            self.note(current, "failed", 0, printed + [why])
        elif status != 0 and not any(self.results.get(name, {}).get("status") == "failed" for name in names):
            self.note(names[-1], "failed", 0, printed + [f"after the last test the program ended with status {status}"])
        if len(self.results) == before:
            self.note(names[0], "failed", 0, printed + [f"the program ran no test and ended with status {status}"])
        return True

    def lines(self, process):
        """The process's lines, and None if the next takes too long."""
        selector, rest, begun = selectors.DefaultSelector(), b"", time.monotonic()
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, begun + LIMIT - time.monotonic())):
                yield None
                return
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                break
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                text = line.decode(errors="replace")
                if MARK.match(text):
                    begun = time.monotonic()
                yield text
        if rest:
            yield rest.decode(errors="replace")

    def note(self, name, status, seconds, printed):
        self.results[name] = {"status": status, "seconds": seconds,
                              "text": "" if status == "ok" else "\n".join(printed[-200:])}
        if status == "failed":
            print(f"[  FAILED  ] {name}\n" + self.results[name]["text"], flush=True)


def main():
    program, path = sys.argv[1:3]
    share, of = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 3 else (0, 1)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        os.remove(path)
    tests = Share(program, names_of(program)[share::of], path)
    begun = time.monotonic()
    tests.run()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tests.results, file, indent=1)
    count = lambda status: sum(result["status"] == status for result in tests.results.values())
    print(f"{os.path.basename(program)}: {count('ok')} passed, {count('failed')} failed, {count('skipped')} skipped "
          f"in {time.monotonic() - begun:.1f} s")
    sys.exit(bool(count("failed")))


if __name__ == "__main__":
    main()
