#include "block_verifier.h"

#include <bit>

namespace dlrm {
namespace {

constexpr uint8_t kUnread = 0, kInWork = 1, kGood = 2;

}  // namespace

BlockVerifier::BlockVerifier(const Dataset& dataset, std::vector<std::vector<size_t>> features) {
  for (size_t f = 0; f < dataset.files().size(); ++f) {
    const DatasetFile& file = *dataset.files()[f];
    Blocks blocks{&file, std::move(features[f]), 0, nullptr};
    if (file.checksum_samples() > 0) {
      blocks.shift = std::countr_zero(static_cast<uint64_t>(file.checksum_samples()));
      blocks.states = std::make_unique<State[]>(static_cast<size_t>(file.blocks()));
    }
    files_.push_back(std::move(blocks));
  }
}

void BlockVerifier::verify(View<const SamplePlace> places) const {
  std::vector<const SamplePlace*> others;  // in work by another thread
  for (const SamplePlace& place : places) {
    const Blocks& blocks = files_[static_cast<size_t>(place.file)];
    if (!blocks.states) continue;
    const int64_t block = place.sample >> blocks.shift;
    const uint8_t state = blocks.states[static_cast<size_t>(block)].load(std::memory_order_acquire);
    if (state != kGood && !try_verify(blocks, block)) others.push_back(&place);
  }
  for (const SamplePlace* place : others) {
    const Blocks& blocks = files_[static_cast<size_t>(place->file)];
    const int64_t block = place->sample >> blocks.shift;
    // If the other thread finds a defect, this one finds it again.
    while (!try_verify(blocks, block)) {
      blocks.states[static_cast<size_t>(block)].wait(kInWork, std::memory_order_acquire);
    }
  }
}

bool BlockVerifier::try_verify(const Blocks& blocks, int64_t block) {
  State& state = blocks.states[static_cast<size_t>(block)];
  uint8_t before = kUnread;
  if (!state.compare_exchange_strong(before, kInWork, std::memory_order_acq_rel)) {
    return before == kGood;
  }
  const auto leave = [&](uint8_t result) {
    state.store(result, std::memory_order_release);
    state.notify_all();
  };
  try {
    blocks.file->verify(block, blocks.features);
  } catch (...) {
    leave(kUnread);
    throw;
  }
  leave(kGood);
  return true;
}

}  // namespace dlrm
