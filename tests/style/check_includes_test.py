#!/usr/bin/env python3
"""Every rule of check_includes.py finds a planted breach, and accepts correct input."""
import os
import tempfile
import unittest

import check_includes


class CheckIncludes(unittest.TestCase):
    def check(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
            breaches = check_includes.find(root)
            return bool(breaches), breaches

    def expect(self, good, path, header):
        code, text = self.check(path, f"#include <{header}>\n")
        self.assertEqual(code, not good, f"{path} with {header}: {text}")

    def test_modules(self):
        self.expect(True, "src/nn/a.cpp", "dlrm/ops/ops.h")
        self.expect(False, "src/ops/a.cpp", "dlrm/nn/mlp.h")
        self.expect(True, "src/nn/a.cpp", "nn/layers/a.h")
        self.expect(False, "src/nn/a.cpp", "ops/cpu/a.h")

    def test_third_party_headers(self):
        self.expect(True, "src/comm/a.cpp", "mpi.h")
        self.expect(False, "src/train/a.cpp", "mpi.h")
        self.expect(True, "src/hdf5/a.cpp", "hdf5.h")
        self.expect(False, "src/train/a.cpp", "liburing.h")
        self.expect(False, "src/data/a.cpp", "hdf5.h")
        self.expect(True, "python/a.cpp", "pybind11/numpy.h")
        self.expect(False, "src/train/a.cpp", "pybind11/numpy.h")

    def test_kernels(self):
        for good in ("src/ops/cuda/a.cpp", "src/comm/nccl/bf16_sum.cpp", "src/comm/nccl/bf16_node_sum.cpp", "kernels/a.cu", "tests/ops/a.cpp"):
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

    def test_lengths(self):
        self.assertEqual(self.check("src/core/a.h", "\n" * 501)[0], 1)

    def test_special_cases_for_one_rank(self):
        for code in ("if (world_size > 1) {", "if (comm.size() == 1) return;", "if (comm_.size() != 1) {",
                     "int n = context.comm.size() == 1 ? 1 : 2;", "if (host_comm->size() > 1 && x) {", "if (world == 1) {",
                     "return comm().size() <= 1;", "if (1 < comm.size()) {", "if (comm.size() < 2) {", "if (world_size() != 1)",
                     "if (plan.world == 1) {", "if (cost.world() == 1) {", "if (world.size() >= 2) {",
                     "alone_(context.comm.size() == x)", "if (alone_) {", "bool alone_ = false;"):
            for path in ("src/train/a.cpp", "include/dlrm/nn/a.h", "data_tools/a.cpp"):
                self.assertEqual(self.check(path, code + "\n")[0], 1, f"{path}: {code}")
            for path in ("src/comm/a.cpp", "tests/train/a.cpp", "src/nn/parameters.cpp"):
                self.assertEqual(self.check(path, code + "\n")[0], 0, f"{path}: {code}")
        for code in ("for (int r = 1; r < comm.size(); ++r) {", "if (comm.size() > 10) {", "// comm.size() == 1",
                     "if (sizes.size() == 1) {", "DLRM_CHECK(world == plan.world);"):
            self.assertEqual(self.check("src/train/a.cpp", code + "\n")[0], 0, code)


if __name__ == "__main__":
    unittest.main()
