#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "criteo_parse.h"
#include "task_team.h"

namespace dlrm {

/// What is done with the rows of one pass over the logs.
class CriteoPass {
 public:
  virtual ~CriteoPass() = default;
  /// Fills block.ids[feature]. A feature's blocks come in input order, one at a time; different
  /// features come at once.
  virtual void encode(size_t feature, CriteoBlock& block) = 0;
  /// Every block in input order, one at a time, after its encode.
  virtual void write(const CriteoBlock& block) = 0;
};

struct PassTotals {
  int64_t rows = 0;
  int64_t skipped = 0;  ///< malformed lines
  int64_t bytes = 0;    ///< of text
};

/// Runs `pass` over every line of `inputs`, in order, and says how far it is on a terminal.
/// Reading, parsing, encoding and writing of different stretches go on at once on the team's
/// threads; memory in use is bounded by a few MiB a thread. What the pass sees does not depend on
/// the number of threads. A malformed line is a usage_error naming file and line, unless
/// `skip_malformed`.
PassTotals run_criteo_pass(const std::vector<std::string>& inputs, bool skip_malformed,
                           TaskTeam& team, CriteoPass& pass);

}  // namespace dlrm
