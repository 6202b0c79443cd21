#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels.h"
#include "repeat.h"

namespace dlrm::bench {

/// Times operations. The files kernels_*.cpp share one clock, its device and its results.
class KernelClock {
 public:
  KernelClock(Device& device, Stream& stream, Ops& ops, const KernelOptions& options)
      : device(device), stream(stream), ops(ops), options(options) {}

  /// Seconds per call: of the best of several groups, and the median over groups. A group of short
  /// calls has more of them, so that the wait at its end matters little.
  struct Timing {
    double best = 0;
    double median = 0;
  };
  Timing timing_of(const std::function<void()>& call);
  double seconds_of(const std::function<void()>& call) { return timing_of(call).best; }
  /// True if a row of this name was requested.
  bool wants(std::string_view name) const { return name.find(options.only) != std::string::npos; }
  /// Times `call`, and adds and reports a row, if it was requested. `note` tells what the call did.
  void time(KernelRow row, const std::function<void()>& call,
            const std::function<std::string()>& note = {});

  void report(const KernelLine& line) const {
    if (options.measured) options.measured(line);
  }

  /// Device memory with these values.
  template <class T>
  Array<T> filled(const std::vector<T>& values, const char* what) {
    Array<T> array(device, values.size(), what);
    HostArray<T> staged(device, values.size(), what);
    std::copy(values.begin(), values.end(), staged.data());
    device.copy(array.data(), staged.data(), values.size() * sizeof(T), stream);
    stream.synchronize();
    return array;
  }
  /// A matrix of numbers in [-1, 1).
  Array<char> numbers(int64_t rows, int64_t cols, DType type, const char* what);

  Device& device;
  Stream& stream;
  Ops& ops;
  const KernelOptions& options;
  KernelLimits limits;
  std::vector<KernelRow> rows;

 private:
  Timing groups_of(const std::function<void()>& call);
};

/// Measures a limit, and reports it. The plain products are measured when a row needs them.
void time_copies(KernelClock& clock);
double product_limit(KernelClock& clock, DType type);

/// The groups of operations; one for each file kernels_*.cpp.
void time_lookups(KernelClock& clock);
void time_lookups_of_models(KernelClock& clock);
void time_interactions(KernelClock& clock);
void time_layers(KernelClock& clock);
void time_dense(KernelClock& clock);

}  // namespace dlrm::bench
