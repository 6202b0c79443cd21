#include "event_run.h"

#include <algorithm>
#include <limits>

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
  for (const int before : after) link(before, task);
  int& last = last_of_lane_[index(lane)];
  if (last >= 0) link(last, task);
  last = task;
  return task;
}

void EventRun::link(int from, int to) {
  DLRM_CHECK(from < to, "task {} waits for task {}, which was added later", to, from);
  tasks_[index(from)].next.push_back(to);
  ++tasks_[index(to)].waits;
}

void EventRun::run() {
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

void EventRun::start(int task, double now, int cause) {
  Task& started = tasks_[index(task)];
  started.begin = now;
  started.cause = cause;
  if (started.work.latency > 0) {
    events_.push({now + started.work.latency, order_++, task});
  } else {
    use_resources(task, now);
  }
}

void EventRun::use_resources(int task, double now) {
  Task& user = tasks_[index(task)];
  for (const Use& use : user.work.uses) {
    if (use.seconds <= 0) continue;
    Resource& resource = resources_[index(use.resource)];
    resource.pass((now - resource.updated) / resource.slowness());
    resource.users.push_back({task, use.seconds, use.amount});
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
    for (const int next : tasks_[index(task)].next) {
      if (--tasks_[index(next)].waits == 0) start(next, now, task);
    }
  }
  ended_.clear();
}

/// How long users take for what would last a second.
double EventRun::Resource::slowness() const {
  double used = 0;
  for (const User& user : users) used += user.amount;
  return std::max(used / capacity, 1.0);
}

double EventRun::Resource::least_left() const {
  double least = std::numeric_limits<double>::infinity();
  for (const User& user : users) least = std::min(least, user.left);
  return least;
}

void EventRun::Resource::pass(double seconds) {
  for (User& user : users) user.left -= seconds;
}

/// Says when the first user will end, as long as no other one comes.
void EventRun::announce(int number, double now) {
  Resource& resource = resources_[index(number)];
  resource.updated = now;
  ++resource.version;
  if (resource.users.empty()) return;
  const double left = std::max(resource.least_left(), 0.0) * resource.slowness();
  events_.push({now + left, order_++, -1, number, resource.version});
}

void EventRun::end_users(int number, double now) {
  Resource& resource = resources_[index(number)];
  resource.pass(resource.least_left());
  std::erase_if(resource.users, [&](const User& user) {
    if (user.left > 0) return false;
    if (--tasks_[index(user.task)].waits == 0) finish(user.task, now);
    return true;
  });
  announce(number, now);
}

}  // namespace dlrm
