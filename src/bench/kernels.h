#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

namespace dlrm::bench {

/// Problem sizes. 0 stands for a size that fits the device (KernelSizes::for_device).
struct KernelSizes {
  int64_t batch = 0;       ///< samples
  int64_t tables = 0;      ///< tables that are looked up
  int64_t rows = 0;        ///< of each table; together far more than the last-level cache holds
  int64_t hotness = 20;    ///< ids of a bag
  int64_t width = 128;     ///< of a row, and of an interacting vector
  int64_t features = 26;   ///< that interact with x
  int64_t matrix = 0;      ///< of the plain square product
  int64_t copied = 0;      ///< bytes of the plain copy
  int64_t layer = 1024;    ///< inputs and outputs of the linear layer
  int64_t crossed = 3456;  ///< columns of the cross layer: MLPerf's 27 vectors of 128
  int64_t rank = 512;      ///< of the cross layer's products
  int64_t parameters = 1 << 24;  ///< of dense updates: more than caches hold
  bool variants = true;          ///< also times lookups of other shapes, as real models have them

  void fill_for(const Device& device);
  /// Bytes of the largest arrays, over all operations.
  double bytes() const;
};

/// Something that has just been measured: for people, and as a JSON object. Both are one line.
struct KernelLine {
  std::string text;
  std::string json;
};

struct KernelOptions {
  KernelSizes sizes;
  double seconds = 0.2;         ///< spent on each figure, at least
  std::string only;             ///< names that contain this, and the limits
  std::string device = "auto";  ///< cpu, cuda or auto
  int threads = 1;              ///< of a CPU
  double memory_bytes = 0;      ///< of the machine, that is available
  bool tf32 = true;             ///< fp32 products of a GPU
  /// Is called with every line as soon as it is known, so that a crash loses nothing before it.
  std::function<void(const KernelLine&)> measured = {};
};

/// One timed operation. `share` is relative to the time that its tighter limit allows.
struct KernelRow {
  std::string name;
  std::string shape;
  double seconds = 0;  ///< per call, in the best group of calls
  double median = 0;   ///< per call, the median over the groups
  double bytes = 0;    ///< least number that a call must move
  double flops = 0;    ///< if products are the limit, otherwise 0
  double share = 0;    ///< of the limit; set once the limit is known
  double goal = 0;     ///< share expected of a GPU, or 0
  std::string note;    ///< what the library refused
};

/// Limits of the device: the rate of a copy between two of its arrays (bytes read and written), and
/// the rate of square products, which is 0 until a row needs it.
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

/// Times every operation on the device of `options`. Fills in sizes that are 0.
KernelResult time_kernels(KernelOptions& options);
/// Like the function above, on `device`. Calls are queued in groups, and the host waits once per
/// group, so that the time is the device's. Short calls are launched as a graph, as in training, if
/// the device supports graphs. `ops` computes on `stream`.
KernelResult time_kernels(Device& device, Stream& stream, Ops& ops, const KernelOptions& options);

KernelLine head_line(const KernelOptions& options, const KernelResult& result);
KernelLine limit_line(const std::string& name, double per_second, bool bytes);
KernelLine row_line(const KernelRow& row);

}  // namespace dlrm::bench
