#include "rank_tasks.h"

namespace dlrm {

RankTasks::RankTasks(int ranks, const MachineSpeed& speed, double products, const NodeShare& share)
    : resources_(run_, ranks, speed, products, share) {
  for (int r = 0; r < ranks; ++r) {
    std::array<int, kLanes> lanes = {};
    lanes.fill(run_.add_lane());
    lanes[kReaders] = run_.add_lane();
    if (speed.gpu) {
      for (const Lane lane : {kHost, kSide, kWeights}) lanes[lane] = run_.add_lane();
    }
    lanes_.push_back(lanes);
  }
  for (int& lane : exchange_lanes_) lane = run_.add_lane();
}

RankTasks::Point RankTasks::compute(const char* stage, Lane lane, const std::vector<Point>& after,
                                    const std::function<Demand(size_t rank)>& demand) {
  return add_for_ranks(stage, false, lane, after,
                       [&](size_t r) { return resources_.compute(r, demand(r)); });
}

RankTasks::Point RankTasks::keep_busy(const char* stage, Lane lane, const std::vector<Point>& after,
                                      double threads,
                                      const std::function<double(size_t rank)>& seconds) {
  return add_for_ranks(stage, false, lane, after,
                       [&](size_t r) { return resources_.keep_busy(r, seconds(r), threads); });
}

RankTasks::Point RankTasks::start(const char* stage, ExchangeLane lane, const ExchangeWork& sent,
                                  const std::vector<Point>& after) {
  if (sent.empty()) return -1;
  after_.clear();
  for (const Point point : after) {
    if (point < 0) continue;
    const std::vector<int>& of = tasks_of(point);
    after_.insert(after_.end(), of.begin(), of.end());
  }
  points_.push_back(
      {add({stage, -1, step_, true}, exchange_lanes_[lane], resources_.exchange(sent))});
  return static_cast<Point>(points_.size()) - 1;
}

RankTasks::Point RankTasks::finish(const char* stage, const ExchangeWork& sent, Point started) {
  if (started < 0 || speed().gpu) return started;
  const double seconds = sent.local_bytes / speed().local;
  return add_for_ranks(stage, true, kMain, {started},
                       [&](size_t r) { return resources_.keep_busy(r, seconds); });
}

RankTasks::Point RankTasks::add_for_ranks(const char* stage, bool exchange, Lane lane,
                                          const std::vector<Point>& after,
                                          const std::function<EventRun::Work(size_t rank)>& work) {
  std::vector<int> tasks;
  tasks.reserve(lanes_.size());
  for (size_t r = 0; r < lanes_.size(); ++r) {
    after_.clear();
    for (const Point point : after) {
      if (point < 0) continue;
      const std::vector<int>& of = tasks_of(point);
      after_.push_back(of.size() == 1 ? of[0] : of[r]);
    }
    tasks.push_back(add({stage, static_cast<int>(r), step_, exchange}, lanes_[r][lane], work(r)));
  }
  points_.push_back(std::move(tasks));
  const auto point = static_cast<Point>(points_.size()) - 1;
  if (lane == kMain || (!speed().gpu && lane != kReaders)) main_ = point;
  return point;
}

int RankTasks::add(const Label& label, int lane, const EventRun::Work& work) {
  labels_.push_back(label);
  return run_.add(lane, work, after_);
}

}  // namespace dlrm
