#include <algorithm>
#include <mutex>

#include "id_blocks.h"
#include "router.h"

namespace dlrm {
namespace {

class DeviceRouter final : public Router {
 public:
  DeviceRouter(Context& context, const EmbeddingLayout& layout, int capacity, int threads)
      : Router(context, layout, capacity, threads, nullptr, &context.device_comm()),
        device_(context.device),
        blocks_(layout, id_bytes_),
        kept_(layout.owner(rank()).groups.size()),
        word_bytes_(static_cast<size_t>(world()), blocks_.words() * kWord) {
    offsets_of(word_bytes_, word_offsets_);
  }

  void keep_sizes() override {
    Router::keep_sizes();
    kept_.start();
  }

  void pack(const LocalBags& bags, std::shared_ptr<PackedIds>& packed) const override {
    if (!packed) packed = std::make_shared<PackedIds>(device_);
    packed->ready = false;
    scan_offsets(layout_, bags, 1, packed->scans);
    expect_capacities(packed->scans);
    packed->words.resize(static_cast<size_t>(blocks_.words()));
    blocks_.describe(packed->scans, packed->words);
    std::vector<IdBlocks::Place> places;
    const int64_t bytes = blocks_.place(packed->words, bags.local.size(), places);
    if (static_cast<size_t>(bytes) > packed->memory.size()) return;
    std::vector<IdDestination> destinations(layout_.features.size());
    char* const block = packed->memory.data();
    send_to(block, places, destinations);
    keep(*packed, destinations);
    check_and_copy_ids(layout_, bags, packed->scans, 1, destinations);
    blocks_.write_lengths(bags, packed->scans, places, 1, block);
    blocks_.count(bags, packed->scans, 1, packed->words);
    packed->ids = bags.ids.data();
    packed->global_size = bags.global_size;
    packed->ready = true;
  }

 private:
  static constexpr int64_t kWord = sizeof(int64_t);

  void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
               std::vector<IdDestination>& destinations) override {
    transfer.batch.requester.begin(layout_, bags, scans, RequesterSide::Keep::kReplicated,
                                   /*most_returned=*/0, threads_for(bags.ids.size()), destinations);
    transfer.send_sizes.resize(static_cast<size_t>(blocks_.words()));
    blocks_.describe(scans, transfer.send_sizes);
    remember_capacities(scans);
    OwnerSide& owner = transfer.batch.owner;
    const auto bytes =
        static_cast<size_t>(blocks_.place(transfer.send_sizes, bags.local.size(), places_));
    block_ = nullptr;
    if (packed() && packed()->holds(bags) && blocks_.alike(packed()->words, transfer.send_sizes)) {
      owner.adopt_block(packed()->memory, bytes);
      transfer.send_sizes = packed()->words;
      for (const size_t f : blocks_.sent()) destinations[f].done = true;
      copy_kept(*packed(), destinations);
    } else {
      block_ = owner.reserve_block(bytes);
      send_to(block_, places_, destinations);
    }
    if (!packed()) return;
    packed()->ready = false;
    packed()->memory.reserve(bytes);
  }

  /// Ids were copied into the block when they were checked.
  void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
              Transfer& transfer) override {
    if (block_) {
      const int threads = threads_for(bags.ids.size());
      blocks_.write_lengths(bags, scans, places_, threads, block_);
      blocks_.count(bags, scans, threads, transfer.send_sizes);
    }
    transfer.batch.owner.staging().send(copies());
  }

  void send_to(char* block, const std::vector<IdBlocks::Place>& places,
               std::vector<IdDestination>& destinations) const {
    for (size_t i = 0; i < places.size(); ++i) {
      destinations[blocks_.sent()[i]] = {block + places[i].ids, id_bytes_};
    }
  }

  /// Makes packed.kept, in int32, the destination of the ids of replicated tables.
  void keep(PackedIds& packed, std::vector<IdDestination>& destinations) const {
    packed.kept.resize(kept_ids(packed.scans));
    int32_t* next = packed.kept.data();
    for (size_t f = 0; f < layout_.features.size(); ++f) {
      if (!layout_.features[f].replicated) continue;
      destinations[f] = {next, sizeof(int32_t)};
      next += packed.scans[f].count;
    }
  }
  /// Copies packed.kept to the batch. If that has int64, ids are copied from the bags instead.
  void copy_kept(const PackedIds& packed, std::vector<IdDestination>& destinations) const {
    const int32_t* next = packed.kept.data();
    for (size_t f = 0; f < layout_.features.size(); ++f) {
      if (!layout_.features[f].replicated) continue;
      const auto count = static_cast<size_t>(packed.scans[f].count);
      if (destinations[f].id_bytes == sizeof(int32_t)) {
        std::copy_n(next, count, static_cast<int32_t*>(destinations[f].ids));
        destinations[f].done = true;
      }
      next += count;
    }
  }
  size_t kept_ids(const std::vector<BagScan>& scans) const {
    size_t ids = 0;
    for (size_t f = 0; f < layout_.features.size(); ++f) {
      if (layout_.features[f].replicated) ids += static_cast<size_t>(scans[f].count);
    }
    return ids;
  }

  /// Capacities depend on the batches before, in their order. A thread that packs expects those of
  /// the last batch.
  void remember_capacities(const std::vector<BagScan>& scans) {
    if (!kept_.started()) return;  // they are the counts
    const std::lock_guard lock(mutex_);
    last_capacities_.clear();
    for (const BagScan& scan : scans) last_capacities_.push_back(scan.capacity);
  }
  void expect_capacities(std::vector<BagScan>& scans) const {
    const std::lock_guard lock(mutex_);
    for (size_t f = 0; f < last_capacities_.size(); ++f) {
      if (scans[f].length < 0) scans[f].capacity = std::max(scans[f].count, last_capacities_[f]);
    }
  }

  Pending start_sizes(Transfer& transfer) override {
    bytes_sent_ += (world() - 1) * word_bytes_[0];
    transfer.receive_sizes.resize(static_cast<size_t>(blocks_.words() * world()));
    return sizes_comm_->start_allgatherv(transfer.send_sizes.data(), transfer.receive_sizes.data(),
                                         word_bytes_, word_offsets_);
  }

  /// Each rank's block goes to all others. The copy of its own block to the device came before.
  Pending start_messages(Transfer& transfer) override {
    const auto ranks = static_cast<size_t>(world()), own = static_cast<size_t>(rank());
    std::vector<int64_t> bytes;
    for (int p = 0; p < world(); ++p) {
      bytes.push_back(blocks_.place(words_of(transfer, p), samples_of(transfer, p), places_));
    }
    ExchangeLayout& layout = transfer.layout;
    layout.send_bytes.assign(ranks, bytes[own]);
    layout.send_offsets.assign(ranks, 0);
    layout.send_bytes[own] = 0;
    bytes_sent_ += (world() - 1) * bytes[own];
    bytes[own] = 0;
    layout.receive_bytes = bytes;
    const int64_t total = offsets_of(bytes, layout.receive_offsets);
    OwnerSide& owner = transfer.batch.owner;
    char* const others = owner.reserve_blocks(static_cast<size_t>(total));
    return messages_comm_->start_alltoallv(owner.own_block(), others, layout, &copies());
  }

  void assemble(Transfer& transfer) override {
    const auto& groups = layout_.owner(rank()).groups;
    list_parts(transfer);
    kept_.begin(transfer.batch.global_size);
    capacities_.resize(groups.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      const Range rows = slice_of(groups[g]).rows;
      int64_t ids = 0;
      bool varies = !slice_of(groups[g]).all_rows;
      for (int p = 0; p < world(); ++p) {
        const View<const int64_t> words = words_of(transfer, p);
        ids += blocks_.ids_in(words, static_cast<size_t>(groups[g].feature), rows);
        varies |= blocks_.varies(words, static_cast<size_t>(groups[g].feature));
      }
      capacities_[g] = varies ? kept_.of(g, ids) : ids;
    }
    OwnerSide& owner = transfer.batch.owner;
    owner.reserve_filtered(capacities_, transfer.batch.global_size);
    const auto ranks = static_cast<size_t>(world());
    for (size_t g = 0; g < groups.size(); ++g) {
      IdFilter& filter = owner.filters[g];
      const size_t place = blocks_.place_of(static_cast<size_t>(groups[g].feature));
      filter.parts = View<const IdPart>(owner.parts).subspan(place * ranks, ranks);
      filter.first_row = slice_of(groups[g]).rows.begin;
      filter.rows = slice_of(groups[g]).rows.size();
    }
  }

  void list_parts(Transfer& transfer) {
    OwnerSide& owner = transfer.batch.owner;
    const size_t ranks = static_cast<size_t>(world()), sent = blocks_.sent().size();
    owner.parts.assign(sent * ranks, {});
    owner.part_sizes.assign(sent * ranks, 0);
    for (int p = 0; p < world(); ++p) {
      const auto source = static_cast<size_t>(p);
      const int64_t samples = samples_of(transfer, p);
      const View<const int64_t> words = words_of(transfer, p);
      blocks_.place(words, samples, places_);
      const char* const block =
          p == rank() ? owner.own_block()
                      : owner.other_blocks() + transfer.layout.receive_offsets[source];
      for (size_t i = 0; i < sent; ++i) {
        IdPart& part = owner.parts[i * ranks + source];
        const auto [length, count, capacity] = blocks_.sizes(words, i);
        part.ids = block + places_[i].ids;
        part.bags = samples;
        part.narrow = id_bytes_ == 4;
        part.length = static_cast<int32_t>(length);
        if (length < 0) part.lengths = reinterpret_cast<const int32_t*>(block + places_[i].lengths);
        owner.part_sizes[i * ranks + source] = capacity;
      }
    }
  }

  View<const int64_t> words_of(const Transfer& transfer, int source) const {
    const auto words = static_cast<size_t>(blocks_.words());
    return View<const int64_t>(transfer.receive_sizes)
        .subspan(static_cast<size_t>(source) * words, words);
  }
  const Slice& slice_of(const RoutedGroup& group) const {
    return layout_.owner(rank()).slices[static_cast<size_t>(group.slice)];
  }

  Device& device_;
  const IdBlocks blocks_;
  mutable std::mutex mutex_;
  std::vector<int64_t> last_capacities_;  ///< by feature, of the last batch that was routed
  ListCapacities kept_;                   ///< by group of this rank
  std::vector<int64_t> word_bytes_, word_offsets_;
  char* block_ = nullptr;  ///< of the batch that is being routed, unless it was packed
  std::vector<IdBlocks::Place> places_;
  std::vector<int64_t> capacities_;
};

}  // namespace

std::unique_ptr<Router> make_device_router(Context& context, const EmbeddingLayout& layout,
                                           int capacity, int threads, RowPlacement*) {
  return std::make_unique<DeviceRouter>(context, layout, capacity, threads);
}

}  // namespace dlrm
