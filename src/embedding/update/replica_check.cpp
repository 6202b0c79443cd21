#include "replica_check.h"

#include <algorithm>
#include <vector>

#include "dlrm/core/dispatch.h"
#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/device/transfer.h"

namespace dlrm {
namespace {

constexpr int64_t kChunkRows = 1 << 14;

}  // namespace

void check_replica(Context& context, const std::string& table, const RowTable& rows) {
  Communicator& comm = context.comm;
  Transfer transfer(context.device, context.stream);
  const int64_t state_width = rows.state_stride == 1 ? 1 : rows.width;
  std::vector<uint64_t> hashes;
  const auto mix = [&]<class T>(const T* from, int64_t stride, int64_t width, int64_t first,
                                int64_t count) {
    std::vector<T> values(static_cast<size_t>(count * width));
    transfer.read_rows(from + first * stride, stride, count, width, values.data());
    for (int64_t r = 0; r < count; ++r) {
      uint64_t& hash = hashes[static_cast<size_t>(r)];
      hash = hash_bytes(values.data() + r * width, static_cast<size_t>(width) * sizeof(T), hash);
    }
  };
  for (int64_t first = 0; first < rows.rows; first += kChunkRows) {
    const int64_t count = std::min(kChunkRows, rows.rows - first);
    hashes.assign(static_cast<size_t>(count), 0);
    dispatch_compute(rows.type, [&]<class T>() {
      mix(static_cast<const T*>(rows.weights), rows.stride, rows.width, first, count);
    });
    for (const float* state : {rows.state1, rows.state2}) {
      if (state) mix(state, rows.state_stride, state_width, first, count);
    }
    const std::vector<uint64_t> all = comm.allgatherv<uint64_t>(hashes);
    for (int64_t r = 0; r < count; ++r) {
      for (int p = 1; p < comm.size(); ++p) {
        if (all[static_cast<size_t>(p * count + r)] == all[static_cast<size_t>(r)]) continue;
        throw run_error("table {}, row {}: the copies of ranks 0 and {} differ", table, first + r,
                        p);
      }
    }
  }
}

}  // namespace dlrm
