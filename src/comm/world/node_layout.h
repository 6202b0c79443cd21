#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/view.h"

namespace dlrm::comm {

/// The nodes of a communicator's ranks. Nodes are numbered by their lowest ranks.
class NodeLayout {
 public:
  /// @param node_of_rank  [ranks] any numbers; ranks of equal numbers are on one node
  /// @param rank          this process
  NodeLayout(View<const int> node_of_rank, int rank);

  int nodes() const { return static_cast<int>(first_.size()) - 1; }
  int ranks() const { return static_cast<int>(node_of_.size()); }
  int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  /// The node of this process.
  int node() const { return node_; }
  /// Ascending.
  View<const int> ranks_of(int node) const {
    const size_t begin = first_[static_cast<size_t>(node)];
    return {by_node_.data() + begin, first_[static_cast<size_t>(node) + 1] - begin};
  }
  View<const int> own_ranks() const { return ranks_of(node_); }
  /// Position of this process in own_ranks().
  int place() const { return place_; }
  int smallest() const { return smallest_; }  ///< ranks of the smallest node
  int largest() const { return largest_; }    ///< ranks of the largest node
  /// True if the ranks of each node follow one another. Then rank order is node by node.
  bool is_consecutive() const { return consecutive_; }

 private:
  std::vector<int> node_of_;
  std::vector<int> by_node_;   ///< [ranks], node by node
  std::vector<size_t> first_;  ///< [nodes + 1] in by_node_
  int node_ = 0;
  int place_ = 0;
  int smallest_ = 0;
  int largest_ = 0;
  bool consecutive_ = true;
};

}  // namespace dlrm::comm
