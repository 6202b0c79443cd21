#include "bad_id_report.h"

#include <fmt/format.h>

namespace dlrm {
namespace {

constexpr size_t kBytes = 3 * sizeof(int64_t);

}  // namespace

BadIdReport::BadIdReport(Context& context, const ModelConfig& model)
    : context_(context), found_(context.device, 3, "bad id"), host_(context.device, 3, "bad id") {
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) features_.push_back(feature.name);
  }
  host_[0] = kNone;
  context.device.copy(found_.data(), host_.data(), kBytes, context.stream);
}

void BadIdReport::read_back() {
  context_.device.copy(host_.data(), found_.data(), kBytes, context_.stream);
}

std::string BadIdReport::text() const {
  if (!any()) return "";
  return fmt::format("sample {}, feature {}: id {} in the device's memory is outside its table",
                     host_[1], features_[static_cast<size_t>(host_[0])], host_[2]);
}

}  // namespace dlrm
