#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"

namespace dlrm {

/// The first id outside its table that a device found in its own memory. The reader and the router
/// have checked all ids before.
class BadIdReport {
 public:
  BadIdReport(Context& context, const ModelConfig& model);

  /// Device memory, {feature, sample, id}. Ops::check_ids writes it.
  View<int64_t> device() const { return found_.view(); }
  /// Queues the copy to the host.
  void read_back();
  /// True if the last completed read_back() copied a bad id.
  bool any() const { return host_[0] != kNone; }
  /// "sample 3, feature C1: id 7 ...", or empty.
  std::string text() const;

 private:
  static constexpr int64_t kNone = -1;

  Context& context_;
  std::vector<std::string> features_;
  Array<int64_t> found_;
  HostArray<int64_t> host_;
};

}  // namespace dlrm
