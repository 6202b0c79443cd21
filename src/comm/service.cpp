#include "service.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include <unistd.h>

#include "signals.h"

namespace dlrm {
namespace {

using namespace std::chrono_literals;

constexpr auto kTurn = 10ms;
constexpr auto kCollect = 150ms;   // in which several ranks' reasons arrive
constexpr auto kPatience = 4s;     // for an answer of rank 0
constexpr auto kFarewell = 300ms;  // for the message to end to leave

void print(const std::string& text) {
  std::fflush(stdout);
  std::fflush(stderr);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

/// An error is named as such; the last word of a run that stopped on request is not.
std::string last_words(int code, const std::string& text) {
  if (text.empty()) return "";
  const bool error =
      code != static_cast<int>(ExitCode::kDone) && code != static_cast<int>(ExitCode::kStopped);
  return (error ? "error: " : "") + text + (text.back() == '\n' ? "" : "\n");
}

}  // namespace

Service::Service(int rank, int size, std::unique_ptr<Wire> wire,
                 std::shared_ptr<ProgressEngine> engine)
    : rank_(rank),
      size_(size),
      wire_(std::move(wire)),
      engine_(std::move(engine)),
      heard_(static_cast<size_t>(size)),
      half_heard_(static_cast<size_t>(size)),
      heard_at_(static_cast<size_t>(size)) {
  if (wire_) launch_thread();
}

Service::~Service() { stop(); }

void Service::launch_thread() {
  if (thread_.joinable()) return;
  const SignalsBlocked blocked;  // inherited: signals go to the main thread
  thread_ = std::thread([this] { run(); });
}

void Service::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Service::hush() {
  hushed_.store(true);
  if (!thread_.joinable()) return;
  while (!hush_done_.load()) std::this_thread::sleep_for(1ms);
}

void Service::start_watchdog(double timeout_seconds, const Trace& trace) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = trace.shared_current();
  }
  timeout_.store(timeout_seconds);
  launch_thread();
}

void Service::end_all(ExitCode code, const std::string& text) {
  if (!thread_.joinable()) {
    print(last_words(static_cast<int>(code), text));
    if (size_ > 1) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    leave(static_cast<int>(code));
  }
  {
    const std::lock_guard lock(mutex_);
    own_requests_.push_back({rank_, static_cast<int32_t>(code), text});
  }
  wake_.notify_all();
  for (;;) std::this_thread::sleep_for(1h);  // the service thread ends the process
}

void Service::run() {
  last_turn_ = Clock::now();
  for (;;) {
    turn();
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    wake_.wait_for(lock, kTurn, [&] { return stopping_ || !own_requests_.empty(); });
    if (stopping_) return;
  }
}

void Service::turn() {
  receive_all();
  take_own_request();
  if (!requests_.empty()) {
    serve_end();
  } else if (timeout_.load() > 0) {
    watch();
  }
  if (hushed_.load() && !hush_done_.load()) {
    int unsent = 0;
    for (int q = 0; wire_ && q < size_; ++q) unsent += wire_->unsent(q);
    hush_done_.store(unsent == 0);
  }
}

void Service::receive_all() {
  Wire::Message message;
  while (wire_ && wire_->receive(message)) {
    if (message.kind == kReport && message.bytes.size() == sizeof(RankReport)) {
      RankReport page;
      std::memcpy(static_cast<void*>(&page), message.bytes.data(), sizeof page);
      hear(message.from, page);
      continue;
    }
    int32_t code = 0;
    std::memcpy(&code, message.bytes.data(), sizeof code);
    if (message.kind == kEndNow) leave(code);
    if (message.kind == kEndRequest) {
      requests_.push_back({message.from, code,
                           std::string(message.bytes.begin() + sizeof code, message.bytes.end())});
    }
  }
}

void Service::take_own_request() {
  const std::lock_guard lock(mutex_);
  for (EndRequest& request : own_requests_) requests_.push_back(std::move(request));
  own_requests_.clear();
}

void Service::serve_end() {
  const auto now = Clock::now();
  if (first_request_ == Clock::time_point{}) first_request_ = now;
  if (rank_ == 0) {
    if (size_ == 1 || now - first_request_ >= kCollect) end_as_rank0();
    return;
  }
  if (!asked_rank0_) {
    const EndRequest& request = requests_.front();
    std::string bytes(reinterpret_cast<const char*>(&request.code), sizeof request.code);
    bytes += request.text;
    wire_->send(0, kEndRequest, bytes.data(), bytes.size());
    asked_rank0_ = true;
  }
  wire_->unsent(0);  // moves it on
  // One after another, so that only the lowest rank that is alive speaks.
  if (now - first_request_ >= kPatience + rank_ * 200ms) end_without_rank0();
}

const Service::EndRequest& Service::chosen_request() const {
  return *std::min_element(requests_.begin(), requests_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.text.empty(), a.rank) < std::pair(b.text.empty(), b.rank);
  });
}

void Service::end_as_rank0() {
  const EndRequest& request = chosen_request();
  print(preface_ + last_words(request.code, request.text));
  tell_all_to_end(request.code);
  leave(request.code);
}

void Service::end_without_rank0() {
  const EndRequest& request = requests_.front();
  print(preface_ + last_words(request.code, request.text));
  std::this_thread::sleep_for(50ms);  // for the text to pass through mpirun
  wire_->abort(request.code);
  leave(request.code);
}

void Service::tell_all_to_end(int code) {
  if (!wire_) return;
  std::this_thread::sleep_for(50ms);  // for the text to pass through mpirun
  const int32_t value = code;
  for (int q = 0; q < size_; ++q) {
    if (q != rank_) wire_->send(q, kEndNow, &value, sizeof value);
  }
  const auto until = Clock::now() + kFarewell;
  for (bool waiting = true; waiting && Clock::now() < until;) {
    waiting = false;
    for (int q = 0; q < size_; ++q) waiting |= wire_->unsent(q) > 0;
    std::this_thread::sleep_for(1ms);
  }
}

void Service::leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (wire_ && code == 0) {
    // mpirun takes an end without MPI_Finalize for a failure. The main thread may be inside a
    // collective that will never be done: it polls under this mutex and stays out of MPI.
    engine_->mutex().lock();
    wire_->finalize();
  }
  ::_exit(code);
}

}  // namespace dlrm
