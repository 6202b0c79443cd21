#include "embedding/routed_batch.h"

#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

/// A batch with one entry in every list of its key.
struct FilledBatch {
  FilledBatch() {
    batch.global_size = 20;
    batch.local = {5, 9};
    batch.owner.parts = {{ids, lengths, 4, 2}};
    batch.owner.pieces = {{ids, offsets, 4, 8}};
    batch.owner.samples = {lengths};
    batch.requester.kept = {{ids, offsets, 4, 8}};
    batch.requester.returned = {{3, lengths, scales, false}};
    batch.requester.scales = {scales};
  }

  std::vector<uint64_t> key() const {
    std::vector<uint64_t> key;
    batch.append_key(key);
    return key;
  }

  inline static int64_t ids[2], offsets[2];
  inline static int32_t lengths[2];
  inline static float scales[2];
  std::shared_ptr<Device> device = make_cpu_device();
  RoutedBatch batch{*device};
};

TEST(RoutedBatch, EverySizeAndAddressIsPartOfItsKey) {
  const std::vector<std::function<void(FilledBatch&)>> changes = {
      [](FilledBatch& f) { ++f.batch.global_size; },
      [](FilledBatch& f) { --f.batch.local.begin; },
      [](FilledBatch& f) { ++f.batch.local.end; },
      [](FilledBatch& f) { ++f.batch.owner.pieces_per_group; },
      [](FilledBatch& f) { f.batch.owner.parts[0].ids = f.ids + 1; },
      [](FilledBatch& f) { f.batch.owner.parts[0].lengths = f.lengths + 1; },
      [](FilledBatch& f) { ++f.batch.owner.parts[0].bags; },
      [](FilledBatch& f) { ++f.batch.owner.parts[0].length; },
      [](FilledBatch& f) { f.batch.owner.pieces[0].ids = f.ids + 1; },
      [](FilledBatch& f) { f.batch.owner.pieces[0].offsets = f.offsets + 1; },
      [](FilledBatch& f) { ++f.batch.owner.pieces[0].bags; },
      [](FilledBatch& f) { ++f.batch.owner.pieces[0].capacity; },
      [](FilledBatch& f) { f.batch.owner.samples[0] = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.requester.kept[0].ids = f.ids + 1; },
      [](FilledBatch& f) { ++f.batch.requester.kept[0].capacity; },
      [](FilledBatch& f) { ++f.batch.requester.returned[0].count; },
      [](FilledBatch& f) { f.batch.requester.returned[0].samples = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.requester.returned[0].scale = f.scales + 1; },
      [](FilledBatch& f) { f.batch.requester.returned[0].alone = true; },
      [](FilledBatch& f) { f.batch.requester.scales[0] = f.scales + 1; }};
  std::set<std::vector<uint64_t>> keys{FilledBatch().key()};
  for (size_t i = 0; i < changes.size(); ++i) {
    FilledBatch changed;
    changes[i](changed);
    EXPECT_TRUE(keys.insert(changed.key()).second) << "change " << i;
  }
}

}  // namespace
}  // namespace dlrm
