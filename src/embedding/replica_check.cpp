#include "replica_check.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr int64_t kChunkRows = 1 << 16;

uint64_t mixed(uint64_t hash, const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t row_hash(const RowTable& table, int64_t row) {
  const auto* weights = static_cast<const float*>(table.weights);
  const int64_t state_width = table.state_stride == 1 ? 1 : table.width;
  uint64_t hash = mixed(0x243f6a8885a308d3ull, weights + row * table.stride, table.width);
  for (const float* state : {table.state1, table.state2}) {
    if (state) hash = mixed(hash, state + row * table.state_stride, state_width);
  }
  return hash;
}

}  // namespace

void check_replica(Communicator& comm, const std::string& table, const RowTable& rows) {
  std::vector<uint64_t> hashes;
  for (int64_t first = 0; first < rows.rows; first += kChunkRows) {
    const int64_t count = std::min(kChunkRows, rows.rows - first);
    hashes.clear();
    for (int64_t r = first; r < first + count; ++r) hashes.push_back(row_hash(rows, r));
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
