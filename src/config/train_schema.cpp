#include <limits>

#include <fmt/format.h>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"

#include "names.h"
#include "run_schema.h"
#include "schedule_schema.h"

namespace dlrm {
namespace {

Schema<WireConfig> wire_schema() {
  using W = WireConfig;
  Schema<W> schema;
  schema.key("forward", &W::forward, choice(kForwardWireNames),
             "type in which pooled vectors are sent; sums are in fp32. fp32: owners round vectors "
             "that would be rounded to bf16 on arrival");
  schema.key("backward", &W::backward, choice(kTableTypeNames),
             "type in which gradients of pooled vectors are sent; those that are bf16 anyway are "
             "sent so");
  schema.key("dense", &W::dense, choice(kTableTypeNames),
             "type in which gradients of dense parameters are sent");
  return schema;
}

/// The default of the first rule, and the defaults that differ from it: "1e-10; adam 1e-08".
std::string eps_defaults(uint32_t use) {
  std::string text = fmt::format("{}", kOptimizers[0].eps);
  for (const OptimizerTraits& rule : kOptimizers) {
    if ((rule.use & use) == 0 || rule.eps == kOptimizers[0].eps) continue;
    text += fmt::format("; {} {}", rule.name, rule.eps);
  }
  return text;
}

/// Schema of the optimizer of dense layers or of tables: `use` is kDense or kSparse.
Schema<OptimizerConfig> optimizer_schema(uint32_t use) {
  using O = OptimizerConfig;
  Names<OptimizerRule> rules;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    if ((kOptimizers[i].use & use) == 0) continue;
    rules.add(kOptimizers[i].name, static_cast<OptimizerRule>(i));
  }
  Schema<O> schema;
  schema.key("type", &O::type, choice(rules), "the optimizer");
  schema.key("lr", &O::lr, real_number(0, 1e6), "learning rate before lr_schedule");
  for (const OptimizerConstant& constant : kOptimizerConstants) {
    if ((constant.use & use) == 0) continue;
    std::vector<std::string> users;
    for (const auto& [name, rule] : rules.words()) {
      if ((traits_of(static_cast<OptimizerRule>(rule)).constants & constant.bit) != 0)
        users.push_back(name);
    }
    const bool own = use == kSparse && constant.bit == kL2;  // every rule of tables has it, below
    if (users.empty() || own) continue;
    auto field = schema.key(constant.key, constant.value,
                            real_number(constant.lowest, constant.highest, constant.below_highest),
                            fmt::format("{} ({})", constant.meaning, joined(users)));
    if (constant.bit == kEps) field.default_shown(eps_defaults(use));
  }
  if (use == kSparse) {
    schema.key(
        "l2", &O::l2, real_number(0, 1e6),
        "penalty of half the squared norm: adds l2 times the row to the gradient of a row of "
        "the batch, once; ftrl: its closed form");
    schema.key("clip_norm", &O::clip_norm, real_number(0, 1e6),
               "the most that the L2 norm of a row's gradient, with its penalty, can be; 0 = no "
               "limit");
  }
  schema.then([](const Node& node, const std::string&, O& out) {
    if (!node.find("eps")) out.eps = traits_of(out.type).eps;
  });
  return schema;
}

// If train.steps is set, it replaces the default of train.epochs. Setting both is an error.
void choose_length(const Node& node, const std::string& path, TrainConfig& train) {
  const NodePtr steps = node.find("steps");
  if (!steps) return;
  if (const NodePtr epochs = node.find("epochs")) {
    throw usage_error("{}: {}.steps and {}.epochs (at {}) are both set: set one",
                      steps->place.text(), path, path, epochs->place.text());
  }
  train.epochs = 0;
}

}  // namespace

Schema<TrainConfig> train_schema() {
  using T = TrainConfig;
  Schema<T> schema;
  schema
      .key("global_batch_size", &T::global_batch_size,
           whole_number_or_auto(1, std::numeric_limits<int32_t>::max(), 0),
           "samples per step, over all ranks; auto = the largest power of 2 that fits the memory")
      .required();
  schema.key("epochs", &T::epochs, whole_number<int64_t>(1, 1000000), "passes over the data")
      .may_change()
      .omit_if([](const T& train) { return train.steps >= 0; });
  schema
      .key("steps", &T::steps, whole_number<int64_t>(0, kMaxSteps),
           "total number of steps, including those before a resume; replaces epochs; 0 only "
           "initialises")
      .default_shown("set by epochs")
      .may_change()
      .omit_if([](const T& train) { return train.steps < 0; });
  schema.key("seed", &T::seed, whole_number<uint64_t>(0, std::numeric_limits<uint64_t>::max()),
             "seed of initial weights and shuffling");
  schema.key("precision", &T::precision, choice(kPrecisionNames),
             "type of matrix products and activations; weights, sums and updates are fp32");
  schema.key("tf32", &T::tf32, boolean(), "GPU: fp32 products may use TF32");
  schema.key("pin_algorithms", &T::pin_algorithms, boolean(),
             "GPU: use the library's first algorithm for each product instead of timing several in "
             "the first step, so that two new runs give the same bits");
  schema.key("wire", &T::wire, section(wire_schema()), "types of the values that ranks send");
  schema.key("dense_optimizer", &T::dense_optimizer, section(optimizer_schema(kDense)),
             "optimizer of MLPs and cross layers");
  schema.key("sparse_optimizer", &T::sparse_optimizer, section(optimizer_schema(kSparse)),
             "optimizer of tables");
  schema.key("clip_norm", &T::clip_norm, real_number(0, 1e6),
             "the largest L2 norm of the gradients of all dense parameters, to which longer ones "
             "are scaled; 0 = none");
  schema.key("lr_schedule", &T::lr_schedule, section(schedule_schema()),
             "learning-rate schedule of both optimizers");
  schema.key("lr_scaling", &T::lr_scaling, choice(kLrScalingNames),
             "factor on the learning rates of both optimizers, of r = global_batch_size / "
             "lr_base_batch: none 1, linear r, sqrt the square root of r");
  schema.key("lr_base_batch", &T::base_batch_size,
             whole_number<int64_t>(1, std::numeric_limits<int32_t>::max()),
             "the batch size for which the learning rates are meant; used by lr_scaling");
  schema
      .key("threads", &T::threads, whole_number(0, kMostThreads),
           "compute threads per rank; 0 = OMP_NUM_THREADS if set, otherwise one for each core "
           "that the launcher assigned, at most the CPUs of the container's quota")
      .may_change();
  schema
      .key("timeout", &T::timeout, real_number(0.01, 1e7),
           "seconds without progress before the watchdog ends the job")
      .may_change();
  schema.then(choose_length);
  return schema;
}

}  // namespace dlrm
