#include "balance.h"

#include <algorithm>

namespace dlrm {

Balance::Balance(int world, double capacity) : order_(world), capacity_(capacity) {}

void Balance::add(int rank, double seconds, double bytes) { order_.add(rank, seconds, bytes); }

void Balance::set_taken(const std::vector<int>& ranks) {
  for (const int rank : taken_) order_.set_free(rank, true);
  taken_.clear();
  for (const int rank : ranks) take(rank);
}

void Balance::take(int rank) {
  order_.set_free(rank, false);
  taken_.push_back(rank);
}

bool Balance::has_room(int rank, double bytes) const {
  return capacity_ <= 0 || order_.bytes(rank) + bytes <= capacity_;
}

int Balance::pick(double bytes) {
  const auto room = [&](int rank) { return has_room(rank, bytes); };
  const int lightest_free = order_.first_free(room);
  // Ranks of less load have no room, and therefore more bytes than those that have.
  if (lightest_free >= 0) return order_.emptiest_free(order_.load(lightest_free) + slack_);
  const int lightest_taken = order_.first(room);
  return lightest_taken >= 0 ? lightest_taken : order_.emptiest();
}

std::vector<int> Balance::lightest(int count) const {
  std::vector<int> ranks = order_.lightest(count);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

double Balance::total_bytes() const {
  double sum = 0;
  for (int rank = 0; rank < world(); ++rank) sum += order_.bytes(rank);
  return sum;
}

double Balance::mean_load() const {
  double sum = 0;
  for (int rank = 0; rank < world(); ++rank) sum += order_.load(rank);
  return sum / static_cast<double>(world());
}

}  // namespace dlrm
