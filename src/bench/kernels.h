#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

namespace dlrm::bench {

/// Sizes of what is timed; 0 stands for what fits the device (KernelSizes::for_device).
struct KernelSizes {
  int64_t batch = 0;             ///< samples
  int64_t tables = 0;            ///< that are looked up
  int64_t rows = 0;              ///< of each table: together far more than the last cache holds
  int64_t hotness = 20;          ///< ids of a bag
  int64_t width = 128;           ///< of a row, and of an interacting vector
  int64_t features = 26;         ///< that interact with x
  int64_t matrix = 0;            ///< of the plain square product
  int64_t copied = 0;            ///< bytes of the plain copy
  int64_t layer = 1024;          ///< inputs and outputs of the linear layer
  int64_t crossed = 3456;        ///< columns of the cross layer: MLPerf's 27 vectors of 128
  int64_t parameters = 1 << 24;  ///< of dense updates: more than caches hold
  bool variants = true;          ///< lookups of other shapes besides, as models have them

  void fill_for(const Device& device);
};

struct KernelOptions {
  KernelSizes sizes;
  double seconds = 0.2;         ///< spent on each figure, at least
  std::string only;             ///< names that contain this, and the limits
  std::string device = "auto";  ///< cpu, cuda or auto
  int threads = 1;              ///< of a CPU
  bool tf32 = true;             ///< fp32 products of a GPU
};

/// One operation timed. A share is of the time that the limit which binds it allows.
struct KernelRow {
  std::string name;
  std::string shape;
  double seconds = 0;  ///< a call, the best group of calls
  double median = 0;   ///< of the groups
  double bytes = 0;    ///< that a call must move at least
  double flops = 0;    ///< if products are the limit, otherwise 0
  double share = 0;    ///< of the limit, once that is known
  double goal = 0;     ///< share expected of a GPU, or 0
};

/// Limits of the device, measured with a copy between two of its arrays (bytes read and written)
/// and with square products.
struct KernelLimits {
  double bytes_per_second = 0;
  double flops_fp32 = 0;
  double flops_bf16 = 0;
};

struct KernelResult {
  std::string device;
  std::string execution;
  KernelLimits limits;
  std::vector<KernelRow> rows;
};

/// Times every operation on the device of `options`, whose sizes are filled for it.
KernelResult time_kernels(KernelOptions& options);
/// The same on `device`. Calls are queued in groups, and the host waits once per group, so that the
/// time is the device's. Short calls are launched as a graph, as in training, if the device has
/// graphs. `ops` computes on `stream`.
KernelResult time_kernels(Device& device, Stream& stream, Ops& ops, const KernelOptions& options);

std::string to_json(const KernelOptions& options, const KernelResult& result);
std::string to_table(const KernelResult& result);

}  // namespace dlrm::bench
