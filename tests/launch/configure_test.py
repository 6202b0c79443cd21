#!/usr/bin/env python3
"""Build files that CMake writes: on a machine without ccache, and for the installation."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HIDE_CCACHE = """
macro(find_program variable name)
  if("${name}" STREQUAL "ccache")
    set(${variable} "${variable}-NOTFOUND" CACHE FILEPATH "hidden" FORCE)
  else()
    _find_program(${variable} ${name} ${ARGN})
  endif()
endmacro()
"""


class WithoutCcache(unittest.TestCase):
    def expect_no_ccache(self, cuda):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        hide = os.path.join(folder, "hide.cmake")
        with open(hide, "w", encoding="utf-8") as file:
            file.write(HIDE_CCACHE)
        done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DDLRM_CUDA={cuda}", "-DDLRM_TESTS=OFF",
                               "-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=" + hide], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(folder, "CMakeFiles", "rules.ninja"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual([line for line in lines if "NOTFOUND" in line or "ccache" in line.lower()], [])
        return lines

    def test_of_cpus(self):
        self.expect_no_ccache("OFF")

    @unittest.skipUnless(shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc"), "nvcc is not installed")
    def test_of_gpus(self):
        lines = self.expect_no_ccache("ON")
        launched = [line for line in lines if "cmake/keep_ptxas.sh" in line and "nvcc" in line]
        self.assertTrue(launched, "nvcc is not started by keep_ptxas.sh")


class Installation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.run_cmake("-S", ROOT, "-B", self.folder, "-G", "Ninja", "-DDLRM_TESTS=OFF")

    def run_cmake(self, *arguments):
        done = subprocess.run(["cmake", *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def pretend_to_build(self, target):
        """Files in the places of the libraries and programs that a target builds."""
        plan = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True,
                              check=True)
        for path in set(re.findall(r"\bbin/dlrm[\w-]+|\b[\w/]+/libdlrm_\w+\.a", plan.stdout)):
            os.makedirs(os.path.dirname(os.path.join(self.folder, path)), exist_ok=True)
            shutil.copy("/bin/true", os.path.join(self.folder, path))

    def installed(self):
        prefix = os.path.join(self.folder, "prefix")
        said = self.run_cmake("--install", self.folder, "--prefix", prefix)
        return sorted(os.listdir(os.path.join(prefix, "bin"))), re.findall("Not built, not installed: (.*)", said)

    def test_takes_what_is_built_and_names_the_rest(self):
        self.pretend_to_build("dlrm-train")
        self.assertEqual(self.installed(), (["dlrm-run", "dlrm-train"],
                                            ["dlrm-data", "dlrm-plan", "dlrm-preflight", "dlrm-infer", "dlrm-bench"]))
        self.pretend_to_build("programs")
        self.assertEqual(self.installed(), (["dlrm-data", "dlrm-infer", "dlrm-plan", "dlrm-preflight", "dlrm-run",
                                             "dlrm-train"], ["dlrm-bench"]))


if __name__ == "__main__":
    unittest.main()
