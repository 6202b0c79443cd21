#include "control_thread.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <unistd.h>

#include "dlrm/core/background_thread.h"

#include "comm/mpi/mpi_c.h"
#include "message_kind.h"

namespace dlrm::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kPollInterval = 10ms;

// For the MPI calls of one poll, which never wait for another rank, so that MPI itself must hang:
// a rank that is stopped while it writes to a queue in shared memory holds up all that read it.
constexpr double kLeastPollSeconds = 10;
constexpr double kUnwatchedPollSeconds = 300;

}  // namespace

double seconds_of_a_poll(double timeout) {
  return timeout > 0 ? std::max(kLeastPollSeconds, timeout) : kUnwatchedPollSeconds;
}

ControlThread::ControlThread(int rank, int size, std::unique_ptr<ControlChannel> channel,
                             std::shared_ptr<ProgressEngine> engine, WaitLimit* limit)
    : rank_(rank),
      size_(size),
      channel_(std::move(channel)),
      engine_(std::move(engine)),
      limit_(limit),
      watchdog_(rank, size, channel_.get(), engine_->monitor()),
      job_end_(rank, size, channel_.get(), *engine_) {
  if (channel_) launch();
}

ControlThread::~ControlThread() { stop(); }

void ControlThread::launch() {
  if (thread_.joinable()) return;
  thread_ = background_thread([this] { run(); });
}

void ControlThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ControlThread::stop_reports() {
  watchdog_.stop_reports();
  if (!thread_.joinable()) return;
  while (!flushed_.load()) std::this_thread::sleep_for(1ms);  // World::finish() limits it
}

void ControlThread::start_watchdog(double timeout_seconds, const Trace& trace) {
  if (!channel_ && size_ > 1) return;  // the reports of other ranks cannot arrive
  watchdog_.start(timeout_seconds, trace);
  launch();
}

void ControlThread::end_all(ExitCode code, const std::string& text) {
  if (!thread_.joinable()) {
    print_last_line(static_cast<int>(code), text);
    if (size_ > 1) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    ::_exit(static_cast<int>(code));
  }
  {
    const std::lock_guard lock(mutex_);
    own_requests_.push_back({rank_, static_cast<int32_t>(code), text});
  }
  wake_.notify_all();
  for (;;) std::this_thread::sleep_for(1h);  // the control thread ends the process
}

void ControlThread::run() {
  for (;;) {
    if (limit_) {
      limit_->begin(WaitLimit::Who::kControlThread, "MPI in its watchdog",
                    seconds_of_a_poll(watchdog_.timeout()));
    }
    poll();
    if (limit_) limit_->end(WaitLimit::Who::kControlThread);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kPollInterval, [&] { return stopping_ || !own_requests_.empty(); });
    if (stopping_) return;
    for (JobEnd::Request& request : std::exchange(own_requests_, {})) {
      job_end_.add(std::move(request));
    }
  }
}

void ControlThread::poll() {
  receive_messages();
  if (job_end_.requested()) {
    job_end_.advance();
  } else if (const auto alarm = watchdog_.check()) {
    job_end_.set_preface(alarm->table);
    job_end_.add({rank_, static_cast<int32_t>(ExitCode::kFailure), alarm->error});
    if (alarm->rank0_is_silent) job_end_.end_without_rank0();
  }
  if (watchdog_.reports_stopped() && (!channel_ || channel_->all_sent())) flushed_.store(true);
}

void ControlThread::receive_messages() {
  ControlChannel::Message message;
  while (channel_ && channel_->receive(message)) {
    if (message.kind == kAlive) {
      watchdog_.hear(message.from);
    } else if (message.kind != kReport) {
      job_end_.receive(message);
    } else if (message.bytes.size() == sizeof(RankReport)) {
      RankReport page;
      std::memcpy(static_cast<void*>(&page), message.bytes.data(), sizeof page);
      watchdog_.receive(message.from, page);
    }
  }
}

}  // namespace dlrm::comm
