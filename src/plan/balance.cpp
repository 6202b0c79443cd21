#include "balance.h"

#include <algorithm>
#include <numeric>

namespace dlrm {

Balance::Balance(int world, double capacity)
    : loads_(static_cast<size_t>(world)), bytes_(static_cast<size_t>(world)), capacity_(capacity) {
  for (int rank = 0; rank < world; ++rank) by_load_.emplace(0.0, rank);
}

void Balance::add(int rank, double seconds, double bytes) {
  double& load = loads_[static_cast<size_t>(rank)];
  by_load_.erase({load, rank});
  load += seconds;
  by_load_.emplace(load, rank);
  bytes_[static_cast<size_t>(rank)] += bytes;
}

bool Balance::has_room(int rank, double bytes) const {
  return capacity_ <= 0 || bytes_[static_cast<size_t>(rank)] + bytes <= capacity_;
}

int Balance::emptiest() const {
  return static_cast<int>(std::min_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
}

int Balance::pick(double bytes, const std::vector<int>& taken) {
  int best = -1;
  int fallback = -1;
  double limit = 0;
  for (const auto& [load, rank] : by_load_) {
    if (best >= 0 && load > limit) break;
    if (!has_room(rank, bytes)) continue;
    if (fallback < 0) fallback = rank;
    if (std::find(taken.begin(), taken.end(), rank) != taken.end()) continue;
    if (best < 0) limit = load + slack_;
    if (best < 0 || bytes_[static_cast<size_t>(rank)] < bytes_[static_cast<size_t>(best)]) {
      best = rank;
    }
  }
  if (best >= 0) return best;
  if (fallback >= 0) return fallback;
  overflows_ = true;
  return emptiest();
}

std::vector<int> Balance::lightest(int count) const {
  std::vector<int> ranks;
  for (const auto& [load, rank] : by_load_) {
    if (static_cast<int>(ranks.size()) == count) break;
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

double Balance::total_bytes() const { return std::accumulate(bytes_.begin(), bytes_.end(), 0.0); }

double Balance::mean_load() const {
  return std::accumulate(loads_.begin(), loads_.end(), 0.0) / static_cast<double>(loads_.size());
}

}  // namespace dlrm
