#include "rank_tasks.h"

namespace dlrm {

RankTasks::RankTasks(int ranks, const SimulatedMachine& machine)
    : resources_(run_, ranks, machine) {
  for (int r = 0; r < ranks; ++r) {
    std::array<int, kLanes> lanes = {};
    lanes.fill(run_.add_lane());
    lanes[kReaders] = run_.add_lane();
    if (speed().gpu) {
      for (const Lane lane : {kHost, kSide, kWeights}) lanes[lane] = run_.add_lane();
    }
    lanes_.push_back(lanes);
  }
  for (int& lane : exchange_lanes_) lane = run_.add_lane();
}

RankTasks::Point RankTasks::keep_busy(const char* stage, Lane lane, const std::vector<Point>& after,
                                      double threads,
                                      const std::function<double(size_t rank)>& seconds) {
  return compute(stage, lane, after, [&](size_t r) { return busy(seconds(r), threads); });
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
  const Demand copy = busy(sent.local_bytes / speed().local, 1);
  return add_for_ranks({stage, 0, step_, true}, kMain, {started}, [&](size_t) { return copy; });
}

RankTasks::Point RankTasks::add_for_ranks(Label label, Lane lane, const std::vector<Point>& after,
                                          const DemandOf& demand) {
  std::vector<int> tasks;
  tasks.reserve(lanes_.size());
  for (size_t r = 0; r < lanes_.size(); ++r) {
    after_.clear();
    for (const Point point : after) {
      if (point < 0) continue;
      const std::vector<int>& of = tasks_of(point);
      after_.push_back(of.size() == 1 ? of[0] : of[r]);
    }
    label.rank = static_cast<int>(r);
    tasks.push_back(add(label, lanes_[r][lane], resources_.compute(r, demand(r))));
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
