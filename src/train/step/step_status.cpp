#include "step_status.h"

#include <cmath>

namespace dlrm {
namespace {

struct RankText {
  std::string text;
  size_t rank = 0;
};

/// The text of the lowest rank whose text is not empty. Collective.
RankText first_text(Communicator& comm, const std::string& mine) {
  std::vector<int64_t> lengths;
  const std::vector<char> all = comm.allgatherv<char>(mine, &lengths);
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto length = static_cast<size_t>(lengths[rank]);
    if (length > 0) return {std::string(all.data(), length), rank};
  }
  return {};
}

}  // namespace

StepStatus::StepStatus(Context& context, Model& model, BadIdReport& bad_ids,
                       FindBadValue find_bad_value)
    : context_(context),
      model_(model),
      bad_ids_(bad_ids),
      find_bad_value_(std::move(find_bad_value)),
      fields_(kFields) {}

void StepStatus::begin(int64_t global_size, int64_t dropped, bool stop_requested) {
  result_.samples = global_size;
  result_.dropped = dropped;
  fields_[kStop] = stop_requested ? 1 : 0;
  phase_ = Phase::kBegun;
}

void StepStatus::send(const Progress& progress) {
  if (phase_ != Phase::kBegun) return;
  fields_[kLoss] = model_.loss_sum(progress);
  fields_[kBadIds] = bad_ids_.any() ? 1 : 0;
  fields_[kUpdateSkipped] = model_.update_skipped() ? 1 : 0;
  fields_[kBadUpdate] = bad_update_;
  pending_ = context_.comm.start_allreduce<double>(fields_);
  phase_ = Phase::kSent;
}

void StepStatus::finish() {
  if (phase_ == Phase::kDone) return;
  pending_.wait();
  phase_ = Phase::kDone;
  result_.loss = fields_[kLoss] / static_cast<double>(result_.samples);
  result_.stop = fields_[kStop] > 0;
  if (fields_[kBadIds] > 0) throw_bad_id();
  if (!std::isfinite(result_.loss)) throw_not_finite();
  if (fields_[kUpdateSkipped] > 0) throw_update_skipped();
  if (fields_[kBadUpdate] > 0) throw_bad_update();
}

void StepStatus::poll() { pending_.poll(); }

void StepStatus::check_last_update() {
  int64_t found[] = {model_.update_skipped_after_all_work() ? 1 : 0, bad_update_};
  context_.comm.allreduce_max(found);
  if (found[0] > 0) throw_update_skipped();
  if (found[1] > 0) throw_bad_update();
}

void StepStatus::check_own_ids() const {
  if (bad_ids_.any()) throw usage_error("{}", bad_ids_.text());
}

void StepStatus::throw_bad_id() {
  const auto [text, rank] = first_text(context_.comm, bad_ids_.text());
  throw usage_error("{} (rank {})", text, rank);
}

void StepStatus::throw_not_finite() {
  const double loss = std::abs(result_.loss);  // prints "nan" rather than "-nan"
  const auto [path, rank] = first_text(context_.comm, model_.first_bad_output().value_or(""));
  if (path.empty()) throw run_error("the loss is {} though every layer's output is finite", loss);
  throw run_error(
      "the loss is {}: {} gave the first value that is not finite (rank {}); a smaller learning "
      "rate or a warm-up may help",
      loss, path, rank);
}

void StepStatus::throw_update_skipped() {
  const auto [path, rank] = first_text(context_.comm, model_.first_bad_output().value_or(""));
  if (path.empty()) {
    throw run_error(
        "the gradients of the step before were not finite, and no weight was changed by them; a "
        "smaller learning rate or a warm-up may help");
  }
  throw run_error(
      "gradients are not finite: {} gave the first value that is not finite (rank {}); a smaller "
      "learning rate or a warm-up may help",
      path, rank);
}

void StepStatus::throw_bad_update() {
  const auto [where, rank] = first_text(context_.comm, bad_update_ ? find_bad_value_() : "");
  throw run_error(
      "the last update is not finite: {} (rank {}); a smaller learning rate or a warm-up may help",
      where.empty() ? "a value" : where, rank);
}

}  // namespace dlrm
