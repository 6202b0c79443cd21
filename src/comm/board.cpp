#include "board.h"

#include <algorithm>
#include <new>

#include "dlrm/core/error.h"

namespace dlrm {

namespace {
constexpr uint64_t kNotices = 32;    // a chunk's; a further chunk is made where one is still in use
constexpr size_t kMostChunks = 256;  // some 20 MiB
}  // namespace

/// Notices by sequence, followed by their memory, and where further ones are.
struct alignas(64) Board::Chunk {
  std::atomic<uint64_t> next{0};  ///< bits of a Spot
};

Board::Board(std::shared_ptr<SharedNode> node, int ranks) : node_(std::move(node)), ranks_(ranks) {
  // The second now: what a run needs in its course is there before it begins.
  own_.push_back(make_chunk());
  add_chunk();
  node_->add(*this);
}

Board::~Board() {
  node_->remove(*this);
  // A slower rank may still read the last small blocks: such memory stays as it is.
  for (Chunk* chunk : own_) {
    bool read = true;
    for (uint64_t i = 0; i < kNotices; ++i) read &= notice(chunk, i).all_have_read();
    if (!read) return;
  }
  for (Chunk* chunk : own_) node_->arena().give_back(chunk);
}

size_t Board::notice_bytes() const {
  const size_t offers = static_cast<size_t>(node_->size()) * sizeof(Offer);
  return sizeof(Notice) + (offers + 63) / 64 * 64 + static_cast<size_t>(kBeside);
}

Board::Chunk* Board::make_chunk() {
  const size_t bytes = sizeof(Chunk) + kNotices * notice_bytes();
  void* memory = node_->arena().take(bytes);
  if (!memory) throw run_error("out of shared memory: {} bytes for exchanges", bytes);
  auto* chunk = new (memory) Chunk;
  for (uint64_t i = 0; i < kNotices; ++i) new (&notice(chunk, i)) Notice;
  return chunk;
}

Notice& Board::notice(Chunk* chunk, uint64_t sequence) const {
  auto* first = reinterpret_cast<std::byte*>(chunk + 1);
  return *reinterpret_cast<Notice*>(first + sequence % kNotices * notice_bytes());
}

Spot Board::place() const { return node_->arena().find(own_.front(), sizeof(Chunk)); }

void Board::connect(const std::vector<Spot>& places) {
  first_.resize(static_cast<size_t>(node_->size()));
  for (size_t q = 0; q < places.size(); ++q) {
    const int local = node_->local_rank_of(static_cast<int>(q));
    if (local >= 0) first_[static_cast<size_t>(local)] = node_->at(local, places[q]);
  }
}

Notice& Board::fresh(uint64_t sequence) {
  for (Chunk* chunk : own_) {
    Notice& found = notice(chunk, sequence);
    if (found.held || !found.all_have_read()) continue;
    found.held = true;
    return found;
  }
  if (own_.size() >= kMostChunks) {
    throw run_error(
        "{} blocks wait for a rank of this machine to read them: it expects none, or is as many "
        "calls behind",
        kMostChunks * kNotices);
  }
  Notice& found = notice(add_chunk(), sequence);
  found.held = true;
  return found;
}

Board::Chunk* Board::add_chunk() {
  Chunk* chunk = make_chunk();
  const Spot place = node_->arena().find(chunk, sizeof(Chunk));
  own_.back()->next.store(place.bits(), std::memory_order_release);
  own_.push_back(chunk);
  return chunk;
}

void Board::check_skipped() const {
  for (size_t i = 0; i < std::min(skips_, kSkips); ++i) {
    const Skip& skip = skipped_[i];
    Notice* notice = find(skip.rank, skip.sequence);
    if (!notice || offer_to_me(*notice).bytes == 0) continue;
    throw run_error("{} of rank {} sends {} bytes to one that expects none", skip.name, skip.rank,
                    offer_to_me(*notice).bytes);
  }
}

std::byte* Board::beside(Notice& notice) const {
  return reinterpret_cast<std::byte*>(&notice) + notice_bytes() - kBeside;
}

Spot Board::place_beside(Notice& notice) const {
  return node_->arena().find(beside(notice), static_cast<size_t>(kBeside));
}

Notice* Board::find(int rank, uint64_t sequence) const {
  const int local = node_->local_rank_of(rank);
  auto* chunk = reinterpret_cast<Chunk*>(first_[static_cast<size_t>(local)]);
  for (;;) {
    Notice& found = notice(chunk, sequence);
    if (found.is(sequence)) return &found;
    const Spot next(chunk->next.load(std::memory_order_acquire));
    if (next.nowhere()) return nullptr;
    chunk = reinterpret_cast<Chunk*>(node_->at(local, next));
  }
}

}  // namespace dlrm
