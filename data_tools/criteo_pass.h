#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/data/criteo_parse.h"

#include "task_team.h"

namespace dlrm {

/// Processes the rows of one pass over the logs.
class CriteoPass {
 public:
  virtual ~CriteoPass() = default;
  /// Fills block.ids[feature]. Called for a feature's blocks in input order, one at a time.
  /// Different features may be encoded at the same time.
  virtual void encode(size_t feature, CriteoBlock& block) = 0;
  /// Called for every block after encode, in input order, one at a time.
  virtual void write(const CriteoBlock& block) = 0;
};

struct PassTotals {
  int64_t rows = 0;
  int64_t skipped = 0;  ///< malformed lines
  int64_t bytes = 0;    ///< of text
};

/// Runs `pass` over every line of `inputs`, in order, and shows the progress on a terminal. The
/// team's threads read, parse, encode and write different blocks at the same time, within 50 MiB
/// of memory per thread for real logs and 200 MiB for any input. The order of calls to `pass` does
/// not depend on the number of threads. A malformed line is a usage_error naming file and line,
/// unless `skip_malformed` is set.
PassTotals run_criteo_pass(const std::vector<std::string>& inputs, bool skip_malformed,
                           TaskTeam& team, CriteoPass& pass);

}  // namespace dlrm
