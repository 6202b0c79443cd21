#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/dtype.h"
#include "dlrm/core/view.h"
#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/transfer.h"

namespace dlrm {

/// A GPU (or the emulator) with a stream.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!device) GTEST_SKIP() << "no GPU here";
  }
  template <class T>
  Array<T> upload(const std::vector<T>& values) {
    Array<T> array(*device, std::max<size_t>(1, values.size()), "test");
    transfer->to_device(array.data(), values.data(), values.size() * sizeof(T));
    return array;
  }
  template <class T>
  std::vector<T> download(const T* data, size_t count) {
    std::vector<T> values(count);
    transfer->to_host(values.data(), data, count * sizeof(T));
    return values;
  }
  cudaStream_t native() { return cuda::native(*stream); }

  std::shared_ptr<Device> device = cuda_device_count() > 0 ? make_cuda_device(0) : nullptr;
  std::unique_ptr<Stream> stream = device ? device->make_stream() : nullptr;
  std::unique_ptr<Transfer> transfer =
      device ? std::make_unique<Transfer>(*device, *stream) : nullptr;
};

/// A matrix on the device, and its stored values on the host as doubles.
class GpuMatrix {
 public:
  GpuMatrix(Device& device, DType type, int64_t rows, int64_t cols, int64_t stride)
      : type_(type),
        rows_(rows),
        cols_(cols),
        stride_(stride),
        bytes_(static_cast<size_t>(rows * stride) * size_of(type), '\x5a'),
        array_(device, bytes_.size(), "test matrix") {}

  void fill(const std::function<float(int64_t, int64_t)>& value) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) set(r, c, value(r, c));
    }
  }
  void set(int64_t r, int64_t c, float value) {
    const BFloat16 rounded(value);
    const void* from = type_ == DType::kFloat32 ? static_cast<const void*>(&value) : &rounded;
    std::memcpy(cell(r, c), from, size_of(type_));
  }
  float at(int64_t r, int64_t c) {
    float value = 0;
    if (type_ == DType::kFloat32) {
      std::memcpy(&value, cell(r, c), 4);
      return value;
    }
    BFloat16 half;
    std::memcpy(&half, cell(r, c), 2);
    return static_cast<float>(half);
  }
  void upload(Transfer& transfer) {
    transfer.to_device(array_.data(), bytes_.data(), bytes_.size());
  }
  /// Reads the matrix back. Fails the test if cells outside the matrix changed.
  void download(Transfer& transfer) {
    const std::vector<char> before = bytes_;
    transfer.to_host(bytes_.data(), array_.data(), bytes_.size());
    const auto row = static_cast<size_t>(stride_) * size_of(type_);
    const auto used = static_cast<size_t>(cols_) * size_of(type_);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i % row >= used && bytes_[i] != before[i]) {
        ADD_FAILURE() << "wrote outside the matrix, byte " << i;
        return;
      }
    }
  }
  Matrix matrix() const { return {array_.data(), type_, rows_, cols_, stride_}; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

 private:
  char* cell(int64_t r, int64_t c) {
    return bytes_.data() + static_cast<size_t>(r * stride_ + c) * size_of(type_);
  }

  DType type_;
  int64_t rows_, cols_, stride_;
  std::vector<char> bytes_;
  Array<char> array_;
};

}  // namespace dlrm
