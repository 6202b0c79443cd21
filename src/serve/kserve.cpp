#include "kserve.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/core/error.h"

#include "json_value.h"
#include "records.h"

namespace dlrm::serve {
namespace {

using Kind = KserveTarget::Kind;

constexpr const char* kJson = "application/json";

/// Takes the text up to the next slash.
std::string_view next_part(std::string_view& path) {
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  return part;
}

/// One tensor, or one of each of several labels, by its name.
std::vector<std::string> outputs_of(const Inputs& inputs) {
  return inputs.tasks.empty() ? std::vector<std::string>{"probabilities"} : inputs.tasks;
}

std::string tensor_text(std::string_view name, std::string_view type,
                        const std::vector<int64_t>& shape) {
  return fmt::format("{{\"name\": {}, \"datatype\": \"{}\", \"shape\": [{}]}}", json_text(name),
                     type, fmt::join(shape, ", "));
}

std::string metadata(const std::string& name, const TrainedModel& model) {
  const Inputs& inputs = model.inputs();
  std::string tensors;
  const auto add = [&](const char* tensor, const std::vector<int64_t>& shape) {
    if (!tensors.empty()) tensors += ", ";
    tensors += tensor_text(tensor, kserve_type(tensor)->type, shape);
  };
  if (model.takes_records()) {
    add("records", {-1});
  } else {
    if (inputs.dense > 0) add("dense", {-1, inputs.dense});
    add("lengths", {-1, static_cast<int64_t>(inputs.features.size())});
    add("ids", {-1});
    if (inputs.weighted) add("weights", {-1});
  }
  std::string outputs;
  for (const std::string& output : outputs_of(inputs)) {
    if (!outputs.empty()) outputs += ", ";
    outputs += tensor_text(output, "FP32", {-1});
  }
  return fmt::format(
      "{{\"name\": {}, \"versions\": [\"{}\"], \"platform\": \"dlrm\", \"inputs\": [{}], "
      "\"outputs\": [{}]}}\n",
      json_text(name), model.step(), tensors, outputs);
}

/// The number of an output's label.
size_t label_of(const std::string& output, const Inputs& inputs) {
  const std::vector<std::string> names = outputs_of(inputs);
  const auto found = std::find(names.begin(), names.end(), output);
  if (found == names.end()) {
    throw usage_error("outputs: no tensor {}; there are {}", json_text(output.substr(0, 60)),
                      fmt::join(names, ", "));
  }
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

KserveTarget kserve_target(std::string_view path, const std::string& name, int64_t version) {
  constexpr std::string_view kModels = "/v2/models/", kVersions = "/versions/";
  if (path == "/v2") return {Kind::kServer, ""};
  if (path == "/v2/health/live") return {Kind::kLive, ""};
  if (path == "/v2/health/ready") return {Kind::kReady, ""};
  if (!path.starts_with(kModels)) return {};
  path.remove_prefix(kModels.size());
  if (const std::string_view model = next_part(path); model != name) {
    return {Kind::kUnknown, fmt::format("no model {}; there is {}", json_text(model), name)};
  }
  if (path.starts_with(kVersions)) {
    path.remove_prefix(kVersions.size());
    if (const std::string_view given = next_part(path); given != std::to_string(version)) {
      return {Kind::kUnknown,
              fmt::format("no version {} of {}; there is {}", json_text(given), name, version)};
    }
  }
  if (path.empty()) return {Kind::kModel, ""};
  if (path == "/ready") return {Kind::kModelReady, ""};
  if (path == "/infer") return {Kind::kInfer, ""};
  return {};
}

HttpAnswer kserve_page(const KserveTarget& target, const std::string& name,
                       const TrainedModel& model) {
  switch (target.kind) {
    case Kind::kServer:
      return {200, kJson,
              fmt::format("{{\"name\": \"dlrm-infer\", \"version\": \"{}\", \"extensions\": "
                          "[\"binary_tensor_data\"]}}\n",
                          DLRM_VERSION)};
    case Kind::kLive:
      return {200, kJson, "{\"live\": true}\n"};
    case Kind::kReady:
      return {200, kJson, "{\"ready\": true}\n"};
    case Kind::kModel:
      return {200, kJson, metadata(name, model)};
    case Kind::kModelReady:
      return {200, kJson, fmt::format("{{\"name\": {}, \"ready\": true}}\n", json_text(name))};
    case Kind::kNone:
    case Kind::kInfer:
    case Kind::kUnknown:
      break;
  }
  return refusal(404, target.reason);
}

Samples kserve_samples(const KserveRequest& request, const TrainedModel& model, int64_t most) {
  if (const auto* const records = request.find("records")) check_samples(records->elements, most);
  for (const auto& output : request.outputs) label_of(output.name, model.inputs());
  if (request.find("records") || request.find("shared")) {
    return samples_of(request, model.records());
  }
  return samples_of(request, model.inputs());
}

HttpAnswer kserve_answer(const KserveRequest& request, const std::string& name,
                         const TrainedModel& model, View<const float> probabilities) {
  const Inputs& inputs = model.inputs();
  std::vector<KserveRequest::Output> outputs = request.outputs;
  if (outputs.empty()) {
    for (const std::string& output : outputs_of(inputs)) {
      outputs.push_back({output, request.binary_by_default});
    }
  }
  std::string tensors, bytes;
  for (const auto& output : outputs) {
    std::vector<float> values;
    for (size_t k = label_of(output.name, inputs); k < probabilities.size(); k += inputs.labels()) {
      values.push_back(probabilities[k]);
    }
    std::string data;
    if (output.binary) {
      const size_t size = values.size() * sizeof(float);
      data = fmt::format("\"parameters\": {{\"binary_data_size\": {}}}", size);
      bytes.append(reinterpret_cast<const char*>(values.data()), size);
    } else {
      data = fmt::format("\"data\": [{}]", fmt::join(values, ", "));
    }
    tensors +=
        fmt::format("{}{{\"name\": {}, \"datatype\": \"FP32\", \"shape\": [{}], {}}}",
                    tensors.empty() ? "" : ", ", json_text(output.name), values.size(), data);
  }
  std::string head = fmt::format(
      "{{\"model_name\": {}, \"model_version\": \"{}\", {}\"outputs\": [{}]}}", json_text(name),
      model.step(), request.id.empty() ? "" : fmt::format("\"id\": {}, ", json_text(request.id)),
      tensors);
  const bool binary =
      std::any_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.binary; });
  if (!binary) return {200, kJson, head + "\n"};
  const size_t size = head.size();
  return {200, "application/octet-stream", head + bytes, size};
}

}  // namespace dlrm::serve
