#!/usr/bin/env python3
"""Measures what the tests catch: plausible mistakes, called mutants, are made in the product one at a time.

    tests/mutants/mutants.py [LIST.txt]...    default: all lists beside this file
        --only ID[,ID]     these mutants alone
        --survivors        only those that the last run did not catch
        --check            only checks that the lists fit the sources
        --tree DIR         the copy of the repository (default build/mutants)
        --jobs N           mutants tested at the same time (default: the number of CPUs)
        --limit SECONDS    for one process of tests (default: 60 and ten times its time without a mutant)
        --total SECONDS    after which no further tests are started for a mutant (default: none)
        --preset PRESET    the build whose tests judge the mutants (default simt)
        --programs NAMES   the test programs that judge, such as comm_test,data_test; only these are built and
                           recorded (default: all tests; with simt-asan and cpu-tsan those that CI runs there)
        --without REGEX    tests that are neither recorded nor judge, such as 'acceptance|storm'

All mutants are compiled into one build of each preset, in a copy of the repository. The variable
DLRM_MUTANT of the environment chooses one. The sources themselves hold no trace of them.

First all tests run without a mutant, one suite at a time, or one test at a time if a suite is long. Each
process marks the mutants that it reaches in the file that DLRM_MUTANTS_REACHED names. The file
reach.json of the copy keeps the results, so that an ended run goes on. A mutant is then judged by the tests that reach it, cheapest
first, until one fails. It survives if none fails, or if no test reaches it. Constants that the compiler
computes are never those of a mutant. Tests are always recorded with the preset `simt`. A failure
counts only if the same tests then pass without a mutant, and fail again with it: a busy machine lets tests fail.
GTEST_FILTER of the environment may name tests to leave out, as -A.*:B.*

A list names a file and its mutants. A line `run` names tests that should be tried first:

    file src/embedding/router.cpp
    run embedding_test train_test=Step.*
    router_1 bound
        for (int r = 0; r < ⟦world → world - 1⟧; ++r)
    router_2 dropped
        ⟦stream.wait(ready); → ⟧
        equivalent: the caller waits as well

An ID and the kind of the mistake stand in one line. Below is the text of the source around the mistake;
white space and comments do not matter. ⟦old → new⟧ marks what is replaced: an expression, or whole statements,
which end in `;` or `}`. Statements that declare a name used later cannot be replaced. `program=FILTER`
stands for the suites of a program, `ctest=REGEX` for tests of ctest. A text that is not found exactly
once is an error. A mutant is caught if a test fails or takes longer than its limit."""
import argparse
import collections
import concurrent.futures
import dataclasses
import glob
import json
import os
import re
import subprocess
import sys
import time

import reach

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


# The test programs that `launch/test.sh --all` runs with other presets.
IN_CI = {"simt-asan": "comm_test,data_test,data_tools_test,device_test,embedding_test,end_to_end_test,hdf5_test,nn_test,"
                      "ops_test,simt_test,train_test",
         "cpu-tsan": "comm_test,data_test,embedding_test,train_test"}


class ListError(Exception):
    pass


@dataclasses.dataclass
class Mutant:
    name: str
    kind: str
    file: str
    runs: list
    where: str  # list and line
    text: str = ""
    equivalent: str = ""
    number: int = -1
    # Set by place().
    begin: int = -1
    end: int = -1
    new: str = ""


def read_list(path):
    """The mutants of a list."""
    mutants, file, runs = [], None, []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            where, words = f"{os.path.basename(path)}:{number}", line.split()
            if not words or line.startswith("#"):
                continue
            if line[0].isspace():
                if not mutants:
                    raise ListError(f"{where}: a text without an ID")
                if words[0] == "equivalent:":
                    mutants[-1].equivalent = " ".join(words[1:]) or "no reason given"
                else:
                    mutants[-1].text += line
            elif words[0] == "file" and len(words) == 2:
                file = words[1]
            elif words[0] == "run":
                runs = words[1:]
            elif len(words) == 2 and file:
                mutants.append(Mutant(words[0], words[1], file, runs, where))
            else:
                raise ListError(f"{where}: expected `file PATH`, `run PROGRAM...`, or `ID KIND` below a file")
    return mutants


GAP = r"(?:\s|//[^\n]*\n)*"  # white space and comments


def pattern_of(text):
    """Matches `text` with any gaps between its words."""
    return GAP.join(re.escape(word) for word in text.split())


def place(mutant, source):
    """Finds the mutant's place in its source."""
    marked = re.fullmatch(r"(.*)⟦(.*?)→(.*)⟧(.*)", mutant.text, re.S)
    if not marked:
        raise ListError(f"{mutant.where}: {mutant.name} has no ⟦old → new⟧")
    before, old, new, after = marked.groups()
    found = [m.span(1) for m in re.finditer(
        GAP.join([pattern_of(before), "(" + pattern_of(old) + ")", pattern_of(after)]), source)]
    if len(found) != 1:
        raise ListError(f"{mutant.where}: the text of {mutant.name} occurs {len(found)} times in {mutant.file}")
    mutant.begin, mutant.end = found[0]
    mutant.new = new.strip()


def rewritten(source, mutants):
    """The source with a switch at each mutant's place. Places may be equal or lie within each other."""

    def render(begin, end, inside):
        """source[begin:end] with the mutants `inside`, outermost first."""
        text, at = "", begin
        while inside:
            outer, *rest = inside
            within = [m for m in rest if m.begin < outer.end]
            for m in within:
                if m.end > outer.end:
                    raise ListError(f"{m.where}: {m.name} overlaps {outer.name}")
            old = render(outer.begin, outer.end, within)
            text += source[at:outer.begin]
            if old.rstrip()[-1] in ";}":
                text += f"if (mutant({outer.number})) {{ {outer.new} }} else {{ {old} }}"
            else:
                text += f"(mutant({outer.number}) ? ({outer.new}) : ({old}))"
            at, inside = outer.end, rest[len(within):]
        return text + source[at:end]

    return render(0, len(source), sorted(mutants, key=lambda m: (m.begin, -m.end)))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_if_changed(path, data):
    """Keeps the time of a file that stays the same, so that nothing is built twice."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def rewrite_all(root, mutants):
    """New texts of the files that have mutants, by path."""
    texts = {}
    for path in sorted({m.file for m in mutants}):
        if not os.path.isfile(os.path.join(root, path)):
            raise ListError(f"{next(m for m in mutants if m.file == path).where}: there is no file {path}")
        source, own = read(os.path.join(root, path)), [m for m in mutants if m.file == path]
        for mutant in own:
            place(mutant, source)
        switch = os.path.relpath(reach.SWITCH, os.path.dirname(path))
        texts[path] = f'#include "{switch}"\n#line 1\n' + rewritten(source, own)
    return texts


def make_tree(tree, texts):
    """Copies what git knows of, or does not ignore, with the rewritten files."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    write_if_changed(os.path.join(tree, reach.SWITCH), reach.SWITCH_TEXT.encode())
    write_if_changed(os.path.join(tree, reach.SWITCH_SOURCE), reach.SWITCH_SOURCE_TEXT.encode())
    for path in listed:
        source = os.path.join(ROOT, path)
        if not os.path.isfile(source):
            continue
        with open(source, "rb") as file:
            data = texts[path].encode() if path in texts else file.read()
        write_if_changed(os.path.join(tree, path), data)
        os.chmod(os.path.join(tree, path), os.stat(source).st_mode)
    for folder in ("include", "src", "kernels", "data_tools", "tests"):
        for path in glob.glob(os.path.join(tree, folder, "**", "*.*"), recursive=True):
            if os.path.isfile(path) and os.path.relpath(path, tree) not in {*listed, reach.SWITCH_SOURCE}:
                os.remove(path)


def build(tree, preset, targets=()):
    subprocess.run(["cmake", "--preset", preset, "-DDLRM_TESTS=ON"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", reach.build_folder(tree, preset), *targets], check=True)


def targets_of(programs):
    """What these test programs need; a test of ctest may need any program."""
    return ["programs", *sorted({*programs} - {"ctest"})]


@dataclasses.dataclass
class Judging:
    """How mutants are judged; the options of the same names."""
    preset: str = reach.RECORDED
    programs: str = ""
    limit: float = 0
    total: float = float("inf")

    def tests(self, reached):
        return [test for test in reached if reach.is_of(test, self.programs)]


def judge(tree, mutant, recorded, how):
    begun, by = time.monotonic(), ""
    tests = how.tests(recorded["reached"][mutant.name])
    processes = reach.processes(tests, recorded["seconds"], mutant.runs)
    for tried, (test, seconds) in enumerate(processes):
        if time.monotonic() - begun >= how.total:
            break
        run = lambda **chosen: reach.run_test(tree, how.preset, test, how.limit or 60 + 10 * seconds, **chosen)[0]
        by = run(DLRM_MUTANT=str(mutant.number))
        if by:
            by = "" if run() else run(DLRM_MUTANT=str(mutant.number))
        if by:
            break
    else:
        tried = len(processes)
    left = f", {len(processes) - tried} of {len(processes)} processes not tried" if tried < len(processes) else ""
    return {"result": "caught" if by else "survived", "by": by or f"reached by {len(tests) or 'no'} tests{left}",
            "seconds": round(time.monotonic() - begun, 1), "preset": how.preset}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", default=os.path.join(ROOT, "build/mutants"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=0)
    parser.add_argument("--total", type=float, default=float("inf"))
    parser.add_argument("--preset", default=reach.RECORDED)
    parser.add_argument("--programs", default="")
    parser.add_argument("--without", default="")
    given = parser.parse_args()
    mutants = []
    for path in given.lists or sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        mutants += read_list(path)
    for number, mutant in enumerate(mutants):
        mutant.number = number
        if any(other.name == mutant.name for other in mutants[:number]):
            raise ListError(f"{mutant.where}: {mutant.name} is listed twice")
    texts = rewrite_all(ROOT, mutants)
    if given.check:
        print(f"{len(mutants)} mutants fit the sources")
        return
    tree = os.path.abspath(given.tree)
    results_path = os.path.join(tree, "results.json")
    results = json.loads(read(results_path)) if os.path.exists(results_path) else {}
    chosen = [m for m in mutants if not m.equivalent]
    if given.only:
        chosen = [m for m in chosen if m.name in given.only.split(",")]
    if given.survivors:
        chosen = [m for m in chosen if results.get(m.name, {}).get("result") != "caught"]
    make_tree(tree, texts)
    build(tree, reach.RECORDED, targets_of(given.programs.split(",")) if given.programs else [])
    recorded = reach.recording(tree, [m.name for m in mutants], given.jobs, given.programs, given.without)
    how = Judging(given.preset, given.programs or IN_CI.get(given.preset, ""), given.limit, given.total)
    if how.preset != reach.RECORDED:
        needed = {test.partition("=")[0] for m in chosen for test in how.tests(recorded["reached"][m.name])}
        build(tree, how.preset, targets_of(needed))
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        waiting = {pool.submit(judge, tree, m, recorded, how): m for m in chosen}
        for done in concurrent.futures.as_completed(waiting):
            mutant, result = waiting[done], done.result()
            results[mutant.name] = result
            print(f"{result['result']:8} {mutant.name} ({mutant.kind}, {mutant.file}) {result['by']} "
                  f"[{result['seconds']} s]", flush=True)
            write_if_changed(results_path, json.dumps(results, indent=1).encode())
    report(mutants, results)


def report(mutants, results):
    of = lambda what: [m for m in mutants if not m.equivalent and results.get(m.name, {}).get("result") == what]
    caught, survived = of("caught"), of("survived")
    for mutant in survived:
        print(f"survived: {mutant.name} ({mutant.kind}) in {mutant.file}, {results[mutant.name]['by']}")
    judged = len(caught) + len(survived)
    presets = collections.Counter(results[m.name].get("preset", reach.RECORDED) for m in caught)
    equivalent = sum(bool(m.equivalent) for m in mutants)
    print(f"{len(mutants)} mutants: {len(caught)} caught, {len(survived)} survived, {equivalent} equivalent, "
          f"{len(mutants) - judged - equivalent} not tested; "
          f"{100 * len(caught) / max(1, judged):.1f} % of the tested ones were caught"
          + "".join(f", {count} of them with {preset}" for preset, count in sorted(presets.items())))


if __name__ == "__main__":
    try:
        main()
    except ListError as error:
        sys.exit(f"error: {error}")
