#pragma once
#include <string>

#include "timeline.h"

namespace dlrm::bench {

/// The part of the modelled step that an operation does, and its share.
struct PartOfStep {
  StepPart part = StepPart::kLaunch;
  double share = 1;
};

/// The surroundings of an operation on its rank.
struct OperationPlace {
  const StepPlace& step;
  bool on_main = false;         ///< it is on the stream that computes the loss
  bool gradients_sent = false;  ///< those of pooled vectors were copied to messages before it
};

/// Of an operation that is no part of a collective.
PartOfStep part_of(const QueuedOperation& operation, const OperationPlace& place);

/// Whether an operation is a lookup of bags pooled by their maxima.
bool pools_maxima(const QueuedOperation& operation, const StepPlace& place);

/// "dot" for a kernel of kernels/dot.cu, the name of a library's call, or "copy", "fill".
std::string shown_name(const QueuedOperation& operation);

}  // namespace dlrm::bench
