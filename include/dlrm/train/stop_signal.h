#pragma once

namespace dlrm {

/// While an object exists, SIGUSR1, SIGTERM and SIGINT ask the run to stop instead of ending the
/// process. A second SIGINT ends it at once. The destructor restores the earlier handlers, but
/// ignores SIGUSR1 if it had none. Several objects may exist at once, if ranks are threads. They
/// share the request.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once this process has received a signal. Other ranks may not have: agree before acting.
  bool requested() const;
};

}  // namespace dlrm
