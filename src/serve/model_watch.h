#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dlrm/core/log.h"

#include "batcher.h"
#include "counters.h"
#include "trained_model.h"

namespace dlrm::serve {

/// Finds the best or newest checkpoint of a folder whenever it is another than the one in use.
class CheckpointWatch {
 public:
  /// `given` is what the user named: a folder of checkpoints, one of them, or a link to either. If
  /// it is one checkpoint, nothing newer is ever found. `used` is the folder in use.
  CheckpointWatch(std::string given, const std::string& used);

  /// The folder of the best checkpoint, or the newest if none is marked as the best, unless it is
  /// in use or was returned before.
  std::string newer();

 private:
  const std::string given_;
  std::string seen_;  // identity of that checkpoint at the last look
};

/// Loads newer checkpoints on a thread of its own, and gives them to a Batcher. A checkpoint that
/// is damaged, or does not replace the model in use, is reported once and not used.
class Reloader {
 public:
  Reloader(CheckpointWatch watch, const LoadOptions& options,
           std::chrono::duration<double> interval, Batcher& batcher, Counters& counters);
  ~Reloader();
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

 private:
  void run();
  void look();

  CheckpointWatch watch_;
  const LoadOptions options_;
  const std::chrono::duration<double> interval_;
  Batcher& batcher_;
  Counters& counters_;
  Log log_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlrm::serve
