#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/calls/progress_engine.h"
#include "control_channel.h"

namespace dlrm::comm {

/// Prints `text` as the last line on stderr, after flushing stdout. It begins with "error: " unless
/// `code` is kDone or kStopped. An empty text prints nothing.
void print_last_line(int code, const std::string& text);

/// The protocol that ends all ranks. Every rank sends its request to rank 0. Rank 0 collects
/// requests for a short time, prints one text, and tells all ranks to end. If rank 0 does not
/// respond, another rank prints its own text and kills the job. Used by the control thread only.
class JobEnd {
 public:
  struct Request {
    int32_t rank;
    int32_t code;
    std::string text;
  };

  /// @param channel  null: a single rank
  JobEnd(int rank, int size, ControlChannel* channel, ProgressEngine& engine);

  void add(Request request) { requests_.push_back(std::move(request)); }
  bool requested() const { return !requests_.empty(); }
  /// Sets text that is printed before the last line.
  void set_preface(std::string preface) { preface_ = std::move(preface); }
  /// Makes progress on the requests. Does not return once the job ends.
  void advance();
  /// Handles a request of another rank, or its order to end. Ignores other messages.
  void receive(const ControlChannel::Message& message);
  /// Prints the first request and kills all ranks.
  [[noreturn]] void end_without_rank0();

 private:
  using Clock = std::chrono::steady_clock;

  const Request& chosen_request() const;
  void ask_rank0();
  [[noreturn]] void end_as_rank0();
  void tell_all_to_end(int code);
  void send_end(int to, int code);
  [[noreturn]] void leave(int code);

  const int rank_;
  const int size_;
  ControlChannel* const channel_;
  ProgressEngine& engine_;
  std::vector<Request> requests_;
  std::string preface_;
  Clock::time_point first_request_{};
  bool asked_rank0_ = false;
};

}  // namespace dlrm::comm
