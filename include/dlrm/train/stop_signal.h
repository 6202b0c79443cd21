#pragma once

namespace dlrm {

/// While one of these lives, SIGUSR1, SIGTERM and SIGINT ask the run to stop instead of ending the
/// process; a second SIGINT ends it at once. The earlier handlers come back with the destructor.
/// Several may live at once (ranks as threads); they share the request.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once a signal came to this process. Other ranks may not have got it: agree before acting.
  bool requested() const;
};

}  // namespace dlrm
