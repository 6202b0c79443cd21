#include "job_end.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include <unistd.h>

#include "dlrm/core/error.h"

#include "message_kind.h"

namespace dlrm::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kCollectTime = 150ms;   // in which the requests of several ranks arrive
constexpr auto kRank0Timeout = 4s;     // for an answer of rank 0
constexpr auto kRankInterval = 200ms;  // between the timeouts of consecutive ranks
constexpr auto kFlushTimeout = 300ms;  // for the orders to end to leave
constexpr auto kTextDelay = 50ms;      // for the text to pass through mpirun

void print(const std::string& text) {
  std::fflush(stdout);
  std::fflush(stderr);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

std::string last_line(int code, const std::string& text) {
  if (text.empty()) return "";
  const bool error =
      code != static_cast<int>(ExitCode::kDone) && code != static_cast<int>(ExitCode::kStopped);
  return (error ? "error: " : "") + text + (text.back() == '\n' ? "" : "\n");
}

}  // namespace

void print_last_line(int code, const std::string& text) { print(last_line(code, text)); }

JobEnd::JobEnd(int rank, int size, ControlChannel* channel, ProgressEngine& engine)
    : rank_(rank), size_(size), channel_(channel), engine_(engine) {}

void JobEnd::receive(const ControlChannel::Message& message) {
  int32_t code = 0;
  if (message.bytes.size() < sizeof code) return;
  std::memcpy(&code, message.bytes.data(), sizeof code);
  if (message.kind == kEndNow) leave(code);
  if (message.kind == kEndRequest) {
    add({message.from, code,
         std::string(message.bytes.begin() + sizeof code, message.bytes.end())});
  }
}

void JobEnd::advance() {
  const auto now = Clock::now();
  if (first_request_ == Clock::time_point{}) first_request_ = now;
  if (rank_ == 0) {
    if (size_ == 1 || now - first_request_ >= kCollectTime) end_as_rank0();
    return;
  }
  if (!asked_rank0_) ask_rank0();
  // One rank after another, so that only the lowest one alive prints its text.
  if (now - first_request_ >= kRank0Timeout + rank_ * kRankInterval) end_without_rank0();
}

void JobEnd::ask_rank0() {
  const Request& request = requests_.front();
  std::string bytes(reinterpret_cast<const char*>(&request.code), sizeof request.code);
  bytes += request.text;
  channel_->send(0, kEndRequest, bytes.data(), bytes.size());
  asked_rank0_ = true;
}

/// The lowest rank's request, preferably one with a text.
const JobEnd::Request& JobEnd::chosen_request() const {
  return *std::min_element(requests_.begin(), requests_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.text.empty(), a.rank) < std::pair(b.text.empty(), b.rank);
  });
}

void JobEnd::end_as_rank0() {
  const Request& request = chosen_request();
  print(preface_ + last_line(request.code, request.text));
  tell_all_to_end(request.code);
  leave(request.code);
}

void JobEnd::end_without_rank0() {
  const Request& request = requests_.front();
  print(preface_ + last_line(request.code, request.text));
  // mpirun wakes a stopped rank 0 to end it. Rank 0 must not print a text then.
  send_end(0, request.code);
  std::this_thread::sleep_for(kTextDelay);
  channel_->abort(request.code);
  leave(request.code);
}

void JobEnd::tell_all_to_end(int code) {
  if (!channel_) return;
  std::this_thread::sleep_for(kTextDelay);
  for (int q = 0; q < size_; ++q) {
    if (q != rank_) send_end(q, code);
  }
  const auto until = Clock::now() + kFlushTimeout;
  while (!channel_->all_sent() && Clock::now() < until) std::this_thread::sleep_for(1ms);
}

void JobEnd::send_end(int to, int code) {
  const int32_t value = code;
  channel_->send(to, kEndNow, &value, sizeof value);
}

void JobEnd::leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (channel_ && code == 0) {
    // mpirun takes an end without MPI_Finalize for a failure. The main thread may be inside a
    // collective that will never complete. It polls under this mutex, and so stays out of MPI.
    engine_.mutex().lock();
    channel_->finalize();
  }
  ::_exit(code);
}

}  // namespace dlrm::comm
