#!/usr/bin/env python3
"""check_definitions.py finds planted types that are defined twice, and accepts types that no program links together."""
import os
import tempfile
import unittest

import check_definitions

NAMED = "namespace dlrm {{\n{}\n}}  // namespace dlrm\n"
UNNAMED = "namespace dlrm {{\nnamespace {{\n{}\n}}\n}}\n"


class CheckDefinitions(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_definitions.find(root)[1]

    def expect(self, twice, first, second, where=("src/comm/a.h", "src/ops/cuda/b.h")):
        self.assertEqual(bool(self.found({where[0]: first, where[1]: second})), twice, f"{first} and {second}")

    def test_every_kind_of_type_is_found(self):
        for body in ("class Scratch {{ {} }};", "struct Node final : Base {{ {} }};", "enum Place {{ k{} }};",
                     "enum class Kind : char {{ k{} }};", "union U {{ {} }};", "template <class T>\nstruct T2 {{ {} }};",
                     "struct alignas(64) Line {{ {} }};", "struct Outer::Inner {{ {} }};"):
            self.expect(True, NAMED.format(body.format("a")), NAMED.format(body.format("b")))

    def test_both_files_are_named(self):
        text = NAMED.format("struct Node { int a; };")
        self.assertEqual(self.found({"src/comm/node.h": text, "src/config/node.h": text}),
                         [("dlrm::Node", ["src/comm/node.h", "src/config/node.h"])])

    def test_other_names_are_let_through(self):
        node = "struct Node { int a; };"
        for other in (UNNAMED.format(node), NAMED.format("struct Node;"), NAMED.format("// " + node),
                      NAMED.format(f"void f() {{ {node} }}"), NAMED.format(f"class Tree {{ {node} }};"),
                      NAMED.format('const char* text = "' + node + '";'), "namespace other {" + node + "}",
                      NAMED.format("Node node() { return {}; }"), NAMED.format("#define NODE " + node),
                      NAMED.format("struct Node<int> { int a; };")):
            self.expect(False, NAMED.format(node), other)

    def test_files_that_no_program_links_together_are_let_through(self):
        text = NAMED.format("struct Rank { int a; };")
        for where in (("tests/comm/a.cpp", "tests/train/a.cpp"), ("tests/ops/a.h", "src/train/a.h"),
                      ("src/app/one.cpp", "src/app/two.cpp")):
            self.expect(False, text, text, where)
        for where in (("tests/train/a.cpp", "tests/train/b.cpp"), ("tests/train/a.h", "src/ops/a.h"),
                      ("src/app/one.cpp", "src/core/a.h"), ("data_tools/a.h", "data_tools/b.h")):
            self.expect(True, text, text, where)


if __name__ == "__main__":
    unittest.main()
