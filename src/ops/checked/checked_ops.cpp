#include "checked/checked_ops.h"

#include "checked/host_operation.h"

namespace dlrm::checked {

namespace {

/// Replaces magnitudes that the operation subtracts by such that it then adds them.
template <class Operation>
void add_subtracted(const Operation&) {}
void add_subtracted(const CrossInputBackward& sizes) {
  for (int64_t r = 0; r < sizes.dz.rows; ++r) {
    for (int64_t c = 0; c < sizes.t.cols; ++c) {
      double below = 0;
      for (int64_t at = r; at < sizes.t.rows; at += sizes.dz.rows) {
        const double size = reference::get(sizes.t, at, c);
        reference::set(sizes.t, at, c, size + 2 * below);
        below += size;
      }
    }
  }
}

}  // namespace

template <class Operation>
void CheckedOps::check(const Operation& operation) {
  const HostOperation<Operation> before(host_, operation), want(host_, operation);
  const auto sizes = before.magnitudes();
  chosen_->run(operation);
  reference_.run(*want);
  add_subtracted(*sizes);
  reference_.run(*sizes);
  compare({Operation::kName, before.shape(), execution_},
          HostOperation<Operation>(host_, operation).results(), want.results(), sizes.results(),
          before.results());
}

#define DLRM_CHECK_OPERATION(Operation) \
  void CheckedOps::run(const Operation& operation) { check(operation); }
DLRM_OPERATIONS(DLRM_CHECK_OPERATION)
DLRM_SEQUENCES(DLRM_CHECK_OPERATION)
#undef DLRM_CHECK_OPERATION

}  // namespace dlrm::checked

namespace dlrm {

std::unique_ptr<Ops> make_checked_ops(std::unique_ptr<Ops> chosen, Device& device, Stream& stream) {
  return std::make_unique<checked::CheckedOps>(std::move(chosen), device, stream);
}

}  // namespace dlrm
