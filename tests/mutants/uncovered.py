#!/usr/bin/env python3
"""Lists the lines of the product that no test has run, by file.

    launch/build.sh coverage
    ctest --test-dir build/coverage -j2
    tests/mutants/uncovered.py [--branches] [--build DIR] [PATH]...

A mistake in a line that never runs is caught by no test. Kernels and data_tools are not counted. The
counts of all processes since the build add up; delete the .gcda files of the build to start anew. A
process that is killed, or ends by _exit as ranks do after an error, counts nothing. --branches also
lists the lines that run and of which a branch is never taken, marked by `?`. PATHs such as src/plan
select files."""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("include/", "src/")


def notes_of(build):
    return [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in sorted(names)
            if name.endswith(".gcno")]


def counts_of(note):
    """The counts of one object file, as gcov's JSON."""
    printed = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", note], check=True,
                             capture_output=True, text=True, cwd=os.path.dirname(note)).stdout
    return [json.loads(line) for line in printed.splitlines() if line.strip()]


def product_path(path, folder):
    path = os.path.relpath(os.path.normpath(os.path.join(folder, path)), ROOT)
    return path if path.startswith(FOLDERS) else None


class Counts:
    """How often each line ran, and how often each of its branches was taken, over all object files."""

    def __init__(self):
        self.lines = collections.defaultdict(lambda: collections.defaultdict(int))
        self.branches = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(int)))

    def add(self, report):
        for file in report["files"]:
            path = product_path(file["file"], report["current_working_directory"])
            for line in file["lines"] if path else []:
                self.lines[path][line["line_number"]] += line["count"]
                # Calls that may throw end blocks too. Other branches have the same order in each object.
                taken = [branch["count"] for branch in line["branches"] if not branch["throw"]]
                function = line.get("function_name", "")
                for at, count in enumerate(taken if len(taken) > 1 else []):
                    self.branches[path][line["line_number"]][function, at] += count

    def uncovered(self, path):
        return sorted(number for number, count in self.lines[path].items() if count == 0)

    def half_covered(self, path):
        """Lines that ran, of which a branch was taken in no instance of their function."""
        found = []
        for number, branches in self.branches[path].items():
            by_place = collections.defaultdict(int)
            for (_, at), count in branches.items():
                by_place[at] += count
            if self.lines[path][number] > 0 and 0 in by_place.values():
                found.append(number)
        return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--branches", action="store_true")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/coverage"))
    given = parser.parse_args()
    counts = Counts()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for reports in pool.map(counts_of, notes_of(given.build)):
            for report in reports:
                counts.add(report)
    total = missing = 0
    for path in sorted(counts.lines):
        if given.paths and not path.startswith(tuple(given.paths)):
            continue
        uncovered = counts.uncovered(path)
        half = counts.half_covered(path) if given.branches else []
        total, missing = total + len(counts.lines[path]), missing + len(uncovered)
        if not uncovered and not half:
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read().splitlines()
        print(f"{path}: {len(uncovered)} of {len(counts.lines[path])} lines never ran")
        for number in sorted({*uncovered, *half}):
            print(f"  {'!' if number in uncovered else '?'} {number}: {text[number - 1].strip()}")
    print(f"{missing} of {total} lines never ran")


if __name__ == "__main__":
    main()
