#include "node_layout.h"

#include <algorithm>
#include <limits>

namespace dlrm::comm {

NodeLayout::NodeLayout(View<const int> node_of_rank, int rank) {
  std::vector<int> names;  // in order of the lowest ranks
  for (const int name : node_of_rank) {
    const auto found = std::find(names.begin(), names.end(), name);
    const auto node = static_cast<int>(found - names.begin());
    if (found == names.end()) names.push_back(name);
    consecutive_ &= node_of_.empty() || node >= node_of_.back();
    node_of_.push_back(node);
  }
  smallest_ = std::numeric_limits<int>::max();
  first_.push_back(0);
  for (int node = 0; node < static_cast<int>(names.size()); ++node) {
    for (int q = 0; q < ranks(); ++q) {
      if (node_of(q) == node) by_node_.push_back(q);
    }
    const auto size = static_cast<int>(by_node_.size() - first_.back());
    smallest_ = std::min(smallest_, size);
    largest_ = std::max(largest_, size);
    first_.push_back(by_node_.size());
  }
  node_ = node_of(rank);
  const View<const int> own = own_ranks();
  place_ = static_cast<int>(std::find(own.begin(), own.end(), rank) - own.begin());
}

}  // namespace dlrm::comm
