#pragma once
#include <cstdint>
#include <optional>

namespace dlrm {

/// Tells from the losses of steps that training has become unstable: their mean over a window of
/// steps exceeds the lowest mean before, or the loss of the first step, by a quarter. Windows, and
/// first steps that count, have so many samples that chance does not do it.
class LossWatch {
 public:
  struct Rise {
    double from = 0, to = 0;
  };

  /// Adds the mean loss of a step's `samples`. Returns a rise the first time that there is one.
  std::optional<Rise> add(double loss, int64_t samples);

 private:
  std::optional<double> lowest_;
  double sum_ = 0;  // of the window: loss times samples
  int64_t samples_ = 0;
  int64_t steps_ = 0;
  bool first_ = true;
  bool found_ = false;
};

}  // namespace dlrm
