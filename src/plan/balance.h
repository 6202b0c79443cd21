#pragma once
#include <set>
#include <utility>
#include <vector>

namespace dlrm {

/// Load and bytes placed on each rank so far; finds the lightest rank that has room. Ties go to
/// the lower rank, so that equal inputs give equal plans.
class Balance {
 public:
  /// `capacity` bytes a rank for what is placed; 0: not known.
  Balance(int world, double capacity);

  /// Loads that differ by less than this count as equal in pick(), where bytes then decide.
  void set_slack(double seconds) { slack_ = seconds; }
  void set_capacity(double bytes) { capacity_ = bytes; }

  void add(int rank, double seconds, double bytes);

  /// The rank of least load (of fewest bytes within the slack) among those not in `taken` (all, if
  /// every rank is) that has room for `bytes`; where none has, the one that holds the fewest bytes,
  /// and `overflows()` from then on.
  int pick(double bytes, const std::vector<int>& taken);

  /// `count` distinct ranks, the lightest ones, ascending.
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
