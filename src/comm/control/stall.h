#pragma once
#include <string>
#include <vector>

#include "rank_report.h"

namespace dlrm::comm {

/// A rank's last report and its age.
struct PeerReport {
  RankReport report;             ///< first page
  std::vector<RankReport> more;  ///< further pages
  double seconds_ago = 0;
  bool received = false;  ///< false: there is no report yet

  /// Calls visit(comm) for each communicator of the report.
  template <class Visit>
  void each_comm(Visit visit) const {
    for (int c = 0; c < report.comm_count; ++c) visit(report.comms[c]);
    for (const RankReport& page : more) {
      for (int c = 0; c < page.comm_count; ++c) visit(page.comms[c]);
    }
  }
};

/// Why a job makes no progress.
struct Stall {
  bool found = false;
  std::string table;  ///< several lines: all ranks, and who has not entered which call
  std::string error;  ///< one line that names a rank
};

/// Looks for a stalled rank. A rank is stalled if it made no progress, or sent no report, for its
/// timeout. A pause of any rank excuses lack of progress, but not silence.
///
/// @param ranks  [size] reports of all ranks
Stall find_stall(const std::vector<PeerReport>& ranks, double timeout_seconds);

}  // namespace dlrm::comm
