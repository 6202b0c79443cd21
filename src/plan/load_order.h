#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlrm {

/// Ranks in the order of their load, then of their number. A balanced tree (a treap) whose nodes
/// know the emptiest rank below them, so every call but lightest() needs time log(ranks).
class LoadOrder {
 public:
  /// All ranks are free and have no load.
  explicit LoadOrder(int ranks);

  void add(int rank, double load, double bytes);
  void set_free(int rank, bool free);

  int size() const { return static_cast<int>(nodes_.size()); }
  double load(int rank) const { return node(rank).load; }
  double bytes(int rank) const { return node(rank).bytes; }

  /// The rank of most load.
  int last() const;
  /// The first rank with fewest bytes by number.
  int emptiest() const { return node(root_).emptiest; }
  /// The free rank with fewest bytes among those of at most `load`, the first of equals. There must
  /// be one.
  int emptiest_free(double load) const;

  /// The first rank for which `holds` is true, or -1. If it is true for a rank, it must be true for
  /// all ranks that have no more bytes.
  template <class Predicate>
  int first(const Predicate& holds) const {
    return first_below<&Node::emptiest>(holds, [](int) { return true; });
  }
  /// The same among free ranks.
  template <class Predicate>
  int first_free(const Predicate& holds) const {
    return first_below<&Node::emptiest_free>(holds, [&](int rank) { return node(rank).free; });
  }

  /// The first `count` ranks, in order.
  std::vector<int> lightest(int count) const;

 private:
  static constexpr int kNone = -1;

  /// A rank's node has the rank as its index.
  struct Node {
    double load = 0;
    double bytes = 0;
    uint32_t priority = 0;  ///< no child has a larger one
    int left = kNone;
    int right = kNone;
    int emptiest = kNone;       ///< of this subtree by bytes, then by number
    int emptiest_free = kNone;  ///< of its free ranks by bytes, then in order
    bool free = true;
  };

  template <int Node::*Emptiest, class Predicate, class Eligible>
  int first_below(const Predicate& holds, const Eligible& eligible) const {
    const auto below = [&](int at) {
      return at != kNone && node(at).*Emptiest != kNone && holds(node(at).*Emptiest);
    };
    int at = root_;
    if (!below(at)) return kNone;
    while (true) {
      if (below(node(at).left)) {
        at = node(at).left;
      } else if (eligible(at) && holds(at)) {
        return at;
      } else {
        at = node(at).right;
      }
    }
  }

  Node& node(int rank) { return nodes_[static_cast<size_t>(rank)]; }
  const Node& node(int rank) const { return nodes_[static_cast<size_t>(rank)]; }
  bool before(int a, int b) const;
  void update(int at);
  void update_path(int rank);
  int insert(int at, int rank);
  int erase(int at, int rank);
  int merge(int left, int right);
  void split(int at, int rank, int& left, int& right);

  std::vector<Node> nodes_;
  int root_ = kNone;
};

}  // namespace dlrm
