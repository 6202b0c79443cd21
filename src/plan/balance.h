#pragma once
#include <vector>

#include "load_order.h"

namespace dlrm {

/// The load and the bytes placed on each rank so far. Finds the rank of least load that has room.
/// Ties go to the lower rank, so equal inputs give equal plans.
class Balance {
 public:
  /// Each rank has room for `capacity` bytes. 0: unknown.
  Balance(int world, double capacity);

  /// Loads that differ by less than this count as equal in pick(), and bytes decide.
  void set_slack(double seconds) { slack_ = seconds; }
  void set_capacity(double bytes) { capacity_ = bytes; }

  void add(int rank, double seconds, double bytes);

  /// Marks these ranks as taken, and all others as free.
  void set_taken(const std::vector<int>& ranks);
  void take(int rank);

  /// Returns the rank of least load, or of fewest bytes within the slack, among the ranks that are
  /// not taken and have room for `bytes`. If all ranks with room are taken, considers those. If
  /// none has room, returns the rank with the fewest bytes. Needs time log(ranks).
  int pick(double bytes);

  /// The `count` ranks of least load, ascending.
  std::vector<int> lightest(int count) const;

  double load(int rank) const { return order_.load(rank); }
  double bytes(int rank) const { return order_.bytes(rank); }
  double max_load() const { return order_.load(order_.last()); }
  double mean_load() const;
  int world() const { return order_.size(); }
  double capacity() const { return capacity_; }
  double total_bytes() const;

 private:
  bool has_room(int rank, double bytes) const;

  LoadOrder order_;
  std::vector<int> taken_;
  double capacity_;
  double slack_ = 0;
};

}  // namespace dlrm
