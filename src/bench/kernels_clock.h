#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels.h"
#include "repeat.h"

namespace dlrm::bench {

/// What the timed operations share: where they run, and what has been timed.
class KernelClock {
 public:
  KernelClock(Device& device, Stream& stream, Ops& ops, const KernelOptions& options)
      : device(device), stream(stream), ops(ops), options(options) {}

  /// Seconds of a call, in the best of several groups and in their median. A group is of as many
  /// calls as a call is short, so that waiting for it weighs little.
  struct Timing {
    double best = 0;
    double median = 0;
  };
  Timing timing_of(const std::function<void()>& call);
  double seconds_of(const std::function<void()>& call) { return timing_of(call).best; }
  /// Whether a row of this name was asked for.
  bool wants(std::string_view name) const { return name.find(options.only) != std::string::npos; }
  /// Times `call` and keeps it as a row, where it was asked for.
  void time(KernelRow row, const std::function<void()>& call);

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
  std::vector<KernelRow> rows;

 private:
  Timing groups_of(const std::function<void()>& call);
};

/// Parts of the list of operations: kernels_*.cpp.
KernelLimits time_limits(KernelClock& clock);
void time_lookups(KernelClock& clock);
void time_interactions(KernelClock& clock);
void time_dense(KernelClock& clock);

}  // namespace dlrm::bench
