#!/usr/bin/env python3
"""Build files that CMake writes on a machine without ccache."""
import os
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


if __name__ == "__main__":
    unittest.main()
