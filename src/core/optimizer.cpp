#include "dlrm/core/optimizer.h"

#include <cmath>

namespace dlrm {

OptimizerStep optimizer_step(const OptimizerConfig& config, double learning_rate, int64_t step) {
  OptimizerStep result;
  result.rule = config.type;
  result.lr = static_cast<float>(learning_rate);
  result.eps = static_cast<float>(config.eps);
  result.beta1 = static_cast<float>(config.beta1);
  result.beta2 = static_cast<float>(config.beta2);
  result.beta = static_cast<float>(config.beta);
  result.l1 = static_cast<float>(config.l1);
  result.l2 = static_cast<float>(config.l2);
  result.weight_decay = static_cast<float>(config.weight_decay);
  const auto t = static_cast<double>(step + 1);
  result.correction1 = static_cast<float>(1.0 - std::pow(config.beta1, t));
  result.correction2 = static_cast<float>(1.0 - std::pow(config.beta2, t));
  result.step = static_cast<uint64_t>(step);
  return result;
}

}  // namespace dlrm
