#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "dlrm/ops/embedding.h"

#include "checked/host_image.h"

namespace dlrm::checked {

/// One feature's bags in the host's memory, with the table rows that they look up.
class HostBags {
 public:
  HostBags(HostImage& host, const BagGroup& g)
      : offsets_(host.list(g.offsets, g.bags + 1)),
        scale_(host.list(g.scale, g.bags)),
        ids_(host.list(g.ids + offsets_.front(), offsets_.back() - offsets_.front())),
        weights_(host.list(g.weights ? g.weights + offsets_.front() : nullptr,
                           offsets_.back() - offsets_.front())),
        rows_(0, 0, g.table.type) {
    const int64_t first = offsets_.front();
    for (int64_t& at : offsets_) at -= first;
    std::vector<int64_t> named = ids_;
    std::sort(named.begin(), named.end());
    named.erase(std::unique(named.begin(), named.end()), named.end());
    for (int64_t& id : ids_) {
      id = std::lower_bound(named.begin(), named.end(), id) - named.begin();
    }
    rows_ = host.rows({g.table.weights, g.table.type, g.table.rows, g.table.width, g.table.stride},
                      named);
  }

  /// The bags over the copied rows, with `pooled` as the result.
  BagGroup group(const Copy& pooled) const {
    BagGroup g;
    g.table.weights = rows_.matrix().data;
    g.table.type = rows_.matrix().type;
    g.table.rows = rows_.matrix().rows;
    g.table.width = g.table.stride = rows_.matrix().cols;
    g.ids = ids_.data();
    g.offsets = offsets_.data();
    g.bags = length_of(offsets_);
    g.scale = scale_.empty() ? nullptr : scale_.data();
    g.weights = weights_.empty() ? nullptr : weights_.data();
    g.pooled = pooled.matrix();
    return g;
  }
  int64_t size(int64_t bag) const {
    const auto b = static_cast<size_t>(bag);
    return offsets_[b + 1] - offsets_[b];
  }
  /// The sum of magnitudes of a bag in column c.
  double magnitude(int64_t bag, int64_t c) const {
    const auto b = static_cast<size_t>(bag);
    double sum = 0;
    for (int64_t k = offsets_[b]; k < offsets_[b + 1]; ++k) {
      const auto at = static_cast<size_t>(k);
      const double weight = weights_.empty() ? 1.0 : std::abs(weights_[at]);
      sum += weight * std::abs(rows_.at(ids_[at], c));
    }
    return scale_.empty() ? sum : std::abs(double{scale_[b]}) * sum;
  }

 private:
  static int64_t length_of(const std::vector<int64_t>& offsets) {
    return static_cast<int64_t>(offsets.size()) - 1;
  }
  std::vector<int64_t> offsets_;
  std::vector<float> scale_;
  std::vector<int64_t> ids_;
  std::vector<float> weights_;
  Copy rows_;
};

}  // namespace dlrm::checked
