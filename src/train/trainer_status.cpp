// What ranks tell one another of a step: its loss, requests to stop, and what went wrong.
#include <cmath>

#include "dlrm/train/trainer.h"

namespace dlrm {

void Trainer::send_status() {
  status_[kLoss] = model_.loss_sum(progress_);
  status_[kBadIds] = known_bad_id_[0] == kNoFeature ? 0 : 1;
  status_[kSkipUpdate] = model_.skips_update() ? 1 : 0;
  status_pending_ = context_.comm.start_allreduce<double>(status_);
}

void Trainer::finish_status() {
  status_pending_.wait();
  result_.loss = status_[kLoss] / static_cast<double>(result_.samples);
  result_.stop = status_[kStop] > 0;
  if (status_[kBadIds] > 0) throw_bad_id();
  throw_if_not_finite(result_.loss);
  if (status_[kSkipUpdate] > 0) throw_update_skipped();
}

void Trainer::check_last_update() {
  int64_t suppressed = model_.skips_update_now() ? 1 : 0;
  context_.comm.allreduce_max({&suppressed, 1});
  if (suppressed > 0) throw_update_skipped();
}

void Trainer::throw_update_skipped() {
  const auto [path, rank] = first_text(model_.first_non_finite(pooled_).value_or(""));
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

std::string Trainer::bad_id() const {
  if (known_bad_id_[0] == kNoFeature) return "";
  std::vector<std::string> names;
  for (const TableConfig& table : config_.model.tables) {
    for (const FeatureConfig& feature : table.features) names.push_back(feature.name);
  }
  return fmt::format("sample {}, feature {}: id {} in the device's memory is outside its table",
                     known_bad_id_[1], names[static_cast<size_t>(known_bad_id_[0])],
                     known_bad_id_[2]);
}

/// The first rank's text that is not empty, and that rank. Collective.
std::pair<std::string, size_t> Trainer::first_text(const std::string& mine) {
  std::vector<int64_t> lengths;
  const std::vector<char> all = context_.comm.allgatherv<char>(mine, &lengths);
  size_t at = 0;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    const std::string text(all.data() + at, static_cast<size_t>(lengths[rank]));
    at += text.size();
    if (!text.empty()) return {text, rank};
  }
  return {};
}

void Trainer::throw_bad_id() {
  const auto [text, rank] = first_text(bad_id());
  throw usage_error("{} (rank {})", text, rank);
}

void Trainer::throw_if_not_finite(double loss) {
  if (std::isfinite(loss)) return;
  loss = std::abs(loss);  // "-nan" tells nothing more
  const auto [path, rank] = first_text(model_.first_non_finite(pooled_).value_or(""));
  if (path.empty()) throw run_error("the loss is {} though every layer's output is finite", loss);
  throw run_error(
      "the loss is {}: {} gave the first value that is not finite (rank {}); a smaller learning "
      "rate or a warm-up may help",
      loss, path, rank);
}

}  // namespace dlrm
