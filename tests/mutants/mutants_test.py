#!/usr/bin/env python3
"""mutants.py rewrites sources as their lists say, refuses lists that do not fit, and finds the tests that reach
a mutant."""
import json
import os
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import draw
import mutants
import reach

SOURCE = """int sum(const int* a, int n) {
  int all = 0;
  for (int i = 0; i < n; ++i) {
    all += a[i];
    wait();
  }
  return all;
}
"""


class Mutants(unittest.TestCase):
    def rewrite(self, text):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "src"))
            with open(os.path.join(root, "src/a.cpp"), "w", encoding="utf-8") as file:
                file.write(SOURCE)
            path = os.path.join(root, "list.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write("# A comment.\nfile src/a.cpp\nrun a_test\n" + text)
            found = mutants.read_list(path)
            for number, mutant in enumerate(found):
                mutant.number = number
            return found, mutants.rewrite_all(root, found).get("src/a.cpp")

    def refuse(self, text, why):
        with self.assertRaisesRegex(mutants.ListError, why):
            self.rewrite(text)

    def test_an_expression(self):
        found, text = self.rewrite("one bound\n    i < ⟦n → n - 1⟧; ++i)\n")
        self.assertIn("i < (mutant(0) ? (n - 1) : (n)); ++i)", text)
        self.assertEqual((found[0].kind, found[0].runs), ("bound", ["a_test"]))

    def test_a_statement_that_is_dropped(self):
        _, text = self.rewrite("one wait\n    ⟦wait(); → ⟧\n")
        self.assertIn("if (mutant(0)) {  } else { wait(); }", text)

    def test_white_space_does_not_matter(self):
        _, text = self.rewrite("one wait\n    all += a[i];⟦wait();→⟧ }\n    return all;\n")
        self.assertIn("else { wait(); }", text)

    def test_a_place_within_another(self):
        _, text = self.rewrite("one index\n    ⟦all += a[i]; → all = a[i];⟧\ntwo index\n    a[⟦i → i + 1⟧]\n")
        self.assertIn("if (mutant(0)) { all = a[i]; } else { all += a[(mutant(1) ? (i + 1) : (i))]; }", text)

    def test_lines_keep_their_numbers(self):
        _, text = self.rewrite("one wait\n    ⟦wait(); → ⟧\n")
        self.assertEqual(text.splitlines()[:3], ['#include "../mutant_switch.h"', "#line 1", SOURCE.splitlines()[0]])

    def test_a_reason_makes_it_equivalent(self):
        found, _ = self.rewrite("one wait\n    ⟦wait(); → ⟧\n    equivalent: nobody waits\n")
        self.assertEqual(found[0].equivalent, "nobody waits")

    def test_a_text_that_is_not_found_once_is_refused(self):
        self.refuse("one bound\n    i < ⟦m → n⟧\n", "list.txt:4: the text of one occurs 0 times in src/a.cpp")
        self.refuse("one bound\n    ⟦all → 0⟧\n", "occurs 3 times")

    def test_what_is_no_list_is_refused(self):
        self.refuse("one bound\n    i < n\n", "has no ⟦old → new⟧")
        self.refuse("one\n", "list.txt:4: expected")
        self.refuse("file src/b.cpp\none bound\n    ⟦n → 0⟧\n", "no file src/b.cpp")
        self.refuse("one index\n    ⟦all += a[i]; → ⟧\ntwo index\n    ⟦a[i]; wait(); → ⟧\n", "overlaps one")

    def test_run_is_a_hint_that_may_be_missing(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write("file src/a.cpp\none wait\n    ⟦wait(); → ⟧\n")
            file.flush()
            self.assertEqual(mutants.read_list(file.name)[0].runs, [])

    def test_a_file_that_stays_the_same_is_not_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            mutants.write_if_changed(path, b"1")
            os.utime(path, (1, 1))
            mutants.write_if_changed(path, b"1")
            self.assertEqual(os.stat(path).st_mtime, 1)
            mutants.write_if_changed(path, b"2")
            self.assertNotEqual(os.stat(path).st_mtime, 1)


# A stand-in for a GoogleTest program.
PROGRAM = """#include <unistd.h>
#include <cstdlib>
#include <cstring>
constexpr int twice(int n) { return n * 2; }
static_assert(twice(3) == 6);
int started() { return 1; }
const int early = started();
int child(const char* program) {
  static char command[4096];
  std::strcat(std::strcat(std::strcpy(command, program), " x x --gtest_filter="), "Sum.*");
  return std::system(command) == 0 ? 0 : 1;
}
int unused(int n) { return n + 1; }
int main(int count, char** words) {
  const char* filter = std::strchr(words[count - 1], '=') + 1;
  if (!std::strcmp(filter, "Long.*")) sleep(60);
  if (!std::strcmp(filter, "Broken.*") || early != 1) return 1;
  if (!std::strcmp(filter, "Child.*")) return child(words[0]);
  if (std::strstr(filter, "Sum.*")) return twice(count) == 2 * count ? 0 : 1;
  return 0;
}
"""
MISTAKES = """file src/a.cpp
twice factor
    return n * ⟦2 → 3⟧;
early wrong
    int started() { return ⟦1 → 2⟧; }
equal order
    ⟦early != 1 → 1 != early⟧
unused off
    return n + ⟦1 → 2⟧;
"""


class Reach(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tree, cls.bin = folder.name, os.path.join(folder.name, "build/simt/bin")
        at = lambda path: os.path.join(cls.tree, path)
        mutants.write_if_changed(at("src/a.cpp"), PROGRAM.encode())
        mutants.write_if_changed(at("list.txt"), MISTAKES.encode())
        cls.mutants = mutants.read_list(at("list.txt"))
        for number, mutant in enumerate(cls.mutants):
            mutant.number = number
        texts = mutants.rewrite_all(cls.tree, cls.mutants)
        texts |= {reach.SWITCH: reach.SWITCH_TEXT, reach.SWITCH_SOURCE: reach.SWITCH_SOURCE_TEXT}
        for path, text in texts.items():
            mutants.write_if_changed(at(path), text.encode())
        os.makedirs(cls.bin)
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", at("src/a.cpp"), at(reach.SWITCH_SOURCE),
                        "-o", os.path.join(cls.bin, "a_test")], check=True)
        suites = {"Sum": [], "Child": [], "Broken": [], "Long": ["a_test=Long.a", "a_test=Long.b"]}
        cls.tests = {f"a_test={suite}.*": parts for suite, parts in suites.items()}

    def record(self, without=""):
        """The recording, and how many tests ran for it."""
        with mock.patch.object(reach, "find_tests", return_value=self.tests), \
             mock.patch.object(reach, "LONG_SUITE", 1), mock.patch("builtins.print"), \
             mock.patch.object(reach, "record_test", side_effect=reach.record_test) as ran:
            return reach.recording(self.tree, [m.name for m in self.mutants], 2, "", without), ran.call_count

    def judge(self, known, **options):
        how = mutants.Judging(limit=60, **options)
        return {m.name: mutants.judge(self.tree, m, known, how) for m in self.mutants}

    def test_a_mutant_has_the_tests_that_reach_it(self):
        reached = self.record()[0]["reached"]
        everything = {"a_test=Sum.*", "a_test=Child.*", "a_test=Long.a", "a_test=Long.b"}
        self.assertEqual(set(reached["twice"]), {"a_test=Sum.*", "a_test=Child.*"})
        self.assertEqual(set(reached["early"]), everything)
        self.assertEqual(set(reached["equal"]), everything)
        self.assertEqual(reached["unused"], [])

    def test_a_recording_serves_until_a_program_is_linked(self):
        os.utime(os.path.join(self.bin, "a_test"), (2, 2))
        known, ran = self.record("Child")
        self.assertEqual(ran, 5)  # with the parts of a long suite
        self.assertEqual(known["reached"]["twice"], ["a_test=Sum.*"])
        known, ran = self.record()
        self.assertEqual((known["reached"]["twice"], ran), (["a_test=Sum.*", "a_test=Child.*"], 1))
        self.assertEqual(self.record(), (known, 0))
        os.utime(os.path.join(self.bin, "a_test"), (1, 1))
        self.assertEqual(self.record()[1], 6)

    def test_a_test_that_passes_only_without_marks_is_used(self):
        variables = []

        def run(tree, preset, test, limit, **chosen):
            variables.append(bool(chosen))
            return ("a_test: Counts.calls" if chosen else ""), False

        with mock.patch.object(reach, "run_test", run), mock.patch("builtins.print"):
            self.assertEqual(reach.record_test(self.tree, "a_test=Counts.*", 4, 60)[1], [])
        self.assertEqual(variables, [True, True, False])

    def test_the_tests_that_reach_a_mutant_judge_it(self):
        known, _ = self.record()
        results = self.judge(known)
        self.assertEqual({name: result["result"] for name, result in results.items()},
                         {"twice": "caught", "early": "caught", "equal": "survived", "unused": "survived"})
        self.assertEqual(results["equal"]["by"], "reached by 4 tests")
        self.assertEqual(results["unused"]["by"], "reached by no tests")

    def test_no_further_tests_are_started_after_the_total_time(self):
        known, _ = self.record()
        late = self.judge(known, total=0)
        self.assertEqual({name: result["result"] for name, result in late.items()}, dict.fromkeys(late, "survived"))
        self.assertRegex(late["equal"]["by"], r"reached by 4 tests, (\d) of \1 processes not tried")
        self.assertEqual(late["unused"]["by"], "reached by no tests")

    def test_the_programs_that_are_named_judge(self):
        known, _ = self.record()
        self.assertEqual(self.judge(known, programs="b_test,a_test")["twice"]["result"], "caught")
        self.assertEqual(self.judge(known, programs="b_test")["twice"]["by"], "reached by no tests")

    def test_other_presets_judge_with_what_ci_runs_there(self):
        with open(os.path.join(mutants.ROOT, "launch/test.sh"), encoding="utf-8") as file:
            script = file.read()
        asan = re.search(r"tests=\(\{(.*)\}_test\)", script)[1]
        tsan = re.search(r"build cpu-tsan \{(.*)\}_test", script)[1]
        self.assertEqual(mutants.IN_CI, {preset: ",".join(name + "_test" for name in names.split(","))
                                         for preset, names in {"simt-asan": asan, "cpu-tsan": tsan}.items()})

    def test_programs_start_with_the_variables_of_ctest(self):
        tests = [{"name": "no command", "properties": []},
                 {"command": ["run_suite.py", "/bin/b_test"], "properties": [
                     {"name": "LABELS", "value": ["b"]}, {"name": "ENVIRONMENT", "value": ["A=1", "B=c=d:e"]}]}]
        self.assertEqual(reach.environment_of(tests, "b_test"), {"A": "1", "B": "c=d:e"})
        self.assertEqual(reach.environment_of(tests, "a_test"), {})

    def test_a_failure_without_the_mutant_as_well_is_no_catch(self):
        known, _ = self.record()
        for fails_always, expected in (False, "caught"), (True, "survived"):
            def run(tree, preset, test, limit, **variables):
                return ("a_test: Sum.One" if fails_always or "DLRM_MUTANT" in variables else ""), False
            with mock.patch.object(reach, "run_test", side_effect=run):
                self.assertEqual(self.judge(known)["twice"]["result"], expected)

    def test_a_failure_that_does_not_occur_again_is_no_catch(self):
        known, failed = self.record()[0], set()

        def run(tree, preset, test, limit, **variables):
            first = "DLRM_MUTANT" in variables and test not in failed
            failed.add(test)
            return ("a_test: Sum.One" if first else ""), False
        with mock.patch.object(reach, "run_test", side_effect=run):
            self.assertEqual(self.judge(known)["twice"]["result"], "survived")

    def test_only_tests_of_the_chosen_programs_are_found(self):
        programs = [["python3", "run_suite.py", os.path.join(self.bin, name)] for name in ("a_test", "b_test")]
        listed = {"tests": [{"name": f"t.{n}", "command": command, "properties": []}
                            for n, command in enumerate([*programs, ["python3", "check.py"]])]}
        def run(command, **_):
            return mock.Mock(stdout=json.dumps(listed) if command[0] == "ctest" else "Sum.\n  One\n")
        with mock.patch.object(subprocess, "run", side_effect=run):
            self.assertEqual(set(reach.find_tests(self.tree)), {"a_test=Sum.*", "b_test=Sum.*", r"ctest=^t\.2$"})
            self.assertEqual(set(reach.find_tests(self.tree, "b_test")), {"b_test=Sum.*"})
            self.assertEqual(set(reach.find_tests(self.tree, "a_test,ctest")), {"a_test=Sum.*", r"ctest=^t\.2$"})

    def test_an_empty_filter_of_the_environment_leaves_all_tests(self):
        listed = {"tests": [{"name": "t", "command": ["python3", "run_suite.py", os.path.join(self.bin, "a_test")],
                             "properties": []}]}
        def run(command, **_):
            if command[0] == "ctest":
                return mock.Mock(stdout=json.dumps(listed))
            return mock.Mock(stdout="Sum.\n  One\n" if "--gtest_filter=*" in command else "")
        with mock.patch.object(subprocess, "run", side_effect=run), mock.patch.dict(os.environ, GTEST_FILTER=""):
            self.assertEqual(set(reach.find_tests(self.tree)), {"a_test=Sum.*"})

    def test_another_preset_judges_what_the_recorded_one_reached(self):
        known, _ = self.record()
        for script, expected in ('[ "$DLRM_MUTANT" != 2 ]', "caught"), ("exit 1", "survived"):
            program = os.path.join(self.tree, "build/other/bin/a_test")
            mutants.write_if_changed(program, f"#!/bin/sh\n{script}\n".encode())
            os.chmod(program, 0o755)
            results = self.judge(known, preset="other")
            self.assertEqual({name: (result["result"], result["preset"]) for name, result in results.items()},
                             {"twice": ("survived", "other"), "early": ("survived", "other"),
                              "equal": (expected, "other"), "unused": ("survived", "other")})

    def test_the_environment_leaves_tests_out(self):
        known, _ = self.record()
        with mock.patch.object(reach, "run_command", return_value=("", False)) as run, \
             mock.patch.dict(os.environ, GTEST_FILTER="-Slow.*"):
            self.judge(known)
        filters = {word for call in run.call_args_list for word in call.args[0] if "gtest_filter" in word}
        self.assertTrue(filters)
        self.assertEqual([word for word in filters if not word.endswith("-Slow.*")], [])

    def test_a_report_counts_what_each_preset_caught(self):
        results = {m.name: {"result": "caught", "by": "", "preset": preset}
                   for m, preset in zip(self.mutants, ["simt", "simt", "simt-asan"])}
        results["unused"] = {"result": "survived", "by": "reached by no tests"}
        with mock.patch("builtins.print") as printed:
            mutants.report(self.mutants, results)
        self.assertIn("75.0 % of the tested ones were caught, 2 of them with simt, 1 of them with simt-asan",
                      printed.call_args.args[0])

    def test_a_listing_gives_suites_and_tests(self):
        listing = ("Running main() from gtest_main.cc\nSum.\n  One\n  DISABLED_Two\nAll/Sum.\n"
                   "  Of/0  # GetParam() = 1\n  Of/1  # GetParam() = 2\nTyped/0.  # TypeParam = int\n  One\n"
                   "DISABLED_Sum.\n  One\n")
        self.assertEqual(reach.suites_of(listing), {"Sum.": ["One"], "All/Sum.": ["Of/*"], "Typed/0.": ["One"]})

    def test_short_tests_of_a_program_share_a_process(self):
        seconds = {"a_test=A.*": 1, "a_test=B.*": 2, "a_test=C.*": 9, "b_test=A.*": 4, "ctest=^x$": 0.5, "ctest=^y$": 1}
        self.assertEqual(reach.processes(list(seconds), seconds, []),
                         [("ctest=^x$", 0.5), ("ctest=^y$", 1), ("a_test=A.*:B.*", 3), ("b_test=A.*", 4),
                          ("a_test=C.*", 9)])

    def test_a_hint_puts_its_tests_first(self):
        seconds = {"a_test=A.*": 1, "a_test=B.c": 2, "b_test=A.*": 4, r"ctest=^x\.y$": 5}
        order = lambda *hints: [test for test, _ in reach.processes(list(seconds), seconds, hints)]
        self.assertEqual(order("ctest=x.y", "a_test=Other.*:B.*"),
                         [r"ctest=^x\.y$", "a_test=B.c", "a_test=A.*", "b_test=A.*"])
        self.assertEqual(order("b_test"), ["b_test=A.*", "a_test=A.*:B.c", r"ctest=^x\.y$"])


class Draw(unittest.TestCase):
    SOURCE = """#pragma once
/// Adds.
class Sum : public Base {
 public:
  explicit Sum(int first);
  void add(int x) {  // comment
    sum_ += x;
    if (x > most_) {
      most_ = x;
    } else {
      return;
    }
  }
  int64_t size() const;
  int64_t count(const std::vector<int>& values) const { return values.size(); }

 private:
  int sum_ = 0;
  std::map<std::string, int> names_;
};
"""

    def test_lines_that_may_be_wrong_are_drawn(self):
        self.assertEqual([line for _, line in draw.lines_of_code(self.SOURCE)],
                         ["sum_ += x;", "if (x > most_) {", "most_ = x;", "return;",
                          "int64_t count(const std::vector<int>& values) const { return values.size(); }",
                          "int sum_ = 0;"])
        self.assertEqual(draw.lines_of_code(self.SOURCE)[0][0], 7)

    def test_a_seed_draws_the_same_lines_and_each_one_once(self):
        sources = {"b.cpp": self.SOURCE, "a.h": self.SOURCE}
        drawn = draw.draw(sources, 12, 5)
        self.assertEqual(drawn, draw.draw(sources, 12, 5))
        self.assertEqual(len(set(drawn)), 12)
        self.assertEqual({path for path, _, _ in drawn[:6]}, {"a.h"})
        self.assertNotEqual(draw.draw(sources, 6, 5), draw.draw(sources, 6, 6))

    def test_files_of_the_folders_are_drawn_without_the_emulator(self):
        self.assertTrue(draw.is_drawn("src/ops/a.cpp"))
        self.assertTrue(draw.is_drawn("kernels/a.cuh", ["src/ops", "kernels"]))
        self.assertFalse(draw.is_drawn("src/nn/a.cpp", ["src/ops", "kernels"]))
        self.assertFalse(draw.is_drawn("src/ops_more/a.cpp", ["src/ops"]))
        self.assertFalse(draw.is_drawn("kernels/simt/a.h"))
        self.assertFalse(draw.is_drawn("src/ops/cuda/a_toolkit.cpp"))
        self.assertFalse(draw.is_drawn("src/ops/a.txt"))

    def test_a_list_has_the_lines_below_their_files(self):
        self.assertEqual(draw.as_list([("a.h", 3, "x = 1;"), ("a.h", 5, "y;"), ("b.h", 1, "z;")], "n"),
                         "\nfile a.h\nn_1 KIND  # line 3\n    x = 1;\nn_2 KIND  # line 5\n    y;\n"
                         "\nfile b.h\nn_3 KIND  # line 1\n    z;\n")


if __name__ == "__main__":
    unittest.main()
