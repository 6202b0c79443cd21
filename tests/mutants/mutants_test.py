#!/usr/bin/env python3
"""mutants.py rewrites sources as their lists say, and refuses lists that do not fit."""
import os
import tempfile
import unittest

import mutants

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


if __name__ == "__main__":
    unittest.main()
