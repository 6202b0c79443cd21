#include "cpu/cpu_ops.h"

#include "dlrm/core/error.h"

namespace dlrm::cpu {

CpuOps::CpuOps(Device& device, int threads, const std::string& isa)
    : device_(device),
      threads_(threads),
      kernels_(choose_kernels(isa)),
      products_(device, kernels_, threads, isa.empty() || isa == "avx512"),
      scratch_(device, 0, "thread scratch"),
      loss_parts_(device, 0, "loss sums"),
      squares_(device, 0, "squares of a tensor"),
      row_sorter_(device, threads),
      long_runs_(device, 0, "long runs"),
      long_first_(device, 0, "long runs"),
      touched_rows_(device, 0, "touched rows"),
      chunk_sums_(device, 0, "long runs") {
  DLRM_CHECK(threads >= 1, "{} threads", threads);
}

std::string CpuOps::name() const {
  return fmt::format("cpu {}{}", kernels_.name, products_.native_bf16() ? " bf16" : "");
}

ThreadScratch CpuOps::thread_scratch(int64_t floats) {
  constexpr int64_t kPage = 1024;  // in floats; threads share no page, and therefore no cache line
  if (floats > scratch_stride_) {
    scratch_stride_ = (floats + kPage - 1) / kPage * kPage;
    scratch_.reserve(static_cast<size_t>(threads_) * static_cast<size_t>(scratch_stride_));
  }
  return {scratch_.data(), scratch_stride_};
}

}  // namespace dlrm::cpu

namespace dlrm {

std::unique_ptr<Ops> make_cpu_ops(Device& device, Stream&, int threads, const std::string& isa) {
  return std::make_unique<cpu::CpuOps>(device, threads, isa);
}

}  // namespace dlrm
