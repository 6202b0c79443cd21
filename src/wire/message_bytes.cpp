#include "dlrm/wire/message_bytes.h"

#include "dlrm/core/partition.h"

namespace dlrm {
namespace {

int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

int64_t wire_id_bytes(int64_t largest_rows) { return largest_rows > int64_t{1} << 31 ? 8 : 4; }

int64_t id_message_bytes(int64_t head_bytes, int64_t length_lists, int64_t samples, int64_t ids,
                         int64_t id_bytes, int64_t weight_bytes) {
  if (samples == 0) return 0;
  return padded(head_bytes) + padded(4 * length_lists * samples) + padded(id_bytes * ids) +
         padded(weight_bytes);
}

int64_t pairs_message_bytes(int64_t tables, int64_t rows, int64_t floats) {
  return 8 * tables + padded(8 * rows + 4 * floats);
}

int64_t allreduce_sent_bytes(int64_t floats, int rank, int world) {
  const int64_t to_all = 4 * floats * (world - 1);
  if (to_all <= kOneExchangeBytes) return to_all;
  const int64_t own = part_of(floats, rank, world).size();
  return 4 * (floats - own) + 4 * own * (world - 1);
}

}  // namespace dlrm
