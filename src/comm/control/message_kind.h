#pragma once

namespace dlrm::comm {

/// Kinds of messages on the control channel.
enum MessageKind : int {
  kReport = 1,      ///< a RankReport
  kEndRequest = 2,  ///< to rank 0: an int32 exit code, then a text
  kEndNow = 3,      ///< from rank 0: an int32 exit code
  kAlive = 4,       ///< from ranks 0 and 1, which judge the reports: no bytes
};

}  // namespace dlrm::comm
