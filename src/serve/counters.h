#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace dlrm::serve {

/// What a server has done so far. Any thread may call any function.
class Counters {
 public:
  /// An answered request to predict. `seconds` passed since it had arrived as a whole.
  void add_request(int status, double seconds);
  /// A request of any page that was refused before it was whole.
  void add_refused(int status);
  void add_batch(int64_t samples);
  void add_reload(bool good);
  void add_connections(int change);

  /// The state of the model in use.
  struct ModelState {
    int64_t step = 0;
    int64_t table_bytes = 0;
  };
  /// All counters in Prometheus' text format.
  std::string text(const ModelState& model) const;

  static constexpr std::array<double, 12> kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,   0.025,   0.05,   0.1,   0.5,    1};

 private:
  mutable std::mutex mutex_;
  std::map<int, int64_t> requests_;                   // by status
  std::map<int, int64_t> refused_;                    // the same
  std::array<int64_t, kBounds.size()> at_most_ = {};  // requests that took at most kBounds[i]
  double seconds_ = 0;
  int64_t samples_ = 0, batches_ = 0, reloads_ = 0, failed_reloads_ = 0, connections_ = 0;
};

}  // namespace dlrm::serve
