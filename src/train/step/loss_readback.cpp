#include "loss_readback.h"

#include "dlrm/device/transfer.h"

namespace dlrm {

LossReadback::LossReadback(Context& context, const float* skip_update_flag,
                           const std::vector<double>& weights)
    : context_(context),
      flag_(skip_update_flag),
      weights_(weights),
      loss_(context.device, weights.size(), "loss"),
      host_loss_(context.device, weights.size(), "loss"),
      host_flag_(context.device, 1, "flag"),
      copied_(context.device.make_event()) {}

void LossReadback::copy() {
  context_.device.copy(host_loss_.data(), loss_.data(), weights_.size() * sizeof(double),
                       context_.stream);
  if (flag_) context_.device.copy(host_flag_.data(), flag_, sizeof(float), context_.stream);
}

double LossReadback::wait(const Progress& progress) {
  wait_for(*copied_, context_, progress);
  double sum = 0;
  for (size_t label = 0; label < weights_.size(); ++label)
    sum += weights_[label] * host_loss_[label];
  return sum;
}

bool LossReadback::update_skipped_after_all_work() {
  float flag = 0;
  if (flag_) Transfer(context_.device, context_.stream).to_host(&flag, flag_, sizeof(float));
  return flag != 0;
}

}  // namespace dlrm
