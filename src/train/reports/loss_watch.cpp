#include "loss_watch.h"

#include <algorithm>

namespace dlrm {
namespace {

constexpr int64_t kLeastSteps = 8;
constexpr int64_t kLeastSamples = 8192;
constexpr int64_t kLeastOfFirst = 1024;  // samples of the first step
constexpr double kRise = 1.25;

}  // namespace

std::optional<LossWatch::Rise> LossWatch::add(double loss, int64_t samples) {
  if (found_) return std::nullopt;
  sum_ += loss * static_cast<double>(samples);
  samples_ += samples;
  ++steps_;
  if (first_ && samples >= kLeastOfFirst) lowest_ = loss;  // before any update
  first_ = false;
  if (steps_ < kLeastSteps || samples_ < kLeastSamples) return std::nullopt;
  const double mean = sum_ / static_cast<double>(samples_);
  sum_ = 0;
  samples_ = steps_ = 0;
  const double before = lowest_.value_or(mean);
  lowest_ = std::min(before, mean);
  if (mean <= kRise * before) return std::nullopt;
  found_ = true;
  return Rise{before, mean};
}

}  // namespace dlrm
