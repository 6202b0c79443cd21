#pragma once

namespace dlrm::comm {

/// Kinds of messages on the control channel.
enum MessageKind : int {
  kReport = 1,      ///< a RankReport
  kEndRequest = 2,  ///< to rank 0: an int32 exit code, then a text
  kEndNow = 3,      ///< from rank 0: an int32 exit code
};

}  // namespace dlrm::comm
