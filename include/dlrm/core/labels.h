#pragma once
#include "dlrm/core/targets.h"

namespace dlrm {

/// One of `count` labels of b samples, whose labels follow label by label, [count, b]. A label that
/// is NaN is missing. The weights [b] are of all labels.
inline Targets of_label(const Targets& all, size_t label, size_t count) {
  const size_t b = all.labels.size() / count;
  return {all.labels.subspan(label * b, b), all.weights};
}

}  // namespace dlrm
