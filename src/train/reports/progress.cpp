#include "dlrm/train/progress.h"

#include <chrono>
#include <utility>

#include <unistd.h>

#include "dlrm/core/terminal.h"

namespace dlrm {

namespace {

constexpr double kRedraw = 0.2;      // seconds between drawings of the live line
constexpr double kBetweenLines = 1;  // at least, between plain lines
constexpr double kSilence = 30;      // at most, between plain lines

ProgressLine::Surroundings standard_error(const Log& log) {
  ProgressLine::Surroundings out;
  out.terminal = errors_reach_terminal();
  out.draw = [](const std::string& text) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  };
  out.line = [log](const std::string& text) { log.info("{}", text); };
  out.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  return out;
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f}M", per_second * 1e-6);
  if (per_second >= 1e4) return fmt::format("{:.1f}k", per_second * 1e-3);
  return fmt::format("{:.0f}", per_second);
}

/// Empty if nothing is done or left.
std::string time_left(double seconds, int64_t done, int64_t left) {
  if (done <= 0 || left <= 0) return "";
  const double of_one = seconds / static_cast<double>(done);
  return fmt::format(", {} left", duration(of_one * static_cast<double>(left)));
}

}  // namespace

ProgressLine::ProgressLine(const Log& log) : ProgressLine(log.rank(), standard_error(log)) {}

ProgressLine::ProgressLine(int rank, Surroundings surroundings)
    : silent_(rank != 0), out_(std::move(surroundings)) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const State& state, bool metrics) {
  if (silent_) return;
  now_ = out_.seconds();
  const bool first = !started_;
  const bool last = state.step == state.total_steps;
  if (first) {
    started_ = true;
    first_step_ = state.step;
    first_time_ = now_;
  }
  const double since = now_ - last_time_;
  show(state, first || last, (metrics && since >= kBetweenLines) || since >= kSilence);
}

void ProgressLine::evaluating(const EvaluationState& state) {
  if (silent_) return;
  now_ = out_.seconds();
  if (state.batches == 0) {
    evaluation_time_ = last_time_ = now_;
    return;
  }
  show(state, false, now_ - last_time_ >= kSilence);
}

template <class AnyState>
void ProgressLine::show(const AnyState& state, bool always, bool due) {
  if (!always && !(out_.terminal ? now_ - last_time_ >= kRedraw : due)) return;
  if (out_.terminal) {
    // Back to the first column, and erase the line.
    out_.draw("\r" + text(state) + "\x1b[K");
    drawn_ = true;
  } else {
    out_.line(text(state));
  }
  last_time_ = now_;
}

void ProgressLine::clear() {
  if (!drawn_) return;
  out_.draw("\r\x1b[K");
  drawn_ = false;
}

std::string ProgressLine::text(const State& state) const {
  std::string result = fmt::format("step {}/{}  epoch {:.2f}  loss {:.5f}  {} samples/s  {}",
                                   state.step, state.total_steps, state.epoch, state.loss,
                                   rate(state.samples_per_second), duration(now_ - first_time_));
  return result +
         time_left(now_ - first_time_, state.step - first_step_, state.total_steps - state.step);
}

std::string ProgressLine::text(const EvaluationState& state) const {
  const double seconds = now_ - evaluation_time_;
  return fmt::format("step {}: evaluation  batch {}/{}  {} samples/s  {}{}", state.step,
                     state.batches, state.total_batches,
                     rate(static_cast<double>(state.samples) / seconds), duration(seconds),
                     time_left(seconds, state.batches, state.total_batches - state.batches));
}

}  // namespace dlrm
