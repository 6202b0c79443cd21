#pragma once
#include <memory>
#include <string>
#include <utility>

#include "dlrm/ops/ops.h"

namespace dlrm {

/// Operations of another execution. Derived::note() sees each before it runs.
template <class Derived>
class NotedOps : public Ops {
 public:
  explicit NotedOps(std::unique_ptr<Ops> chosen) : chosen_(std::move(chosen)) {}
  std::string name() const override { return chosen_->name(); }
  int threads() const override { return chosen_->threads(); }

#define DLRM_NOTE(Operation)              \
  void run(const Operation& o) override { \
    static_cast<Derived*>(this)->note(o); \
    chosen_->run(o);                      \
  }
  DLRM_OPERATIONS(DLRM_NOTE)
  DLRM_SEQUENCES(DLRM_NOTE)
#undef DLRM_NOTE

 private:
  std::unique_ptr<Ops> chosen_;
};

}  // namespace dlrm
