#!/usr/bin/env python3
"""Every rule of check_includes.py finds a planted breach, and lets through what is right."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_includes.py")


class CheckIncludes(unittest.TestCase):
    def check(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def expect(self, good, path, header):
        code, text = self.check(path, f"#include <{header}>\n")
        self.assertEqual(code, 0 if good else 1, f"{path} with {header}: {text}")

    def test_modules(self):
        self.expect(True, "src/nn/a.cpp", "dlrm/ops/ops.h")
        self.expect(False, "src/ops/a.cpp", "dlrm/nn/mlp.h")

    def test_third_party_headers(self):
        self.expect(True, "src/comm/a.cpp", "mpi.h")
        self.expect(False, "src/train/a.cpp", "mpi.h")
        self.expect(True, "src/hdf5/a.cpp", "hdf5.h")
        self.expect(False, "src/data/a.cpp", "hdf5.h")

    def test_kernels(self):
        for good in ("src/ops/cuda/a.cpp", "src/comm/nccl/bf16_sum.cpp", "kernels/a.cu", "tests/ops/a.cpp"):
            self.expect(True, good, "kernels/dot.h")
        for bad in ("src/ops/a.cpp", "src/comm/nccl/a.cpp", "src/train/a.cpp", "include/dlrm/ops/a.h"):
            self.expect(False, bad, "kernels/dot.h")
        self.expect(True, "kernels/a.h", "dlrm/ops/types.h")
        self.expect(False, "kernels/a.h", "dlrm/nn/mlp.h")

    def test_headers_of_cuda(self):
        for header in ("cuda_runtime.h", "dlrm/device/cuda/runtime.h"):
            for good in ("src/device/cuda/a.cpp", "src/ops/cuda/a.cpp", "src/comm/nccl/a.cpp", "kernels/a.cuh"):
                if not (good.startswith("kernels/") and "/" in header):
                    self.expect(True, good, header)
            for bad in ("src/device/a.cpp", "src/ops/cpu/a.cpp", "include/dlrm/device/a.h", "src/app/a.cpp"):
                self.expect(False, bad, header)
        for header in ("cublasLt.h", "cudnn.h", "cub/device/device_scan.cuh"):
            self.expect(True, "src/device/cuda/a_toolkit.cu", header)
            self.expect(False, "src/ops/cuda/a.cpp", header)
        self.expect(True, "src/comm/nccl/a.h", "nccl.h")
        self.expect(False, "src/device/cuda/a.cpp", "nccl.h")

    def test_the_emulator(self):
        self.expect(True, "kernels/simt/stand_ins/device/a.cpp", "simt/simt.h")
        for header in ("simt/simt.h", "kernels/simt/stand_ins/comm/fake_nccl.h"):
            for bad in ("src/train/a.cpp", "src/device/cuda/a.cpp"):
                self.expect(False, bad, header)
            self.expect(True, "tests/comm/a.cpp", header)

    def test_lengths_and_special_cases(self):
        self.assertEqual(self.check("src/core/a.h", "\n" * 501)[0], 1)
        self.assertEqual(self.check("src/train/a.cpp", "if (world_size > 1) {\n")[0], 1)
        self.assertEqual(self.check("src/comm/a.cpp", "if (world_size > 1) {\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
