#pragma once
#include <cstdint>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// Features with max pooling in the update of a batch. A bag's gradient goes to other rows in each
/// column, so each id has a gradient of its own, and ids are sorted as bags of one id.
class MaxGradients {
 public:
  explicit MaxGradients(Device& device)
      : offsets_(device, 0, "offsets of ids"), gradients_(device, 0, "gradients of ids") {}

  /// What a batch needs.
  struct Size {
    int64_t offsets = 0;    ///< of separated()
    int64_t gradients = 0;  ///< elements of gradients()

    void add_ids(const IdGroup& ids) { offsets += ids.bags > 0 ? ids.capacity + 1 : 0; }
    void add_gradients(const IdGroup& ids, int64_t width) { gradients += ids.capacity * width; }
  };
  /// Begins a batch. What was returned for the one before is no longer valid.
  void begin(const Size& size);
  /// The same ids with a bag for each. They are written on `ops`.
  IdGroup separated(const IdGroup& ids, Ops& ops);
  /// The gradients of those bags, from the gradients of pooled vectors, on `ops`. The rows of
  /// `table` must not have been updated yet.
  BagGradient gradients(const RowTable& table, const IdGroup& ids, const Matrix& pooled, Ops& ops);

 private:
  Array<int64_t> offsets_;
  Array<float> gradients_;
  Size used_;
};

}  // namespace dlrm
