"""The tests that reach each mutant: how they are found, recorded and run.

A test is named as in a list: `program=FILTER` for a suite of a GoogleTest program, or a part of one, and
`ctest=REGEX` for a test of ctest that is none."""
import concurrent.futures
import fnmatch
import functools
import json
import os
import re
import subprocess
import tempfile
import threading
import time

SWITCH = "mutant_switch.h"
SWITCH_SOURCE = "src/core/mutant_switch.cpp"  # every program links this folder
# The variables are constant for the code that reads them, so that it reads them once in a loop.
SWITCH_TEXT = """#pragma once
extern "C" const int mutant_chosen;
extern "C" unsigned char* const mutants_reached;
[[gnu::always_inline]] inline constexpr bool mutant(int number) {
  if (__builtin_is_constant_evaluated()) return false;
  if (__builtin_expect(mutants_reached != nullptr, 0)) __atomic_store_n(mutants_reached + number, 1, 0);
  return __builtin_expect(mutant_chosen == number, 0);
}
"""
# The constructor runs before all static initialisers.
SWITCH_SOURCE_TEXT = """#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
extern "C" {
int mutant_chosen = -1;
unsigned char* mutants_reached = nullptr;
}
[[gnu::constructor(101)]] static void read_mutant_switch() {
  if (const char* given = std::getenv("DLRM_MUTANT")) mutant_chosen = std::atoi(given);
  const char* path = std::getenv("DLRM_MUTANTS_REACHED");
  if (!path) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  const off_t bytes = file < 0 ? -1 : lseek(file, 0, SEEK_END);
  void* map = bytes <= 0 ? MAP_FAILED
                         : mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) std::abort();
  close(file);
  mutants_reached = static_cast<unsigned char*>(map);
}
"""
RECORDED = "simt"  # the preset whose tests are recorded
LONG_SUITE = 20  # seconds; a longer suite is recorded test by test
LONG_PROCESS = 5  # seconds of the tests that run in one process

# Tests of ctest may write to one place of the build. So each runs only once at a time.
ctest_locks, ctest_locks_lock = {}, threading.Lock()


def lock_of(test):
    with ctest_locks_lock:
        return ctest_locks.setdefault(test, threading.Lock())


def filter_of(chosen):
    """The filter for these tests, without those that GTEST_FILTER leaves out."""
    return chosen + os.environ.get("GTEST_FILTER", "")


def build_folder(tree, preset=RECORDED):
    return os.path.join(tree, "build", preset)


@functools.cache
def environment_in_ctest(folder, program):
    """The variables with which ctest starts a program. Sanitizers need some."""
    listed = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    return environment_of(json.loads(listed)["tests"], program)


def environment_of(tests, program):
    for test in tests:
        if any(os.path.basename(word) == program for word in test.get("command", [])):
            given = [value for p in test["properties"] if p["name"] == "ENVIRONMENT" for value in p["value"]]
            return dict(variable.split("=", 1) for variable in given)
    return {}


def run_test(tree, preset, test, limit, **variables):
    """Why the test fails, or "" if it passes, and whether it took longer than its limit."""
    name, _, chosen = test.partition("=")
    folder = build_folder(tree, preset)
    if preset != RECORDED and name != "ctest":
        variables = {**environment_in_ctest(folder, name), **variables}
    if name == "ctest":
        command = ["ctest", "--test-dir", folder, "-R", chosen, "--stop-on-failure", "--no-tests=error"]
        with lock_of(test):
            why, late = run_command(command, folder, limit, variables)
    else:
        command = [os.path.join(folder, "bin", name), "--gtest_fail_fast", "--gtest_color=no",
                   "--gtest_filter=" + filter_of(chosen or "*")]
        why, late = run_command(command, folder, limit, variables)
    return (f"{name}: {why}" if why else ""), late


def run_command(command, folder, limit, variables):
    with tempfile.TemporaryDirectory(prefix="m", ignore_cleanup_errors=True) as scratch:
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": scratch, **variables}
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
            return f"longer than {limit:.0f} s, in {running(output)}", True
    if process.returncode == 0:
        return "", False
    failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.M) or re.findall(r"(\S+) \(Failed\)", output)
    return (failed[0] if failed else f"ended with status {process.returncode} in {running(output)}"), False


def running(output):
    return (re.findall(r"^\[ RUN +\] (\S+)", output, re.M) or ["?"])[-1]


def suites_of(listing):
    """The suites of `--gtest_list_tests` with the tests of each, without the numbers of parameters."""
    suites = {}
    for line in listing.splitlines():
        if found := re.match(r"(\S+\.)(\s+#.*)?$", line):
            suite = suites.setdefault(found[1], [])
        elif found := re.match(r"  ([^\s/]+)(/\S+)?", line):
            test = found[1] + ("/*" if found[2] else "")
            if test not in suite and "DISABLED_" not in test:
                suite.append(test)
    return {suite: tests for suite, tests in suites.items() if tests and "DISABLED_" not in suite}


def is_of(test, programs):
    """Whether the test is of one of `programs`, which commas separate; none: of any."""
    return not programs or test.partition("=")[0] in programs.split(",")


def find_tests(tree, chosen=""):
    """All tests of the chosen programs that run code of the build. A suite has the list of its tests."""
    folder, found, programs = build_folder(tree), {}, set()
    listed = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    for test in json.loads(listed)["tests"]:
        labels = [p["value"] for p in test["properties"] if p["name"] == "LABELS"]
        if ["scripts"] in labels:
            continue
        if any(os.path.basename(word) == "run_suite.py" for word in test["command"]):
            program = next(word for word in test["command"] if word.endswith("_test"))
            if is_of(os.path.basename(program), chosen):
                programs.add(program)
        elif is_of("ctest", chosen):
            found[f"ctest=^{re.escape(test['name'])}$"] = []
    for program in sorted(programs):
        # An empty GTEST_FILTER leaves no test, so the option is given as well.
        command = [program, "--gtest_list_tests", "--gtest_filter=" + filter_of("*")]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for suite, tests in suites_of(listing).items():
            name = os.path.basename(program) + "="
            found[name + suite + "*"] = [name + suite + test for test in tests]
    return found


def record_test(tree, test, count, limit):
    """The seconds that a test takes without a mutant and the mutants that it reaches; None if it fails or is late."""
    for attempt in range(2):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(max(1, count)))
            file.flush()
            begun = time.monotonic()
            why, late = run_test(tree, RECORDED, test, limit, DLRM_MUTANTS_REACHED=file.name)
            seconds = round(time.monotonic() - begun, 2)
            with open(file.name, "rb") as marks:
                reached = [number for number, mark in enumerate(marks.read(count)) if mark]
        if not why:
            print(f"{test} passes in {seconds} s and reaches {len(reached)} mutants", flush=True)
            return seconds, reached
        if late and limit < 3600:
            return None
    # A test may count the calls of a process, and marking adds some.
    if not run_test(tree, RECORDED, test, limit)[0]:
        print(f"{test} passes only if it is not recorded, and reaches {len(reached)} mutants", flush=True)
        return seconds, reached
    print(f"warning: without a mutant {why} fails, so {test} is not used", flush=True)
    return None


def record(tree, names, jobs, programs="", without="", notes=None, keep=lambda notes: None):
    """The seconds of each test and the tests that reach each mutant. `notes`: what an ended recording of the same
    build found; `keep` stores them after each test."""
    notes, lock = {} if notes is None else notes, threading.Lock()

    def noted(test, limit):
        if test not in notes:
            result = record_test(tree, test, len(names), limit)
            with lock:
                notes[test] = result
                keep(notes)
        return notes[test]

    seconds, reached = {}, {name: [] for name in names}
    tests = {test: parts for test, parts in find_tests(tree, programs).items()
             if not without or not re.search(without, test.replace("\\", ""))}
    # A suite that is too long is split. A test alone may take as long as it needs.
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while tests:
            limit = lambda test: LONG_SUITE if len(tests[test]) > 1 else 3600
            recorded = dict(zip(tests, pool.map(lambda test: noted(test, limit(test)), tests)))
            for test, result in recorded.items():
                if result:
                    seconds[test] = result[0]
                    for number in result[1]:
                        reached[names[number]].append(test)
            tests = {part: [] for test, result in recorded.items() if not result and len(tests[test]) > 1
                     for part in tests[test]}
    return {"seconds": seconds, "reached": reached}


def recording(tree, names, jobs, programs="", without=""):
    """The recording of this build and these programs. What reach.json holds is used if no program was linked and no
    mutant was listed since, and tests that it lacks are recorded."""
    path, folder = os.path.join(tree, "reach.json"), os.path.join(build_folder(tree), "bin")
    build = {name: os.stat(os.path.join(folder, name)).st_mtime for name in sorted(os.listdir(folder))}
    key, notes = {"build": build, "names": names}, {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        if {name: known.get(name) for name in key} == key:
            notes = known["notes"]

    def keep(found):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({**key, "notes": found}, file)
        os.replace(path + ".new", path)

    return record(tree, names, jobs, programs, without, notes, keep)


def matches(hint, test):
    """Whether the hint of a list, such as `train_test=Step.*`, covers a test or some tests of a suite."""
    (program, _, wanted), (name, _, chosen) = hint.partition("="), test.partition("=")
    if program != name or not wanted:
        return program == name
    if program == "ctest":
        return re.search(wanted, chosen.strip("^$").replace("\\", "")) is not None
    suite = lambda text: text.partition(".")[0]
    return any(fnmatch.fnmatchcase(suite(chosen), suite(part)) for part in wanted.split("-")[0].split(":"))


def processes(tests, seconds, hints):
    """The processes in which to run `tests`, with their seconds: those of the first hint first, then the
    cheapest. Short tests of a program share a process."""
    rank = lambda test: next((at for at, hint in enumerate(hints) if matches(hint, test)), len(hints))
    shared = []  # [rank, seconds, tests]
    for test in sorted(tests, key=lambda test: (rank(test), seconds[test])):
        program = test.partition("=")[0]
        last = next((s for s in reversed(shared) if s[0] == rank(test) and s[2][0].startswith(program + "=")), None)
        if last and program != "ctest" and last[1] + seconds[test] <= LONG_PROCESS:
            last[1] += seconds[test]
            last[2].append(test)
        else:
            shared.append([rank(test), seconds[test], [test]])
    joined = lambda tests: tests[0] + "".join(":" + test.partition("=")[2] for test in tests[1:])
    return [(joined(tests), taken) for _, taken, tests in sorted(shared)]
