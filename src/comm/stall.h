#pragma once
#include <string>
#include <vector>

#include "rank_report.h"

namespace dlrm {

/// A rank's last report and how long ago it came.
struct Heard {
  RankReport report;             ///< its first page
  std::vector<RankReport> more;  ///< further ones
  double seconds_ago = 0;
  bool ever = false;

  /// Calls visit(comm) for each communicator of the report.
  template <class Visit>
  void each_comm(Visit visit) const {
    for (int c = 0; c < report.comm_count; ++c) visit(report.comms[c]);
    for (const RankReport& page : more) {
      for (int c = 0; c < page.comm_count; ++c) visit(page.comms[c]);
    }
  }
};

/// Why a job stands still.
struct Stall {
  bool found = false;
  std::string table;  ///< several lines: all ranks, and who has not entered which call
  std::string error;  ///< one line: the rank to look at
};

/// Judges reports of all ranks, [size]. A rank stalls that made no progress for its timeout, or was
/// not heard for as long; a pause of any rank excuses lack of progress, not silence.
Stall find_stall(const std::vector<Heard>& ranks, double timeout_seconds);

}  // namespace dlrm
