#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "guarded_device.h"
#include "mirror.h"

namespace dlrm {

/// The types of tables, activations and weights.
inline constexpr InitType kInitTypes[] = {InitType::kUniform, InitType::kNormal, InitType::kZero};
inline constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

/// One execution to test: an instruction set and a number of threads, or a GPU.
struct OpsExecution {
  std::string isa;
  int threads = 1;
  bool guarded = false;  ///< arguments end at pages that cannot be accessed
  bool gpu() const { return isa == "cuda"; }
  bool copies() const { return gpu() || guarded; }  ///< its arguments
};

/// A CPU device with its stream. Its executions take arguments in the host's memory.
struct Machine {
  std::shared_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream();

  std::unique_ptr<Ops> run_as(const OpsExecution& e) const {
    return e.gpu() ? gpu() : e.guarded ? guarded(e) : cpu(e);
  }
  std::unique_ptr<Ops> cpu(const OpsExecution& e) const {
    return make_cpu_ops(*device, *stream, e.threads, e.isa);
  }
  /// The CPU's execution on copies of arguments in guarded memory.
  static std::unique_ptr<Ops> guarded(const OpsExecution& e) {
    auto own = make_guarded_device(1);
    auto queue = own->make_stream();
    auto ops = make_cpu_ops(*own, *queue, e.threads, e.isa);
    return make_mirrored_ops(std::move(own), std::move(queue), std::move(ops));
  }
  /// The GPU's execution with fp32 products, on copies of arguments in its memory. An emulated one
  /// takes them from guarded memory of the host. `checked`: it compares itself with the reference.
  static std::unique_ptr<Ops> gpu(bool checked = false) {
    auto own = make_cuda_device(0);
    auto queue = own->make_stream();
    CudaOpsOptions exact;
    exact.tf32 = false;
    auto ops = make_cuda_ops(*own, *queue, exact);
    if (checked) ops = make_checked_ops(std::move(ops), *own, *queue);
    if (cuda_is_emulated()) own = make_guarded_device(1, std::move(own));
    return make_mirrored_ops(std::move(own), std::move(queue), std::move(ops));
  }
  std::unique_ptr<Ops> reference() const { return make_reference_ops(*device, *stream); }
};

/// Executions of every instruction set of this machine and of a GPU, which have every number of
/// threads. All of these together if DLRM_TEST_ALL is set.
inline std::vector<OpsExecution> executions() {
  const bool every = std::getenv("DLRM_TEST_ALL") != nullptr;
  std::vector<OpsExecution> all;
  for (const char* isa : {"avx2", "avx512"}) {
    try {
      Machine().cpu({isa, 1});
    } catch (const Error&) {
      continue;
    }
    if (every) all.push_back({isa, 1});
    all.push_back({isa, 2});
    all.push_back({isa, 1, true});
  }
  all.push_back({all.back().isa, 3});
  if (cuda_device_count() > 0) all.push_back({"cuda", 1});
  return all;
}

/// The GPU's execution, if there is one.
inline std::vector<OpsExecution> gpus() {
  if (cuda_device_count() == 0) return {};
  return {{"cuda", 1}};
}

inline std::string execution_name(const testing::TestParamInfo<OpsExecution>& info) {
  return info.param.isa + "_" + std::to_string(info.param.threads) +
         (info.param.guarded ? "_guarded" : "");
}

/// A matrix with a margin on both sides and below, which operations must not change.
class Cells {
 public:
  Cells(int64_t rows, int64_t cols, DType type = DType::kFloat32, int64_t spare = 3)
      : Cells(rows, cols, type, spare, spare) {}
  Cells(int64_t rows, int64_t cols, DType type, int64_t left, int64_t right)
      : rows_(rows),
        cols_(cols),
        left_(left),
        right_(right),
        type_(type),
        bytes_(static_cast<size_t>((rows + 2) * stride() + 1) * size_of(type), '\x5a') {}

  static Cells random(int64_t rows, int64_t cols, unsigned seed, DType type = DType::kFloat32,
                      int64_t spare = 3) {
    Cells cells(rows, cols, type, spare);
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) cells.set(r, c, normal(generator));
    }
    return cells;
  }

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  DType type() const { return type_; }
  int64_t stride() const { return left_ + cols_ + right_; }
  Matrix matrix() {
    return Matrix(bytes_.data(), type_, rows_, stride(), stride()).columns(left_, cols_);
  }
  MatrixView<float> floats() { return matrix().f32(); }

  float at(int64_t r, int64_t c) const {
    const char* p = bytes_.data() + static_cast<size_t>(offset(r, c)) * size_of(type_);
    uint16_t half = 0;
    float value = 0;
    switch (type_) {
      case DType::kFloat32:
        std::memcpy(&value, p, 4);
        return value;
      case DType::kBFloat16: {
        BFloat16 b;
        std::memcpy(&b.bits, p, 2);
        return static_cast<float>(b);
      }
      case DType::kFloat16: {
        Float16 h;
        std::memcpy(&half, p, 2);
        h.bits = half;
        return static_cast<float>(h);
      }
    }
    return value;
  }

  void set(int64_t r, int64_t c, float value) {
    char* p = bytes_.data() + static_cast<size_t>(offset(r, c)) * size_of(type_);
    const uint16_t half = type_ == DType::kBFloat16 ? BFloat16(value).bits : Float16(value).bits;
    if (type_ == DType::kFloat32) {
      std::memcpy(p, &value, 4);
    } else {
      std::memcpy(p, &half, 2);
    }
  }

  /// Rounds each cell to `type`. Some libraries add a bias in the type of the result; every
  /// execution adds a rounded one exactly.
  Cells& rounded_to(DType type) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) {
        if (type == DType::kBFloat16) set(r, c, static_cast<float>(BFloat16(at(r, c))));
      }
    }
    return *this;
  }

  bool same_bits(const Cells& other) const { return bytes_ == other.bytes_; }

  /// True if only the cells themselves were written.
  bool margins_untouched() const {
    const auto size = static_cast<int64_t>(size_of(type_));
    for (int64_t i = 0; i < static_cast<int64_t>(bytes_.size()); ++i) {
      const int64_t column = i / size % stride() - left_;
      const bool inside = column >= 0 && column < cols_ && i / size < rows_ * stride();
      if (!inside && bytes_[static_cast<size_t>(i)] != '\x5a') return false;
    }
    return true;
  }

 private:
  int64_t offset(int64_t r, int64_t c) const { return r * stride() + left_ + c; }

  int64_t rows_, cols_, left_, right_;
  DType type_;
  std::vector<char> bytes_;
};

/// The relative difference of stored values if sums in another order round to the neighbouring
/// value.
inline double relative_step(DType type) {
  return type == DType::kFloat32 ? 0x1p-20 : type == DType::kBFloat16 ? 0x1p-7 : 0x1p-10;
}

/// Checks that every cell is within `scale` times the arithmetic error of the expected one.
inline testing::AssertionResult close(const Cells& got, const Cells& expected, double scale = 1) {
  for (int64_t r = 0; r < expected.rows(); ++r) {
    for (int64_t c = 0; c < expected.cols(); ++c) {
      const double want = expected.at(r, c), have = got.at(r, c);
      const double allowed = std::abs(want) * relative_step(got.type()) * 1.01 + scale * 1e-6;
      if (!(std::abs(have - want) <= allowed)) {
        return testing::AssertionFailure()
               << "cell (" << r << ", " << c << "): " << have << ", expected " << want;
      }
    }
  }
  if (!got.margins_untouched()) return testing::AssertionFailure() << "wrote outside the matrix";
  return testing::AssertionSuccess();
}

/// Compares every execution of this machine with the reference.
class EveryExecution : public testing::TestWithParam<OpsExecution> {
 protected:
  Machine machine;
  std::unique_ptr<Ops> ops = machine.run_as(GetParam());
  std::unique_ptr<Ops> reference = machine.reference();
};

}  // namespace dlrm
