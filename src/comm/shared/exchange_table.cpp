#include "exchange_table.h"

#include <algorithm>
#include <new>

#include "dlrm/core/error.h"

namespace dlrm::comm {
namespace {

constexpr uint64_t kDescriptors = 32;  // in a chunk; a full one is followed by another
constexpr size_t kMaxChunks = 256;     // some 20 MiB

}  // namespace

/// Head of a chunk of descriptors, which follow it. They are indexed by sequence number.
struct alignas(64) ExchangeTable::Chunk {
  std::atomic<uint64_t> next{0};  ///< bits of an ArenaAddress
};

ExchangeTable::ExchangeTable(std::shared_ptr<SharedMemoryGroup> group, int ranks)
    : group_(std::move(group)), ranks_(ranks) {
  own_.push_back(make_chunk());
  add_chunk();  // so that most runs allocate no more later
  group_->add(*this);
}

ExchangeTable::~ExchangeTable() {
  group_->remove(*this);
  // Slower ranks may still read inline payloads. Then the memory is never reused.
  for (Chunk* chunk : own_) {
    bool read = true;
    for (uint64_t i = 0; i < kDescriptors; ++i) read &= descriptor(chunk, i).all_have_read();
    if (!read) return;
  }
  for (Chunk* chunk : own_) group_->arena().deallocate(chunk);
}

size_t ExchangeTable::descriptor_bytes() const {
  const size_t blocks = static_cast<size_t>(group_->size()) * sizeof(BlockRef);
  return sizeof(ExchangeDescriptor) + (blocks + 63) / 64 * 64 + static_cast<size_t>(kInlineBytes);
}

ExchangeTable::Chunk* ExchangeTable::make_chunk() {
  const size_t bytes = sizeof(Chunk) + kDescriptors * descriptor_bytes();
  void* memory = group_->arena().allocate(bytes);
  if (!memory) throw run_error("out of shared memory: {} bytes for exchanges", bytes);
  auto* chunk = new (memory) Chunk;
  for (uint64_t i = 0; i < kDescriptors; ++i) new (&descriptor(chunk, i)) ExchangeDescriptor;
  return chunk;
}

ExchangeDescriptor& ExchangeTable::descriptor(Chunk* chunk, uint64_t sequence) const {
  auto* first = reinterpret_cast<std::byte*>(chunk + 1);
  return *reinterpret_cast<ExchangeDescriptor*>(first +
                                                sequence % kDescriptors * descriptor_bytes());
}

ArenaAddress ExchangeTable::address() const {
  return group_->arena().address_of(own_.front(), sizeof(Chunk));
}

void ExchangeTable::connect(const std::vector<ArenaAddress>& addresses) {
  first_.resize(static_cast<size_t>(group_->size()));
  for (size_t q = 0; q < addresses.size(); ++q) {
    const int local = group_->local_rank_of(static_cast<int>(q));
    if (local >= 0) first_[static_cast<size_t>(local)] = group_->at(local, addresses[q]);
  }
}

ExchangeDescriptor& ExchangeTable::acquire(uint64_t sequence) {
  for (Chunk* chunk : own_) {
    ExchangeDescriptor& found = descriptor(chunk, sequence);
    if (found.in_use || !found.all_have_read()) continue;
    found.in_use = true;
    return found;
  }
  if (own_.size() >= kMaxChunks) {
    throw run_error(
        "{} blocks wait for a rank of this machine to read them: it expects none, or is as many "
        "calls behind",
        kMaxChunks * kDescriptors);
  }
  ExchangeDescriptor& found = descriptor(add_chunk(), sequence);
  found.in_use = true;
  return found;
}

ExchangeTable::Chunk* ExchangeTable::add_chunk() {
  Chunk* chunk = make_chunk();
  const ArenaAddress address = group_->arena().address_of(chunk, sizeof(Chunk));
  own_.back()->next.store(address.bits(), std::memory_order_release);
  own_.push_back(chunk);
  return chunk;
}

void ExchangeTable::check_skipped() const {
  for (size_t i = 0; i < std::min(skips_, kSkips); ++i) {
    const Skip& skip = skipped_[i];
    ExchangeDescriptor* descriptor = find(skip.rank, skip.sequence);
    if (!descriptor || block_for_me(*descriptor).bytes == 0) continue;
    throw run_error("{} of rank {} sends {} bytes to one that expects none", skip.name, skip.rank,
                    block_for_me(*descriptor).bytes);
  }
}

std::byte* ExchangeTable::inline_payload(ExchangeDescriptor& descriptor) const {
  return reinterpret_cast<std::byte*>(&descriptor) + descriptor_bytes() - kInlineBytes;
}

ArenaAddress ExchangeTable::inline_address(ExchangeDescriptor& descriptor) const {
  return group_->arena().address_of(inline_payload(descriptor), static_cast<size_t>(kInlineBytes));
}

ExchangeDescriptor* ExchangeTable::find(int rank, uint64_t sequence) const {
  const int local = group_->local_rank_of(rank);
  auto* chunk = reinterpret_cast<Chunk*>(first_[static_cast<size_t>(local)]);
  for (;;) {
    ExchangeDescriptor& found = descriptor(chunk, sequence);
    if (found.has_sequence(sequence)) return &found;
    const ArenaAddress next(chunk->next.load(std::memory_order_acquire));
    if (next.is_null()) return nullptr;
    chunk = reinterpret_cast<Chunk*>(group_->at(local, next));
  }
}

}  // namespace dlrm::comm
