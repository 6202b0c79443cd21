#pragma once
#include <string>
#include <string_view>

#include "dlrm/core/view.h"
#include "dlrm/data/samples.h"

#include "http_transport.h"
#include "kserve_request.h"
#include "trained_model.h"

namespace dlrm::serve {

/// The Open Inference Protocol (KServe v2) of one model under a name. Its version is the step that
/// it was trained for.
struct KserveTarget {
  enum class Kind { kNone, kServer, kLive, kReady, kModel, kModelReady, kInfer, kUnknown };
  Kind kind = Kind::kNone;
  std::string reason;  ///< of kUnknown: another model, or another version
};
/// What the path of a target asks for. kNone: it is not of the protocol.
KserveTarget kserve_target(std::string_view path, const std::string& name, int64_t version);

/// The answer to a target but kNone and kInfer.
HttpAnswer kserve_page(const KserveTarget& target, const std::string& name,
                       const TrainedModel& model);

/// The samples of a request, of which there may be `most`. A usage_error says what is wrong, and
/// names tensors.
Samples kserve_samples(const KserveRequest& request, const TrainedModel& model, int64_t most);

/// The answer to a request whose samples have these probabilities [samples, labels].
HttpAnswer kserve_answer(const KserveRequest& request, const std::string& name,
                         const TrainedModel& model, View<const float> probabilities);

}  // namespace dlrm::serve
