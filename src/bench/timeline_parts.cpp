#include "timeline_parts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dlrm::bench {
namespace {

using Kind = QueuedOperation::Kind;

/// Kernels by the file that launches them. The part may differ before and after the loss.
struct KernelPart {
  std::string_view file;
  StepPart forward, backward;
};
constexpr std::array kKernels{
    KernelPart{"embedding_forward", StepPart::kLookup, StepPart::kLookup},
    KernelPart{"copy_blocks", StepPart::kReceivedVectors, StepPart::kSentGradients},
    KernelPart{"dot_mma", StepPart::kInteractForward, StepPart::kInteractBackward},
    KernelPart{"dot_portable", StepPart::kInteractForward, StepPart::kInteractBackward},
    KernelPart{"fm", StepPart::kInteractForward, StepPart::kInteractBackward},
    KernelPart{"group_rows", StepPart::kSort, StepPart::kSort},
    KernelPart{"sparse_update", StepPart::kSparseUpdate, StepPart::kSparseUpdate},
    KernelPart{"table_update", StepPart::kCopyUpdate, StepPart::kCopyUpdate},
};

bool after_loss(const StepPlace& place) {
  return place.stage == "backward" || place.stage == "allreduce" || place.stage == "update";
}

/// Of a kernel over elements. These share a launcher, so only the stage tells them apart.
PartOfStep over_elements(const OperationPlace& place) {
  const std::string& stage = place.step.stage;
  if (stage == "interact") return {StepPart::kInteractForward, 1};
  if (stage == "backward" && !place.gradients_sent) return {StepPart::kInteractBackward, 1};
  if (stage == "update") return {StepPart::kDenseUpdate, 1};
  return {};
}

PartOfStep product(double flops, bool backward, bool on_main) {
  if (!backward) return {StepPart::kForwardProducts, flops};
  return {on_main ? StepPart::kInputGradients : StepPart::kWeightGradients, flops};
}

}  // namespace

PartOfStep part_of(const QueuedOperation& operation, const OperationPlace& place) {
  const bool backward = after_loss(place.step);
  switch (operation.kind) {
    case Kind::kMark:
    case Kind::kFree:
      return {StepPart::kNone, 0};
    case Kind::kLibrary:
      if (operation.flops > 0) return product(operation.flops, backward, place.on_main);
      if (operation.name == "sort_pairs") return {StepPart::kSort, 1};
      return {};
    case Kind::kKernel: {
      const std::string name = shown_name(operation);
      const auto found = std::find_if(kKernels.begin(), kKernels.end(),
                                      [&](const KernelPart& part) { return part.file == name; });
      if (name == "embedding_update") {
        const bool sums = place.step.stage != "update";
        return {sums ? StepPart::kCopyGradients : StepPart::kSparseUpdate, 1};
      }
      // Others of these kernels separate the ids of bags, and find their gradients.
      if (pools_maxima(operation, place.step)) return {StepPart::kLookup, 1};
      if (found != kKernels.end()) return {backward ? found->backward : found->forward, 1};
      return name == "rows" ? over_elements(place) : PartOfStep{};
    }
    case Kind::kCopy:
    case Kind::kFill:
    case Kind::kHostFunction:
      return {};
  }
  return {};
}

bool pools_maxima(const QueuedOperation& operation, const StepPlace& place) {
  return place.stage == "lookup" && shown_name(operation) == "max_bags";
}

std::string shown_name(const QueuedOperation& operation) {
  if (operation.kind == Kind::kCopy) return "copy";
  if (operation.kind == Kind::kFill) return "fill";
  if (operation.kind != Kind::kKernel) return operation.name;
  const std::string_view name = operation.name;
  const size_t slash = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  return std::string(name.substr(slash, name.find('.', slash) - slash));
}

}  // namespace dlrm::bench
