#!/usr/bin/env python3
"""Measures what the tests catch: plausible mistakes, called mutants, are made in the product one at a time.

    tests/mutants/mutants.py [LIST.txt]...    default: all lists beside this file
        --only ID[,ID]     these mutants alone
        --survivors        only those that the last run did not catch
        --check            only checks that the lists fit the sources
        --tree DIR         the copy of the repository (default build/mutants)
        --jobs N           mutants tested at the same time (default: the number of CPUs)
        --limit SECONDS    for one test program (default: 60 and ten times its time without a mutant)

All mutants are compiled into one build of the preset `simt`, in a copy of the repository. The variable
DLRM_MUTANT of the environment chooses one. The sources themselves hold no trace of them.

A list names a file, the test programs that may catch its mutants in the order in which they run, and
the mutants:

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
runs part of a program; `ctest=REGEX` runs tests of ctest. A text that is not found exactly once is an
error. A mutant is caught if a program fails or takes longer than its limit."""
import argparse
import concurrent.futures
import dataclasses
import glob
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SWITCH = "mutant_switch.h"
SWITCH_TEXT = """#pragma once
#include <cstdlib>
inline const int chosen_mutant = [] {
  const char* given = std::getenv("DLRM_MUTANT");
  return given ? std::atoi(given) : -1;
}();
inline bool mutant(int number) { return __builtin_expect(chosen_mutant == number, 0); }
"""


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
            elif len(words) == 2 and file and runs:
                mutants.append(Mutant(words[0], words[1], file, runs, where))
            else:
                raise ListError(f"{where}: expected `file PATH`, `run PROGRAM...`, or `ID KIND` below these")
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
        switch = os.path.relpath(SWITCH, os.path.dirname(path))
        texts[path] = f'#include "{switch}"\n#line 1\n' + rewritten(source, own)
    return texts


def make_tree(tree, texts):
    """Copies what git knows of, or does not ignore, with the rewritten files."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    write_if_changed(os.path.join(tree, SWITCH), SWITCH_TEXT.encode())
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
            if os.path.isfile(path) and os.path.relpath(path, tree) not in set(listed):
                os.remove(path)


def build(tree, programs):
    subprocess.run(["cmake", "--preset", "simt", "-DDLRM_TESTS=ON"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    targets = [] if any(p.startswith("ctest=") for p in programs) else sorted({p.split("=")[0] for p in programs})
    subprocess.run(["ninja", "-C", os.path.join(tree, "build/simt"), *targets], check=True)


def check_selection(tree, programs):
    """Every part of a filter must select a test."""
    for program in programs:
        name, _, chosen = program.partition("=")
        if name == "ctest":
            continue  # --no-tests=error
        for part in filter(None, chosen.split(":")):
            command = [os.path.join(tree, "build/simt/bin", name), "--gtest_list_tests", "--gtest_filter=" + part]
            if not subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip():
                raise ListError(f"{program}: {name} has no test {part}")


def run_program(tree, program, number, limit):
    """Why the program fails, or "" if it passes."""
    name, _, chosen = program.partition("=")
    folder = os.path.join(tree, "build/simt")
    if name == "ctest":
        command = ["ctest", "--test-dir", folder, "-R", chosen, "--stop-on-failure", "--no-tests=error"]
    else:
        command = [os.path.join(folder, "bin", name), "--gtest_fail_fast", "--gtest_color=no",
                   "--gtest_filter=" + (chosen or "*")]
    environment = dict(os.environ, DLRM_MUTANT=str(number), OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
    # A test that ends early leaves the jobs that it started.
    end_session = ["pkill", "-KILL", "-s", str(process.pid)]
    try:
        output, _ = process.communicate(timeout=limit)
        subprocess.run(end_session, check=False)
    except subprocess.TimeoutExpired:
        subprocess.run(end_session, check=False)
        output, _ = process.communicate()
        return f"{name}: longer than {limit:.0f} s, in " + (re.findall(r"^\[ RUN +\] (\S+)", output, re.M) or ["?"])[-1]
    if process.returncode == 0:
        return ""
    failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.M) or re.findall(r"(\S+) \(Failed\)", output)
    if failed:
        return f"{name}: {failed[0]}"
    running = (re.findall(r"^\[ RUN +\] (\S+)", output, re.M) or ["?"])[-1]
    return f"{name}: ended with status {process.returncode} in {running}"


def baseline(tree, programs):
    """Seconds that each program takes without a mutant. All must pass."""
    times = {}
    for program in programs:
        begun = time.monotonic()
        why = run_program(tree, program, -1, 3600)
        if why:
            sys.exit(f"error: without a mutant {why} fails")
        times[program] = time.monotonic() - begun
        print(f"without a mutant: {program} passes in {times[program]:.1f} s", flush=True)
    return times


def judge(tree, mutant, times, limit):
    begun = time.monotonic()
    for program in mutant.runs:
        why = run_program(tree, program, mutant.number, limit or 60 + 10 * times[program])
        if why:
            return {"result": "caught", "by": why, "seconds": round(time.monotonic() - begun, 1)}
    return {"result": "survived", "by": "", "seconds": round(time.monotonic() - begun, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", default=os.path.join(ROOT, "build/mutants"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=0)
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
    programs = sorted({program for m in chosen for program in m.runs})
    make_tree(tree, texts)
    build(tree, programs)
    check_selection(tree, programs)
    times = {} if given.limit else baseline(tree, programs)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        waiting = {pool.submit(judge, tree, m, times, given.limit): m for m in chosen}
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
        print(f"survived: {mutant.name} ({mutant.kind}) in {mutant.file}")
    judged = len(caught) + len(survived)
    equivalent = sum(bool(m.equivalent) for m in mutants)
    print(f"{len(mutants)} mutants: {len(caught)} caught, {len(survived)} survived, {equivalent} equivalent, "
          f"{len(mutants) - judged - equivalent} not tested; "
          f"{100 * len(caught) / max(1, judged):.1f} % of the tested ones were caught")


if __name__ == "__main__":
    try:
        main()
    except ListError as error:
        sys.exit(f"error: {error}")
