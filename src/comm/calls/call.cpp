#include "call.h"

namespace dlrm::comm {

bool Call::poll() {
  const std::lock_guard lock(engine_->mutex());
  if (!done_) engine_->advance();
  if (error_) std::rethrow_exception(error_);
  return done_;
}

}  // namespace dlrm::comm
