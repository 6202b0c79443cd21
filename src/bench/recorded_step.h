#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/view.h"
#include "dlrm/plan/plan.h"

namespace dlrm::bench {

/// What an operation of a step does, in the terms of simulate_step().
enum class StepPart : uint8_t {
  kNone,    ///< a mark: it takes no time
  kLaunch,  ///< something that the model leaves out; it takes a launch's time
  kLookup,
  kReceivedVectors,  ///< pooled vectors are copied from messages to E
  kSentGradients,    ///< their gradients are copied to messages
  kForwardProducts,
  kInputGradients,
  kWeightGradients,
  kInteractForward,  ///< the interaction's passes between products
  kInteractBackward,
  kSort,
  kDenseUpdate,
  kCopyGradients,  ///< those of data-parallel tables are summed
  kCopyUpdate,     ///< of data-parallel tables
  kSparseUpdate,   ///< of shards
  // Collectives.
  kVectorExchange,
  kGradientExchange,
  kIdExchange,  ///< of a later batch, by devices
  kDenseSum,    ///< of a bucket of dense gradients
  kCopySum,     ///< of gradients of data-parallel tables
};

/// One operation of a recorded step.
struct StepOperation {
  StepPart part = StepPart::kNone;
  int rank = 0;            ///< -1: all ranks, a collective
  int step = 0;            ///< of the recording
  double share = 0;        ///< of the part's work, relative to `whole`
  double whole = 0;        ///< 0: the shares of the part's operations of this step and rank
  std::vector<int> needs;  ///< earlier operations that end before it begins
};

struct OperationTime {
  double begin = 0, end = 0;  ///< modelled seconds
};

/// The times of operations, by the model of simulate_step(): the work of each part at the sizes of
/// `config` and `plan`, on the machine of `config.sharding.machine`, shared out among the part's
/// operations. Operations wait only for their needs. If not `exchanges`, collectives take no time.
/// A usage_error if the machine file lacks a rate; an error if a part of a step has work and no
/// operation.
std::vector<OperationTime> time_operations(const RunConfig& config, const Plan& plan,
                                           const PlanOptions& options,
                                           View<const StepOperation> operations, bool exchanges);

}  // namespace dlrm::bench
