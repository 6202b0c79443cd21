#include "embedding/routing/routed_batch.h"

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
    batch.owner.part_sizes = {8};
    batch.owner.pieces = {{ids, offsets, 4, 8}};
    batch.owner.samples = {lengths};
    batch.owner.orders = {{{}, {}, lengths, lengths, {0, 1, 2}}};
    batch.requester.kept = {{ids, offsets, 4, 8}};
    batch.owner.first_piece = {0, 1};
    batch.owner.sources = {0};
    batch.requester.returned = {{2, 3}};
    batch.requester.returned_samples = lengths;
    batch.requester.returned_scales = scales;
    batch.requester.alone = {0};
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
      [](FilledBatch& f) { ++f.batch.owner.first_piece[1]; },
      [](FilledBatch& f) { ++f.batch.owner.sources[0]; },
      [](FilledBatch& f) { f.batch.owner.parts[0].ids = f.ids + 1; },
      [](FilledBatch& f) { f.batch.owner.parts[0].lengths = f.lengths + 1; },
      [](FilledBatch& f) { ++f.batch.owner.parts[0].bags; },
      [](FilledBatch& f) { ++f.batch.owner.parts[0].length; },
      [](FilledBatch& f) { ++f.batch.owner.part_sizes[0]; },
      [](FilledBatch& f) { f.batch.owner.pieces[0].ids = f.ids + 1; },
      [](FilledBatch& f) { f.batch.owner.pieces[0].offsets = f.offsets + 1; },
      [](FilledBatch& f) { ++f.batch.owner.pieces[0].bags; },
      [](FilledBatch& f) { ++f.batch.owner.pieces[0].capacity; },
      [](FilledBatch& f) { f.batch.owner.samples[0] = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.requester.kept[0].ids = f.ids + 1; },
      [](FilledBatch& f) { ++f.batch.requester.kept[0].capacity; },
      [](FilledBatch& f) { ++f.batch.requester.returned[0].count; },
      [](FilledBatch& f) { ++f.batch.requester.returned[0].first; },
      [](FilledBatch& f) { f.batch.requester.returned_samples = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.requester.returned_scales = f.scales + 1; },
      [](FilledBatch& f) { f.batch.requester.alone[0] = 1; },
      [](FilledBatch& f) { f.batch.owner.orders[0].device_by_row = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.owner.orders[0].device_by_slot = f.lengths + 1; },
      [](FilledBatch& f) { f.batch.owner.orders[0].first_ids[1] = 2; },
      [](FilledBatch& f) { f.batch.requester.scales[0] = f.scales + 1; }};
  std::set<std::vector<uint64_t>> keys{FilledBatch().key()};
  for (size_t i = 0; i < changes.size(); ++i) {
    FilledBatch changed;
    changes[i](changed);
    EXPECT_TRUE(keys.insert(changed.key()).second) << "change " << i;
  }
}

TEST(RoutedBatch, WhatTheDeviceUnpacksIsPartOfItsKey) {
  using Lists = std::function<void(IdStaging&)>;
  const auto key_of = [](FilledBatch& filled, bool owner, const Lists& add) {
    IdStaging& staging = owner ? filled.batch.owner.staging() : filled.batch.requester.staging();
    staging.begin(1024, 100);
    add(staging);
    return filled.key();
  };
  FilledBatch filled;  // the same memory in every case
  for (const bool owner : {false, true}) {
    std::set<std::vector<uint64_t>> keys;
    const std::vector<Lists> all = {
        [](IdStaging&) {},
        [](IdStaging& s) { s.unpacked(s.take<int32_t>(7), 7); },
        [](IdStaging& s) { s.unpacked(s.take<int32_t>(7), 6); },
        [](IdStaging& s) { s.unpacked(s.take<int32_t>(7) + 1, 6); },
        [](IdStaging& s) { s.take_integers(1), s.unpacked(s.take<int32_t>(7), 7); },
        [](IdStaging& s) { s.multiples(3, 7); },
        [](IdStaging& s) { s.multiples(4, 7); },
        [](IdStaging& s) { s.multiples(3, 8); },
        [](IdStaging& s) { s.multiples(3, 7), s.multiples(3, 7); }};
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(keys.insert(key_of(filled, owner, all[i])).second) << i << " " << owner;
    }
    key_of(filled, owner, all[0]);
  }
}

}  // namespace
}  // namespace dlrm
