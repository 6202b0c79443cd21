#pragma once
#include <cstdint>

#include "dlrm/core/error.h"

namespace dlrm {

/// The phase of the oldest batch. A call that does not fit the phase throws run_error.
class BatchPhase {
 public:
  enum Name : uint8_t {
    kRouted,
    kArrived,
    kPrepared,
    kLookedUp,
    kReturning,
    kSorting,  ///< returning, and its ids are being sorted for the update
    kReturned,
    kSent,
    kReceived,  ///< gradients of its vectors have arrived, as the stream sees it
    kUpdated
  };

  bool is(Name name) const { return now_ == name; }
  void set(Name name) { now_ = name; }
  void require(bool in_turn, const char* call) const {
    if (in_turn) return;
    throw run_error(
        "{}() out of turn: a batch is routed, its ids are awaited and prepared, its rows looked up "
        "and returned; then it is dropped, or its gradients are sent back and its rows updated",
        call);
  }
  void advance(Name from, Name to, const char* call) {
    require(is(from), call);
    now_ = to;
  }

 private:
  Name now_ = kRouted;
};

}  // namespace dlrm
