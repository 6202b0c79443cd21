#pragma once
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace dlrm::kernels {

/// Device memory that holds a copy of a vector.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyDefault), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> download() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDefault), cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace dlrm::kernels
