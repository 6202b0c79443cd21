#include "routed_batch.h"

namespace dlrm {

void RoutedBatch::append_key(std::vector<uint64_t>& key) const {
  const auto address = [&](const void* of) { key.push_back(reinterpret_cast<uintptr_t>(of)); };
  const auto count = [&](int64_t n) { key.push_back(static_cast<uint64_t>(n)); };
  count(global_size);
  count(local.begin);
  count(local.end);
  count(static_cast<int64_t>(owner.pieces.size()));
  for (const IdStaging* staging : {&owner.staging(), &requester.staging()}) {
    for (const PackedList& packed : staging->packed()) {
      address(packed.from);
      address(packed.to);
      count(packed.count);
      count(packed.step);
    }
  }
  for (const IdPart& part : owner.parts) {
    address(part.ids);
    address(part.lengths);
    count(part.bags);
    count(part.length);
  }
  for (const int64_t ids : owner.part_sizes) count(ids);
  for (const std::vector<IdGroup>* groups : {&owner.pieces, &requester.kept}) {
    for (const IdGroup& group : *groups) {
      address(group.ids);
      address(group.offsets);
      address(group.weights);
      count(group.bags);
      count(group.capacity);
    }
  }
  for (const size_t first : owner.first_piece) count(static_cast<int64_t>(first));
  for (const int source : owner.sources) count(source);
  for (const int32_t* samples : owner.samples) address(samples);
  for (const OwnerSide::RowOrders& order : owner.orders) {
    address(order.device_by_row);
    address(order.device_by_slot);
    for (const int64_t first : order.first_ids) count(first);
  }
  for (const ReturnedBags& bags : requester.returned) {
    count(bags.first);
    count(bags.count);
  }
  address(requester.returned_samples);
  address(requester.returned_scales);
  for (const char alone : requester.alone) count(alone);
  for (const float* scale : requester.scales) address(scale);
}

}  // namespace dlrm
