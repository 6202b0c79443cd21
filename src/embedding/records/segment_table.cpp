#include "segment_table.h"

#include "dlrm/core/error.h"

namespace dlrm {

void SegmentTable::grow() {
  free_.push_front({size(), 0});
  live_.push_back(0);
  sealed_.push_back(false);
  ordered_.push_back(false);
}

std::optional<int64_t> SegmentTable::take_free(uint64_t oldest) {
  if (free_.empty()) return {};
  const Free first = free_.front();
  if (oldest != 0 && first.newest >= oldest) return {};
  free_.pop_front();
  return first.segment;
}

void SegmentTable::free(int64_t segment, uint64_t newest) {
  DLRM_CHECK(sealed_[at(segment)] && live(segment) == 0);
  sealed_[at(segment)] = false;
  free_.push_back({segment, newest});
}

int64_t SegmentTable::emptiest() const {
  int64_t best = -1;
  for (int64_t s = 0; s < size(); ++s) {
    if (sealed_[at(s)] && (best < 0 || live(s) < live(best))) best = s;
  }
  DLRM_CHECK(best >= 0);
  return best;
}

std::vector<int64_t> SegmentTable::unordered(size_t most) const {
  std::vector<int64_t> found;
  for (int64_t s = 0; s < size() && found.size() < most; ++s) {
    if (sealed_[at(s)] && !ordered_[at(s)]) found.push_back(s);
  }
  return found;
}

void SegmentTable::clear() {
  live_.clear();
  sealed_.clear();
  ordered_.clear();
  free_.clear();
  total_ = 0;
}

}  // namespace dlrm
