#!/usr/bin/env python3
"""Every rule of check_docs.py finds a planted breach, and accepts correct input."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_docs.py")


class CheckDocs(unittest.TestCase):
    def check(self, text, page="docs/page.md"):
        files = {"docs/other.md": "# Two words, `three`\n", "src/core/a.h": "class Stream; void wait_for();\n",
                 "launch/run.sh": "exit 0\n", "launch/part.sh": "exit 0\n", page: text}
        with tempfile.TemporaryDirectory() as root:
            for path, content in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            os.chmod(os.path.join(root, "launch/run.sh"), 0o755)
            done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def expect(self, good, text, page="docs/page.md"):
        code, output = self.check(text, page)
        self.assertEqual(code, 0 if good else 1, f"{text}: {output}")

    def test_links(self):
        for good in ("[a](other.md)", "[a](other.md#two-words-three)", "[a](../launch/run.sh)",
                     "[a](https://example.org/none.md)", "# Here\n[a](#here)"):
            self.expect(True, good)
        for bad in ("[a](none.md)", "[a](other.md#three-words)", "![a](figures/none.svg)", "[a](#here)"):
            self.expect(False, bad)
        self.expect(True, "[a](docs/other.md)", "README.md")
        self.expect(False, "[a](other.md)", "README.md")

    def test_paths(self):
        for good in ("`src/core/a.h`", "`src/core/{a,a}.h`", "`src/core/`", "`launch/run.sh -np 4 CONFIG`", "`a.h`",
                     "`src/*/a.h`", "`build/cpu/bin`", "```\n./launch/run.sh\n```"):
            self.expect(True, good)
        for bad in ("`src/core/b.h`", "`src/{core,train}/a.h`", "`launch/walk.sh -np 4`", "`b.h`",
                    "```\n./launch/walk.sh\n```"):
            self.expect(False, bad)

    def test_commands(self):
        for good in ("./launch/run.sh x", "A=1 launch/run.sh", "bash launch/part.sh", "launch/run.sh launch/part.sh"):
            self.expect(True, f"```\n{good}\n```")
        for bad in ("launch/part.sh", "./launch/part.sh x", "A=1 B=2 launch/part.sh"):
            self.expect(False, f"```\n{bad}\n```")

    def test_names(self):
        for good in ("`Stream`", "`wait_for()`", "`Stream::wait_for`", "`OMP_NUM_THREADS`", "`C3`", "`loss`"):
            self.expect(True, good)
        for bad in ("`Streams`", "`wait_until()`", "`Stream::wait`", "`DLRM_NONE`"):
            self.expect(False, bad)

    def test_width_and_length(self):
        self.expect(True, "word " * 20)
        self.expect(False, "word " * 20 + "x")
        self.expect(True, "| " + "word " * 30)
        self.expect(True, "```\n" + "word " * 30 + "\n```")
        self.expect(True, "\n" * 250, "docs/architecture.md")
        self.expect(False, "\n" * 251, "docs/architecture.md")

    def test_modules(self):
        for good in ("| core | errors | — | fmt |", "| config | structs | core (types) | |", "| train | model | all above | |"):
            self.expect(True, good, "docs/architecture.md")
        for bad in ("| core | errors | config | fmt |", "| config | structs | — | |"):
            self.expect(False, bad, "docs/architecture.md")



if __name__ == "__main__":
    unittest.main()
