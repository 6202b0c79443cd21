#include "criteo_pass.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/text_chunks.h"

namespace dlrm {
namespace {

/// Several chunks that pass from stage to stage together.
struct Round {
  std::vector<TextChunk> chunks;
  std::vector<CriteoBlock> blocks;
  size_t count = 0;
};

/// Shows the progress of a pass: one line on a terminal, rewritten twice a second.
class Progress {
 public:
  Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void show(const PassTotals& totals) {
    const auto now = Clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(500)) return;
    last_ = now;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    fmt::print(stderr, "\r\033[K{} rows, {:.0f} MB read, {:.0f} MB/s", totals.rows,
               static_cast<double>(totals.bytes) * 1e-6,
               static_cast<double>(totals.bytes) * 1e-6 / seconds);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

/// Runs the stages read, parse, encode and write. Each step moves every round to its next stage.
class Pipeline {
 public:
  Pipeline(const std::vector<std::string>& inputs, bool skip_malformed, TaskTeam& team,
           CriteoPass& pass)
      : inputs_(inputs), skip_malformed_(skip_malformed), team_(team), pass_(pass), text_(inputs) {
    const auto size = static_cast<size_t>(std::min(2 * team.threads(), kMostChunks));
    for (Round& round : ring_) {
      round.chunks.resize(size);
      round.blocks.resize(size);
    }
  }

  PassTotals run() {
    Progress progress;
    for (size_t step = 0; !reading_done_ || in_flight(step); ++step) {
      run_step(step);
      progress.show(totals_);
    }
    totals_.bytes = text_.bytes();
    return totals_;
  }

 private:
  static constexpr size_t kStages = 4;
  // Of a round: bounds the memory, however many threads there are.
  static constexpr int kMostChunks = 256;

  Round& round_at(size_t step, size_t stage) { return ring_[(step + kStages - stage) % kStages]; }

  bool in_flight(size_t step) {
    for (size_t stage = 1; stage < kStages; ++stage) {
      if (round_at(step, stage).count > 0) return true;
    }
    return false;
  }

  void run_step(size_t step) {
    Round& read = round_at(step, 0);
    Round& parse = round_at(step, 1);
    Round& encode = round_at(step, 2);
    Round& write = round_at(step, 3);
    tasks_.clear();
    tasks_.emplace_back([this, &read] { fill(read); });
    tasks_.emplace_back([this, &write] { write_all(write); });
    for (size_t f = 0; encode.count > 0 && f < kCriteoCategories; ++f) {
      tasks_.emplace_back([this, f, &encode] {
        for (size_t i = 0; i < encode.count; ++i) pass_.encode(f, encode.blocks[i]);
      });
    }
    for (size_t i = 0; i < parse.count; ++i) {
      tasks_.emplace_back([i, &parse] { parse_criteo(parse.chunks[i], parse.blocks[i]); });
    }
    team_.run(tasks_);
    for (size_t i = 0; i < parse.count; ++i) account(parse.blocks[i]);
    totals_.bytes = text_.bytes();
  }

  void fill(Round& round) {
    round.count = 0;
    while (!reading_done_ && round.count < round.chunks.size()) {
      if (text_.next(round.chunks[round.count])) {
        ++round.count;
      } else {
        reading_done_ = true;
      }
    }
  }

  void write_all(Round& round) {
    for (size_t i = 0; i < round.count; ++i) pass_.write(round.blocks[i]);
  }

  void account(const CriteoBlock& block) {
    if (block.file != file_) {
      file_ = block.file;
      file_lines_ = 0;
    }
    if (block.malformed && !skip_malformed_) {
      throw usage_error("{}:{}: {} (--skip-malformed leaves such lines out)", inputs_[block.file],
                        file_lines_ + block.malformed->line, block.malformed->reason);
    }
    file_lines_ += block.lines;
    totals_.rows += block.rows;
    totals_.skipped += block.skipped();
  }

  const std::vector<std::string>& inputs_;
  bool skip_malformed_;
  TaskTeam& team_;
  CriteoPass& pass_;
  TextChunks text_;
  std::array<Round, kStages> ring_;
  bool reading_done_ = false;
  std::vector<std::function<void()>> tasks_;
  size_t file_ = 0;
  int64_t file_lines_ = 0;
  PassTotals totals_;
};

}  // namespace

PassTotals run_criteo_pass(const std::vector<std::string>& inputs, bool skip_malformed,
                           TaskTeam& team, CriteoPass& pass) {
  return Pipeline(inputs, skip_malformed, team, pass).run();
}

}  // namespace dlrm
