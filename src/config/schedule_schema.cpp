#include "schedule_schema.h"

#include "dlrm/core/error.h"

#include "names.h"
#include "run_schema.h"

namespace dlrm {
namespace {

/// Types of schedules, as bits.
constexpr uint32_t bit(ScheduleType type) { return 1u << static_cast<uint32_t>(type); }
template <uint32_t types>
bool has_no_effect(const ScheduleConfig& schedule) {
  return (bit(schedule.type) & types) == 0;
}

constexpr uint32_t kPolynomial = bit(ScheduleType::kPolynomial);
constexpr uint32_t kCosine = bit(ScheduleType::kCosine);
constexpr uint32_t kStep = bit(ScheduleType::kStep);

/// The keys that some types do not use.
using OtherKeys = std::vector<std::pair<std::string, uint32_t>>;

void check_keys(const OtherKeys& keys, const Node& node, const std::string& path,
                const ScheduleConfig& schedule) {
  const std::string& type = kScheduleTypeNames.words()[static_cast<size_t>(schedule.type)].first;
  for (const auto& [name, types] : keys) {
    const NodePtr value = node.find(name);
    if (!value || (types & bit(schedule.type)) != 0) continue;
    throw usage_error("{}: {}.{} has no effect if the type is {}: leave it out",
                      value->place.text(), path, name, type);
  }
  if (schedule.type == ScheduleType::kStep && schedule.every == 0) {
    throw usage_error("{}: {}.every is missing: type step needs a whole number from 1 to {}",
                      node.place.text(), path, kMaxSteps);
  }
}

}  // namespace

Schema<ScheduleConfig> schedule_schema() {
  using S = ScheduleConfig;
  const auto steps = whole_number<int64_t>(0, kMaxSteps);
  Schema<S> schema;
  OtherKeys keys;
  const auto of_types = [&]<uint32_t types>(auto field, const char* name) {
    keys.emplace_back(name, types);
    field.omit_if(has_no_effect<types>);
  };
  schema.key("type", &S::type, choice(kScheduleTypeNames), "how the learning rate falls");
  schema.key("warmup_steps", &S::warmup_steps, steps,
             "steps in which the learning rate rises linearly");
  schema.key("decay_start", &S::decay_start, steps,
             "step at which the decay begins, counted from 0");
  of_types.operator()<kPolynomial | kCosine>(
      schema.key("decay_steps", &S::decay_steps, steps,
                 "polynomial, cosine: steps of decay, after which the learning rate is 0, or floor "
                 "times lr; 0 = no decay"),
      "decay_steps");
  of_types.operator()<kPolynomial>(
      schema.key("power", &S::power, real_number(0, 100), "polynomial: exponent of the decay"),
      "power");
  of_types.operator()<kCosine>(
      schema.key("floor", &S::floor, real_number(0, 1), "cosine: factor that remains at the end"),
      "floor");
  of_types.operator()<kStep>(
      schema
          .key("every", &S::every, whole_number<int64_t>(1, kMaxSteps),
               "step: steps after which the learning rate is multiplied by factor")
          .default_shown("required for step"),
      "every");
  of_types.operator()<kStep>(schema.key("factor", &S::step_factor, real_number(0, 1),
                                        "step: factor on the learning rate after `every` steps"),
                             "factor");
  schema.then([keys](const Node& node, const std::string& path, S& schedule) {
    check_keys(keys, node, path, schedule);
  });
  return schema;
}

}  // namespace dlrm
