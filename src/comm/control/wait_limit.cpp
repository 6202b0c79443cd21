#include "wait_limit.h"

#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"

#include "job_end.h"
#include "stopped_ranks.h"

namespace dlrm::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kInterval = 50ms;
constexpr auto kMostLate = 1s;     // between two looks; after that, this process was stopped
constexpr auto kLineDelay = 50ms;  // for the text to pass through mpirun
constexpr auto kTurn = 3s;         // in which mpirun kills all ranks after one has ended

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

WaitLimit::WaitLimit(int rank) : rank_(rank) {
  thread_ = background_thread([this] { run(); });
}

WaitLimit::~WaitLimit() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void WaitLimit::begin(Who who, const char* what, double seconds) {
  Limit& limit = limits_[static_cast<size_t>(who)];
  limit.what.store(what);
  limit.seconds.store(seconds);
  limit.deadline.store(now_ns() + static_cast<int64_t>(seconds * 1e9));
}

void WaitLimit::end(Who who) { limits_[static_cast<size_t>(who)].deadline.store(0); }

void WaitLimit::run() {
  std::unique_lock lock(mutex_);
  int64_t last = now_ns();
  while (!wake_.wait_for(lock, kInterval, [&] { return stopping_; })) {
    const int64_t now = now_ns();
    const int64_t late = now - last > kMostLate / 1ns ? now - last : 0;
    last = now;
    for (Limit& limit : limits_) {
      int64_t deadline = limit.deadline.load();
      if (deadline == 0) continue;
      if (late > 0) {
        // If the limit changes meanwhile, the new one began after the stop.
        limit.deadline.compare_exchange_strong(deadline, deadline + late);
      } else if (now > deadline) {
        end_in_turn(limit, now - deadline);
      }
    }
  }
}

std::chrono::nanoseconds WaitLimit::turn_of(int rank, const std::map<int, std::string>& stopped) {
  const auto lower = std::distance(stopped.begin(), stopped.lower_bound(rank));
  return (rank - lower) * kTurn;
}

/// `late` is the time since the deadline.
void WaitLimit::end_in_turn(const Limit& limit, int64_t late) const {
  const std::map<int, std::string> stopped = find_stopped_ranks();
  if (late < turn_of(rank_, stopped) / 1ns) return;
  std::vector<std::string> causes;
  for (const auto& [rank, process] : stopped) {
    causes.push_back(fmt::format("rank {} is stopped (process {})", rank, process));
  }
  if (causes.empty()) causes.push_back("another rank hangs, or its machine or network");
  print_last_line(static_cast<int>(ExitCode::kFailure),
                  fmt::format("rank {} waited {:g} s for {}: {}", rank_, limit.seconds.load(),
                              limit.what.load(), fmt::join(causes, ", ")));
  std::this_thread::sleep_for(kLineDelay);
  // mpirun and srun end the other ranks then, also stopped ones.
  ::_exit(static_cast<int>(ExitCode::kFailure));
}

}  // namespace dlrm::comm
