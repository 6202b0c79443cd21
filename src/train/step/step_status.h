#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/train/model.h"
#include "dlrm/train/trainer.h"

#include "train/reports/bad_id_report.h"

namespace dlrm {

/// Exchanges the status of a step among ranks: its loss, requests to stop, and errors. One small
/// allreduce per step. If a rank has an error, every rank throws the same one.
class StepStatus {
 public:
  /// Finds the first stored value of this rank that is not finite, for an error; see
  /// first_bad_row().
  using FindBadValue = std::function<std::string()>;

  StepStatus(Context& context, Model& model, BadIdReport& bad_ids, FindBadValue find_bad_value);

  /// Begins the status of a step on a batch of `global_size` samples.
  void begin(int64_t global_size, int64_t dropped, bool stop_requested);
  /// Sends this rank's part. Waits for the loss and calls `progress` while it waits. Idempotent.
  void send(const Progress& progress);
  /// Waits for all ranks. Throws usage_error for a bad id, run_error for a loss or gradients that
  /// are not finite, naming the first layer, or for an update of the step before that was not
  /// finite. Idempotent.
  void finish();
  void poll();
  const StepResult& result() const { return result_; }

  /// On a CPU, what updates set if they store a value that is not finite. Otherwise null.
  int* bad_update() { return context_.device.asynchronous() ? nullptr : &bad_update_; }

  /// Throws if the last update was skipped or not finite, like finish() of the next step. Waits for
  /// all queued work. Collective.
  void check_last_update();
  /// Throws usage_error if this rank's device found a bad id.
  void check_own_ids() const;

 private:
  enum Field : size_t { kLoss, kStop, kBadIds, kUpdateSkipped, kBadUpdate, kFields };
  enum class Phase : uint8_t { kBegun, kSent, kDone };

  [[noreturn]] void throw_bad_id();
  [[noreturn]] void throw_not_finite();
  [[noreturn]] void throw_update_skipped();
  [[noreturn]] void throw_bad_update();

  Context& context_;
  Model& model_;
  BadIdReport& bad_ids_;
  FindBadValue find_bad_value_;
  int bad_update_ = 0;
  Phase phase_ = Phase::kDone;
  StepResult result_;
  std::vector<double> fields_;
  Pending pending_;  // declared after the fields that it writes, so it is destroyed first
};

}  // namespace dlrm
