#pragma once
#include <cstdint>

#include "comm/calls/call_log.h"

namespace dlrm::comm {

/// One page of the report that a rank's watchdog sends each second, as raw bytes. Ranks with many
/// communicators send several pages.
struct RankReport {
  static constexpr int kComms = 13;
  struct CallEntry {
    char name[16];
    int64_t bytes;
  };
  struct Comm {
    int32_t id;
    int32_t padding;
    uint64_t entered;
    CallEntry calls[CallLog::kKept];  ///< call k at k % kKept
  };

  int32_t rank = 0;
  int32_t paused = 0;
  double idle_seconds = 0;     ///< without progress
  double timeout_seconds = 0;  ///< 0: not watched
  char stage[40] = "";
  char host[40] = "";
  int32_t comm_count = 0;  ///< on this page
  int16_t page = 0;
  int16_t pages = 1;
  Comm comms[kComms] = {};
};

}  // namespace dlrm::comm
