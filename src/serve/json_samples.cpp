#include "json_samples.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

#include "json_value.h"
#include "records.h"

namespace dlrm::serve {
namespace {

using nlohmann::json;

constexpr const char* kExample = R"({"dense": [0.5], "ids": {"C1": [17]}})";

void append_dense(const json& sample, const Inputs& inputs, Samples& samples) {
  const auto found = sample.find("dense");
  const json none = json::array();
  const json& values = found == sample.end() ? none : *found;
  if (!values.is_array()) {
    throw usage_error("dense: {}; needs a list of {} numbers", shown(values), inputs.dense);
  }
  if (static_cast<int64_t>(values.size()) != inputs.dense) {
    throw usage_error("dense: {} values; the model takes {}", values.size(), inputs.dense);
  }
  for (const json& value : values) {
    const float number = value.is_number() ? value.get<float>() : std::nanf("");
    if (!std::isfinite(number)) {
      throw usage_error("dense[{}]: {}; needs a finite number", &value - &values.front(),
                        shown(value));
    }
    samples.dense.push_back(number);
  }
}

void append_bag(const json& bag, const Inputs::Feature& feature, Samples& samples) {
  if (!bag.is_array()) throw usage_error("ids.{}: {}; needs a list", feature.name, shown(bag));
  for (const json& value : bag) {
    // The parser reads every whole number without a sign as unsigned. -0 is the number 0.
    const bool whole = value.is_number_unsigned() || value == 0;
    if (!value.is_number_integer() || !whole ||
        value.get<uint64_t>() >= static_cast<uint64_t>(feature.rows)) {
      throw usage_error("ids.{}[{}]: {}; needs a whole number from 0 to {}", feature.name,
                        &value - &bag.front(), shown(value), feature.rows - 1);
    }
    samples.ids.push_back(value.get<int64_t>());
  }
}

/// The values of the object `key` of a sample, by feature; null where there is none.
std::vector<const json*> values_by_feature(const char* key, const json& sample,
                                           const Inputs& inputs) {
  const auto found = sample.find(key);
  std::vector<const json*> values(inputs.features.size());
  if (found == sample.end()) return values;
  if (!found->is_object()) {
    throw usage_error("{}: {}; needs an object, with a list for each feature", key, shown(*found));
  }
  for (const auto& [name, value] : found->items()) {
    const auto number = inputs.number.find(name);
    if (number == inputs.number.end()) {
      std::vector<std::string> known;
      for (const Inputs::Feature& feature : inputs.features) known.push_back(feature.name);
      throw usage_error("{}: the model has no feature {}; {}", key, shown(name),
                        hint_for(name, known));
    }
    values[static_cast<size_t>(number->second)] = &value;
  }
  return values;
}

/// Appends the weights of the last `ids` ids. `list` is null if the sample gives none.
void append_weights(const json* list, const Inputs::Feature& feature, size_t ids,
                    Samples& samples) {
  if (!feature.weighted) {
    if (list) throw usage_error("weights.{}: the feature has no weights", feature.name);
    samples.weights.insert(samples.weights.end(), ids, 1.0f);
    return;
  }
  const json none = json::array();
  const json& values = list ? *list : none;
  if (!values.is_array() || values.size() != ids) {
    throw usage_error("weights.{}: {}; needs a list of {} numbers, one for each id", feature.name,
                      values.is_array() ? fmt::format("{} values", values.size()) : shown(values),
                      ids);
  }
  for (const json& value : values) {
    const float number = value.is_number() ? value.get<float>() : std::nanf("");
    if (!std::isfinite(number)) {
      throw usage_error("weights.{}[{}]: {}; needs a finite number", feature.name,
                        &value - &values.front(), shown(value));
    }
    samples.weights.push_back(number);
  }
}

void append_ids(const json& sample, const Inputs& inputs, Samples& samples) {
  const std::vector<const json*> bags = values_by_feature("ids", sample, inputs);
  const std::vector<const json*> weights = values_by_feature("weights", sample, inputs);
  for (size_t f = 0; f < bags.size(); ++f) {
    const size_t before = samples.ids.size();
    if (bags[f]) append_bag(*bags[f], inputs.features[f], samples);
    if (inputs.weighted || weights[f]) {
      append_weights(weights[f], inputs.features[f], samples.ids.size() - before, samples);
    }
    samples.offsets.push_back(static_cast<int64_t>(samples.ids.size()));
  }
}

void append(const json& sample, const Inputs& inputs, Samples& samples) {
  if (!sample.is_object()) {
    throw usage_error("{}; needs an object such as {}", shown(sample), kExample);
  }
  for (const auto& [key, value] : sample.items()) {
    if (key != "dense" && key != "ids" && key != "weights") {
      throw usage_error("unknown key {}; a sample has dense, ids and weights", shown(key));
    }
  }
  const size_t dense = samples.dense.size(), ids = samples.ids.size(),
               offsets = samples.offsets.size(), weights = samples.weights.size();
  try {
    append_dense(sample, inputs, samples);
    append_ids(sample, inputs, samples);
  } catch (...) {
    samples.dense.resize(dense);
    samples.ids.resize(ids);
    samples.offsets.resize(offsets);
    samples.weights.resize(weights);
    throw;
  }
  ++samples.size;
}

}  // namespace

void append_json_sample(std::string_view text, const Inputs& inputs, Samples& samples) {
  append(parse_json(text), inputs, samples);
}

Samples read_json_samples(std::string_view text, const Inputs& inputs, int64_t most) {
  // The parsed text takes far more memory than two bytes of an empty object or list. A sample has
  // at most three objects; its lists are `dense`, and ids and weights of each feature.
  const int64_t lists = 2 * std::ssize(inputs.features) + 1;
  if (std::count(text.begin(), text.end(), '{') > 3 * most + 1 ||
      std::count(text.begin(), text.end(), '[') > lists * most + 1) {
    check_samples(most + 1, most);
  }
  const json body = parse_json(text);
  const auto list = body.is_object() ? body.find("samples") : body.end();
  if (list == body.end() || !list->is_array() || body.size() > 1) {
    throw usage_error("needs an object with one list: {{\"samples\": [{}]}}", kExample);
  }
  Samples samples;
  for (const json& sample : *list) {
    try {
      append(sample, inputs, samples);
    } catch (const Error& error) {
      throw usage_error("samples[{}]: {}", samples.size, error.what());
    }
  }
  return samples;
}

}  // namespace dlrm::serve
