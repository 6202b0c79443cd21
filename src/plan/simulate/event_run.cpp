#include "event_run.h"

#include <algorithm>

#include "dlrm/core/error.h"

namespace dlrm {

int EventRun::add_lane() {
  last_of_lane_.push_back(-1);
  return static_cast<int>(last_of_lane_.size()) - 1;
}

int EventRun::add_resource(double capacity) {
  resources_.emplace_back();
  resources_.back().capacity = capacity;
  return static_cast<int>(resources_.size()) - 1;
}

int EventRun::add(int lane, const Work& work, View<const int> after) {
  const int task = tasks();
  tasks_.emplace_back();
  tasks_.back().work = work;
  for (const int before : after) edges_.emplace_back(before, task);
  int& last = last_of_lane_[index(lane)];
  if (last >= 0) edges_.emplace_back(last, task);
  last = task;
  return task;
}

void EventRun::run() {
  list_successors();
  for (int task = 0; task < tasks(); ++task) {
    if (tasks_[index(task)].waits == 0) start(task, 0, -1);
  }
  start_successors(0);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.task >= 0) {
      use_resources(event.task, event.time);
    } else if (event.version == resources_[index(event.resource)].version) {
      end_users(event.resource, event.time);
    }
    start_successors(event.time);
  }
}

void EventRun::list_successors() {
  first_successor_.assign(tasks_.size() + 1, 0);
  for (const auto& [from, to] : edges_) {
    DLRM_CHECK(from < to, "task {} waits for task {}, which was added later", to, from);
    ++first_successor_[index(from) + 1];
    ++tasks_[index(to)].waits;
  }
  for (size_t i = 1; i < first_successor_.size(); ++i)
    first_successor_[i] += first_successor_[i - 1];
  successors_.resize(edges_.size());
  std::vector<int> next = first_successor_;
  for (const auto& [from, to] : edges_) successors_[index(next[index(from)]++)] = to;
}

void EventRun::push(double time, int task, int resource, int64_t version) {
  events_.push({time, order_++, task, resource, version});
}

void EventRun::start(int task, double now, int cause) {
  Task& started = tasks_[index(task)];
  started.begin = now;
  started.cause = cause;
  if (started.work.latency > 0) {
    push(now + started.work.latency, task, -1, 0);
  } else {
    use_resources(task, now);
  }
}

void EventRun::use_resources(int task, double now) {
  Task& user = tasks_[index(task)];
  for (const Use& use : user.work.uses) {
    if (use.seconds <= 0) continue;
    Resource& resource = resources_[index(use.resource)];
    advance(resource, now);
    resource.users.push_back({resource.time + use.seconds, task, use.amount});
    ++user.waits;
    announce(use.resource, now);
  }
  if (user.waits == 0) finish(task, now);
}

void EventRun::finish(int task, double now) {
  tasks_[index(task)].end = now;
  ended_.push_back(task);
}

void EventRun::start_successors(double now) {
  for (size_t i = 0; i < ended_.size(); ++i) {  // grows meanwhile
    const int task = ended_[i];
    for (int s = first_successor_[index(task)]; s < first_successor_[index(task) + 1]; ++s) {
      const int next = successors_[index(s)];
      if (--tasks_[index(next)].waits == 0) start(next, now, task);
    }
  }
  ended_.clear();
}

double EventRun::Resource::seconds_per_virtual_second() const {
  double used = 0;
  for (const User& user : users) used += user.amount;
  return std::max(used / capacity, 1.0);
}

const EventRun::User& EventRun::Resource::first_to_end() const {
  return *std::min_element(users.begin(), users.end(),
                           [](const User& a, const User& b) { return a.end < b.end; });
}

void EventRun::advance(Resource& resource, double now) {
  if (!resource.users.empty()) {
    resource.time += (now - resource.updated) / resource.seconds_per_virtual_second();
  }
  resource.updated = now;
}

void EventRun::announce(int number, double now) {
  Resource& resource = resources_[index(number)];
  ++resource.version;
  if (resource.users.empty()) return;
  const double first = resource.first_to_end().end;
  const double left = (first - resource.time) * resource.seconds_per_virtual_second();
  push(now + std::max(left, 0.0), -1, number, resource.version);
}

void EventRun::end_users(int number, double now) {
  Resource& resource = resources_[index(number)];
  resource.time = resource.first_to_end().end;
  resource.updated = now;
  for (size_t i = 0; i < resource.users.size();) {
    const auto [end, task, amount] = resource.users[i];
    if (end > resource.time) {
      ++i;
      continue;
    }
    resource.users.erase(resource.users.begin() + static_cast<std::ptrdiff_t>(i));
    if (--tasks_[index(task)].waits == 0) finish(task, now);
  }
  announce(number, now);
}

}  // namespace dlrm
