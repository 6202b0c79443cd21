#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/train/model.h"
#include "dlrm/train/trainer.h"

#include "bad_id_report.h"

namespace dlrm {

/// Exchanges the status of a step among ranks: its loss, requests to stop, and errors. One small
/// allreduce per step. If a rank has an error, every rank throws the same one.
class StepStatus {
 public:
  StepStatus(Context& context, Model& model, BadIdReport& bad_ids);

  /// Begins the status of a step on a batch of `global_size` samples.
  void begin(int64_t global_size, int64_t dropped, bool stop_requested);
  /// Sends this rank's part. Waits for the loss and calls `progress` while it waits. Idempotent.
  void send(const Progress& progress);
  /// Waits for all ranks. Throws usage_error for a bad id, run_error for a loss or gradients that
  /// are not finite, naming the first layer. Idempotent.
  void finish();
  void poll();
  const StepResult& result() const { return result_; }

  /// Throws if the last update was skipped, like finish() of the next step. Waits for all queued
  /// work. Collective.
  void check_last_update();
  /// Throws usage_error if this rank's device found a bad id.
  void check_own_ids() const;

 private:
  enum Field : size_t { kLoss, kStop, kBadIds, kUpdateSkipped, kFields };
  enum class Phase : uint8_t { kBegun, kSent, kDone };

  [[noreturn]] void throw_bad_id();
  [[noreturn]] void throw_not_finite();
  [[noreturn]] void throw_update_skipped();

  Context& context_;
  Model& model_;
  BadIdReport& bad_ids_;
  Phase phase_ = Phase::kDone;
  StepResult result_;
  std::vector<double> fields_;
  Pending pending_;  // declared after the fields that it writes, so it is destroyed first
};

}  // namespace dlrm
