#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "dlrm/core/view.h"

namespace dlrm {

/// Runs tasks in simulated time. A task waits for other tasks and for the preceding task of its
/// lane. Then it takes a fixed time, and after that it uses resources. Tasks that together use more
/// of a resource than there is of it share it in proportion to what each uses.
class EventRun {
 public:
  /// A part of a task: how long it lasts while there is enough of the resource.
  struct Use {
    int resource = -1;
    double seconds = 0;
    double amount = 1;  ///< of the resource's capacity
  };
  struct Work {
    double latency = 0;            ///< seconds before the uses begin
    std::array<Use, 2> uses = {};  ///< at the same time; the task ends when both have ended
  };

  int add_lane();
  int add_resource(double capacity = 1);
  /// Returns the task's number. It begins after the tasks `after`, which may be of any lane.
  int add(int lane, const Work& work, View<const int> after);

  /// Runs all tasks, once.
  void run();

  int tasks() const { return static_cast<int>(tasks_.size()); }
  /// Seconds from the start of the run.
  double begin(int task) const { return tasks_[index(task)].begin; }
  double end(int task) const { return tasks_[index(task)].end; }
  /// The last task that this one waited for; -1: none.
  int cause(int task) const { return tasks_[index(task)].cause; }

 private:
  struct Task {
    Work work;
    double begin = 0, end = 0;
    int waits = 0;  ///< tasks that it still waits for, then uses that have not ended
    int cause = -1;
    std::vector<int> next;  ///< those that wait for it
  };
  struct User {
    int task = -1;
    double left = 0;  ///< seconds, if there is enough
    double amount = 0;
  };
  struct Resource {
    double capacity = 1;
    std::vector<User> users;
    double updated = 0;   ///< when what is left was computed
    int64_t version = 0;  ///< of the event that says when a user ends

    double slowness() const;
    double least_left() const;
    void pass(double seconds);
  };
  struct Event {
    double time = 0;
    int64_t order = 0;  ///< of events at the same time, the one that was made first is first
    int task = -1;      ///< whose latency has passed
    int resource = -1;  ///< whose first user ends
    int64_t version = 0;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  static size_t index(int number) { return static_cast<size_t>(number); }
  void link(int from, int to);
  void start(int task, double now, int cause);
  void use_resources(int task, double now);
  void finish(int task, double now);
  void announce(int resource, double now);
  void end_users(int resource, double now);
  void start_successors(double now);

  std::vector<Task> tasks_;
  std::vector<Resource> resources_;
  std::vector<int> last_of_lane_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<int> ended_;  ///< tasks whose successors were not told
  int64_t order_ = 0;
};

}  // namespace dlrm
