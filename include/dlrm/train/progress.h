#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "dlrm/core/log.h"

namespace dlrm {

/// Shows the progress of training and of evaluations. On a terminal it is one live line, redrawn at
/// most five times a second. Otherwise it is plain log lines. Silent on ranks other than 0.
class ProgressLine {
 public:
  struct State {
    int64_t step = 0;  ///< steps done
    int64_t total_steps = 0;
    double epoch = 0;  ///< epochs trained on
    double loss = 0;   ///< the last one known
    double samples_per_second = 0;
  };
  struct EvaluationState {
    int64_t step = 0;     ///< whose weights are evaluated
    int64_t batches = 0;  ///< done
    int64_t total_batches = 0;
    int64_t samples = 0;  ///< done
  };
  /// The outputs for lines, and the clock. Tests replace them.
  struct Surroundings {
    bool terminal = false;
    std::function<void(const std::string&)> draw;  ///< raw text to the terminal
    std::function<void(const std::string&)> line;  ///< a log line
    std::function<double()> seconds;               ///< a monotonic clock
  };

  /// Writes to stderr: a live line if that is a terminal, or if mpirun shows it on one.
  explicit ProgressLine(const Log& log);
  ProgressLine(int rank, Surroundings surroundings);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Call it after each step. `metrics` is true if metrics of this step were logged. A plain line
  /// is written at the first and the last step, at metrics (at most one per second), and after 30
  /// seconds without a line.
  void update(const State& state, bool metrics = false);
  /// Call it before an evaluation, with no batches, and after each batch. A plain line is written
  /// only after 30 seconds without one.
  void evaluating(const EvaluationState& state);
  /// Removes the live line from the terminal, before anything else is printed there.
  void clear();

 private:
  std::string text(const State& state) const;
  std::string text(const EvaluationState& state) const;
  /// Shows a text. `always`: whatever was shown before. `due`: also as a plain line.
  template <class AnyState>
  void show(const AnyState& state, bool always, bool due);

  bool silent_;
  Surroundings out_;
  bool drawn_ = false;
  bool started_ = false;
  int64_t first_step_ = 0;
  double first_time_ = 0;
  double last_time_ = 0;
  double evaluation_time_ = 0;  ///< when the evaluation began
  double now_ = 0;
};

}  // namespace dlrm
