#!/usr/bin/env python3
"""What ctest ran in one or more build folders: the time of each test program, the skipped tests with their reasons,
each reason's tests once, and the counts. A program run by run_suite.py counts as its tests, other commands as one.

    report.py LOG...        the JUnit files of ctest --output-junit; beside X.xml other tests' results are in X.suites/

Prints "passed failed skipped" last."""
import collections
import glob
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree


class Group:
    """Tests of one label in one build folder."""

    def __init__(self):
        self.counts = collections.Counter()
        self.seconds = 0.0


def suite_results(log, name):
    path = os.path.join(os.path.splitext(log)[0] + ".suites", name + ".json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def reason(text):
    """What a skipped test gave as its reason: the lines after GoogleTest's 'FILE:LINE: Skipped'."""
    lines = [line for line in text.splitlines() if line.strip()]
    after = [i + 1 for i, line in enumerate(lines) if re.search(r": Skipped$", line)]
    return " ".join(lines[after[0]:]) if after and lines[after[0]:] else "no reason given"


def read(path, groups, skipped):
    folder = os.path.dirname(os.path.abspath(path))
    build = os.path.basename(folder)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        group = groups[build, re.split(r"[.]", name)[0]]
        group.seconds += float(case.get("time") or 0)
        results = suite_results(path, name)
        if results is None:
            status = {"run": "ok", "notrun": "skipped", "disabled": "skipped"}.get(case.get("status"), "failed")
            group.counts[status] += 1
            if status == "skipped":
                given = re.findall(r"^skipped: (?:.*: )?(.+)$", case.findtext("system-out") or "", re.M)
                skipped[given[0] if given else "it was not run"].add(f"{build}: {name}")
            continue
        for test, result in results.items():
            group.counts[result["status"]] += 1
            if result["status"] == "skipped":
                skipped[reason(result["text"])].add(f"{build}: {test}")
        if case.get("status") == "fail" and not any(r["status"] == "failed" for r in results.values()):
            group.counts["failed"] += 1


def main():
    groups, skipped = collections.defaultdict(Group), collections.defaultdict(set)
    for path in sys.argv[1:]:
        read(path, groups, skipped)
    print("\nTest programs, their processes' seconds added up:")
    for (build, name), group in sorted(groups.items()):
        print(f"  {build:10} {name:14} {group.seconds:8.1f} s  {group.counts['ok']:5} passed, "
              f"{group.counts['failed']} failed, {group.counts['skipped']} skipped")
    if skipped:
        print("\nSkipped:")
    for why, tests in sorted(skipped.items()):
        print(f"  {why}")
        for test in sorted(tests):
            print(f"    {test}")
    total = sum((group.counts for group in groups.values()), collections.Counter())
    print(total["ok"], total["failed"], total["skipped"])


if __name__ == "__main__":
    main()
