#pragma once
#include <set>
#include <utility>
#include <vector>

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

  /// Returns the rank of least load, or of fewest bytes within the slack, among the ranks that are
  /// not in `taken` and have room for `bytes`. If all ranks are in `taken`, considers all. If none
  /// has room, returns the rank with the fewest bytes; `overflows()` is true from then on.
  int pick(double bytes, const std::vector<int>& taken);

  /// The `count` ranks of least load, ascending.
  std::vector<int> lightest(int count) const;

  int heaviest() const { return by_load_.rbegin()->second; }
  double max_load() const { return by_load_.rbegin()->first; }
  double mean_load() const;
  bool overflows() const { return overflows_; }
  int world() const { return static_cast<int>(loads_.size()); }
  double capacity() const { return capacity_; }
  double total_bytes() const;

 private:
  bool has_room(int rank, double bytes) const;
  int emptiest() const;

  std::vector<double> loads_;
  std::vector<double> bytes_;
  std::set<std::pair<double, int>> by_load_;
  double capacity_;
  double slack_ = 0;
  bool overflows_ = false;
};

}  // namespace dlrm
