#include <algorithm>
#include <bit>
#include <tuple>

#include "dlrm/plan/traffic.h"

#include "bag_pooling.h"
#include "node_exchange.h"
#include "pooled_layout.h"

namespace dlrm {
namespace {

/// A block of any owner, with the data that its requester needs.
struct RequestedBlock {
  int owner = 0;
  size_t number = 0;  ///< over the blocks of all owners
  PooledBlock block;
};

/// True if vectors are converted between the type of `pooled` and the wire's.
bool is_converted(DType wire) { return pooled_as(wire) != wire; }

/// Buffers are converted in rows of this many elements.
constexpr int64_t kConvertWidth = 1024;

class AllToAllPooling final : public BagPooling {
 public:
  AllToAllPooling(Context& context, Ops& ops, const EmbeddingLayout& layout, WireConfig wire)
      : context_(context),
        ops_(ops),
        layout_(layout),
        wire_(wire),
        comm_(context.device_comm().duplicate()),
        places_(layout, comm_->rank()),
        buffers_(context.device, comm_->shared_memory(context.device)) {
    int64_t widest = 0;
    for (size_t q = 0; q < layout.owners.size(); ++q) {
      for (const PooledBlock& block : layout.owners[q].returned) {
        requested_.push_back({static_cast<int>(q), requested_.size(), block});
        widest = std::max(widest, block.width);
      }
    }
    buffers_.zeros = Array<float>(context.device, static_cast<size_t>(widest), "zeros");
    // The shard of row 0 is first. Its vectors are copied, and those of later rows are added.
    const auto order = [](const RequestedBlock& r) {
      return std::tuple(r.block.feature, r.block.first_row, r.block.e_column);
    };
    std::sort(requested_.begin(), requested_.end(),
              [&](const auto& a, const auto& b) { return order(a) < order(b); });
    list_visits();
    list_summed();
    copies_.reserve(2 * requested_.size());
    if (layout.sums_in_nodes()) node_ = std::make_unique<NodeExchange>(context, layout);
  }

  void begin(const RoutedBatch& batch) override {
    places_.set(batch);
    if (node_) node_->begin(batch.global_size);
    find_visited(batch);
    const int64_t owned = padded(places_.owned_size()), room = padded(places_.owned_room());
    const auto larger = [&](auto bytes_of) {
      return std::max(bytes_of(wire_.forward), bytes_of(wire_.backward));
    };
    reserve(buffers_.pooled, owned, room,
            larger([](DType wire) { return size_of(pooled_as(wire)); }));
    reserve(buffers_.owner_wire, owned, room,
            larger([](DType wire) { return is_converted(wire) ? size_of(wire) : 0; }));
    reserve(buffers_.requester_wire, places_.requested_size(), places_.requested_room(),
            larger([](DType wire) { return size_of(wire); }));
  }

  Piece pooled(const RoutedBatch& batch, size_t block, size_t piece, const Matrix&) override {
    return {piece_of(batch, block, piece, pooled_as(wire_.forward)), nullptr};
  }

  void start_return(const RoutedBatch& batch, Ops& ops, Stream& stream) override {
    if (!node_) return return_vectors(ops, stream);
    node_->start_sums(ops, stream);
    summing_ = &batch;
    if (context_.device.asynchronous()) return_sums(ops, stream);
  }

  void finish_return(const RoutedBatch& batch, const Matrix& e) override {
    if (summing_) return_sums(ops_, context_.stream);
    pending_.wait(context_.stream);
    copies_.clear();
    rounded_.clear();
    const bool rounds = e.type != DType::kFloat32;
    if (rounds) buffers_.sums.reserve(static_cast<size_t>(e.rows * summed_width_));
    for_visited([&](const RequestedBlock& requested) {
      const PooledBlock& block = requested.block;
      BlockCopy copy = copy_of(batch, requested);
      copy.src = wire_place(requested, wire_.forward);
      copy.src_type = wire_.forward;
      copy.src_stride = wire_stride(requested);
      copy.dst = e.element(0, block.e_column);
      copy.dst_type = e.type;
      copy.dst_stride = e.stride;
      copy.accumulate = block.first_row > 0;
      if (rounds && is_summed(batch, block)) sum_apart(block, e, copy);
      if (block.skips_empty_bags) {
        const bool alone = in_one_block(batch, block);
        copy.dst_rows = samples_of(batch, requested);
        copy.accumulate = !alone;
        if (block.first_row == 0 && !alone) copies_.push_back(zero(copy, e.rows));
      }
      if (copy.rows > 0) copies_.push_back(copy);
    });
    ops_.copy_blocks(copies_);
    if (!rounded_.empty()) ops_.copy_blocks(rounded_);
  }

  void start_backward(const RoutedBatch& batch, const Matrix& de) override {
    copies_.clear();
    for_visited([&](const RequestedBlock& requested) {
      BlockCopy copy = copy_of(batch, requested);
      copy.src = de.element(0, requested.block.e_column);
      copy.src_type = de.type;
      copy.src_stride = de.stride;
      copy.dst = wire_place(requested, wire_.backward);
      copy.dst_type = wire_.backward;
      copy.dst_stride = wire_stride(requested);
      if (requested.block.skips_empty_bags) copy.src_rows = samples_of(batch, requested);
      if (copy.rows > 0) copies_.push_back(copy);
    });
    ops_.copy_blocks(copies_);

    const ExchangeLayout& exchange = places_.backward(size_of(wire_.backward));
    gradient_bytes_ += exchange.send_total();
    void* receive = is_converted(wire_.backward) ? static_cast<void*>(buffers_.owner_wire.data())
                                                 : static_cast<void*>(buffers_.pooled.data());
    pending_ =
        comm_->start_alltoallv(buffers_.requester_wire.data(), receive, exchange, &context_.stream);
    receiving_ = &batch;
  }

  void finish_backward(const RoutedBatch&) override {
    if (receiving_) receive_gradients();
    if (node_) node_->finish_gradients(ops_, context_.stream);
  }

  Piece gradient(const RoutedBatch& batch, size_t block, size_t piece, const Matrix&) override {
    return {piece_of(batch, block, piece, pooled_as(wire_.backward)), nullptr};
  }

  void poll() override {
    const bool done = pending_.poll(), node_done = !node_ || node_->poll();
    if (!node_ || context_.device.asynchronous()) return;
    if (summing_ && node_done) return_sums(ops_, context_.stream);
    if (receiving_ && done) receive_gradients();
  }
  int64_t pooled_bytes() const override {
    return pooled_bytes_ + (node_ ? node_->pooled_bytes() : 0);
  }
  int64_t gradient_bytes() const override {
    return gradient_bytes_ + (node_ ? node_->gradient_bytes() : 0);
  }

 private:
  struct Buffers {
    Buffers(Device& device, Device& shared)
        : pooled(shared, 0, "pooled vectors"),
          owner_wire(shared, 0, "pooled vectors on their way"),
          requester_wire(shared, 0, "pooled vectors on their way"),
          zeros(device, 0, "zeros"),
          sums(device, 0, "sums of row shards") {}
    Array<char> pooled;          ///< vectors of my shards, later their gradients: pooled_as()
    Array<char> owner_wire;      ///< `pooled` in the wire's type, if that is another one
    Array<char> requester_wire;  ///< vectors of my samples, later their gradients
    Array<float> zeros;          ///< [columns of the widest block]
    Array<float> sums;           ///< [b, summed_width_] if E is not fp32
  };

  /// Reserves `room` elements if there are less than `needed`.
  static void reserve(Array<char>& buffer, int64_t needed, int64_t room, size_t element_bytes) {
    if (static_cast<size_t>(needed) * element_bytes <= buffer.size()) return;
    buffer.reserve(static_cast<size_t>(room) * element_bytes);
  }

  /// Sends the owned vectors once `stream` has computed them.
  void return_vectors(Ops& ops, Stream& stream) {
    const ExchangeLayout& exchange = places_.forward(size_of(wire_.forward));
    void* send = buffers_.pooled.data();
    if (is_converted(wire_.forward)) {
      send = buffers_.owner_wire.data();
      ops.convert(owned(buffers_.pooled.data(), pooled_as(wire_.forward)),
                  owned(buffers_.owner_wire.data(), wire_.forward));
    }
    pooled_bytes_ += exchange.send_total();
    pending_ = comm_->start_alltoallv(send, buffers_.requester_wire.data(), exchange, &stream);
  }

  /// Adds partial vectors, and sends them with all others.
  void return_sums(Ops& ops, Stream& stream) {
    node_->finish_sums(ops, stream);
    copy_sums(*summing_, ops, pooled_as(wire_.forward), true);
    return_vectors(ops, stream);
    summing_ = nullptr;
  }

  /// Waits for gradients, and hands out those of sums.
  void receive_gradients() {
    pending_.wait(context_.stream);
    if (is_converted(wire_.backward)) {
      ops_.convert(owned(buffers_.owner_wire.data(), wire_.backward),
                   owned(buffers_.pooled.data(), pooled_as(wire_.backward)));
    }
    if (node_) {
      copy_sums(*receiving_, ops_, pooled_as(wire_.backward), false);
      node_->start_gradients(ops_, context_.stream);
    }
    receiving_ = nullptr;
  }

  /// Copies the node's sums to the owned vectors of `type`, or back.
  void copy_sums(const RoutedBatch& batch, Ops& ops, DType type, bool to_owned) {
    copies_.clear();
    const auto world = static_cast<int>(layout_.owners.size());
    for (size_t s = 0; s < mine().sums.size(); ++s) {
      const int returned = mine().sums[s].returned;
      if (returned < 0) continue;
      const MatrixView<float> sums = node_->summed(static_cast<int>(s));
      for (int p = 0; p < (mine().by_source ? world : 1); ++p) {
        const Range samples = mine().by_source ? samples_of_rank(batch, p) : Range{0, sums.rows};
        if (samples.size() == 0) continue;
        const int64_t at = places_.owned_at(static_cast<size_t>(returned), p);
        BlockCopy copy;
        copy.src = sums.row(samples.begin);
        copy.src_stride = sums.stride;
        copy.dst = buffers_.pooled.data() + at * static_cast<int64_t>(size_of(type));
        copy.dst_type = type;
        copy.dst_stride = mine().width;
        if (!to_owned) {
          copy.dst = sums.row(samples.begin);
          copy.src = buffers_.pooled.data() + at * static_cast<int64_t>(size_of(type));
          std::swap(copy.src_type, copy.dst_type);
          std::swap(copy.src_stride, copy.dst_stride);
        }
        copy.rows = samples.size();
        copy.cols = sums.cols;
        copies_.push_back(copy);
      }
    }
    if (!copies_.empty()) ops.copy_blocks(copies_);
  }
  Range samples_of_rank(const RoutedBatch& batch, int rank) const {
    return part_of(batch.global_size, rank, static_cast<int64_t>(layout_.owners.size()));
  }

  /// The vectors of a piece in `pooled`.
  Matrix piece_of(const RoutedBatch& batch, size_t block, size_t piece, DType type) const {
    const PooledBlock& place = mine().blocks[block];
    const int source = batch.owner.sources[piece];
    if (place.sum >= 0) {
      const int64_t first =
          source == OwnerSide::kEveryRank ? 0 : samples_of_rank(batch, source).begin;
      return node_->partial(place.sum, first, batch.owner.pieces[piece].bags);
    }
    const int64_t at = places_.owned_at(static_cast<size_t>(place.returned), source);
    return {buffers_.pooled.data() + at * static_cast<int64_t>(size_of(type)), type,
            batch.owner.pieces[piece].bags, place.width,
            place.skips_empty_bags ? place.width : mine().width};
  }
  const OwnerLayout& mine() const { return layout_.owner(comm_->rank()); }
  int64_t width_of(int owner) const { return layout_.owner(owner).width; }

  static int64_t padded(int64_t elements) {
    return (elements + kConvertWidth - 1) / kConvertWidth * kConvertWidth;
  }
  Matrix owned(void* data, DType type) const {
    return {data, type, padded(places_.owned_size()) / kConvertWidth, kConvertWidth};
  }

  /// Lists the requested blocks of each group, and the blocks that are visited in every batch.
  void list_visits() {
    std::vector<std::vector<uint32_t>> of_group(static_cast<size_t>(layout_.groups));
    always_visited_.resize((requested_.size() + 63) / 64);
    for (size_t i = 0; i < requested_.size(); ++i) {
      const PooledBlock& block = requested_[i].block;
      const int group = layout_.owner(requested_[i].owner).first_group + block.group;
      if (block.skips_empty_bags) {
        of_group[static_cast<size_t>(group)].push_back(static_cast<uint32_t>(i));
      }
      // Columns of a shard of row 0 are set to zero.
      if (!block.skips_empty_bags || block.first_row == 0) set_visited(always_visited_, i);
    }
    first_of_group_.push_back(0);
    for (const std::vector<uint32_t>& blocks : of_group) {
      blocks_of_group_.insert(blocks_of_group_.end(), blocks.begin(), blocks.end());
      first_of_group_.push_back(blocks_of_group_.size());
    }
  }
  /// Finds the features whose vectors are sums over several row shards.
  void list_summed() {
    summed_.assign(layout_.features.size(), {});
    for (const RequestedBlock& requested : requested_) {
      SummedFeature& feature = summed_[static_cast<size_t>(requested.block.feature)];
      feature.is_cut |= requested.block.first_row > 0;
      feature.skips_empty_bags &= requested.block.skips_empty_bags;
    }
    for (size_t f = 0; f < summed_.size(); ++f) {
      if (!summed_[f].is_cut) continue;
      summed_[f].column = summed_width_;
      summed_width_ += layout_.features[f].width;
    }
  }
  /// True if each bag of the block's feature is in one of its blocks, and in no other.
  bool in_one_block(const RoutedBatch& batch, const PooledBlock& block) const {
    const auto f = static_cast<size_t>(block.feature);
    return summed_[f].skips_empty_bags && batch.requester.alone[f];
  }
  /// True if the vectors of the block's feature are sums over several row shards.
  bool is_summed(const RoutedBatch& batch, const PooledBlock& block) const {
    return summed_[static_cast<size_t>(block.feature)].is_cut && !in_one_block(batch, block);
  }
  /// Lets `copy` of a block write to the fp32 sums. Its feature is rounded to `e` afterwards.
  void sum_apart(const PooledBlock& block, const Matrix& e, BlockCopy& copy) {
    const FeaturePlace& feature = layout_.features[static_cast<size_t>(block.feature)];
    float* const sums = buffers_.sums.data() + summed_[static_cast<size_t>(block.feature)].column;
    copy.dst = sums + block.e_column - feature.column;
    copy.dst_type = DType::kFloat32;
    copy.dst_stride = summed_width_;
    BlockCopy rounded;
    rounded.src = sums;
    rounded.src_stride = summed_width_;
    rounded.dst = e.element(0, feature.column);
    rounded.dst_type = e.type;
    rounded.dst_stride = e.stride;
    rounded.rows = e.rows;
    rounded.cols = feature.width;
    // The blocks of a feature follow each other.
    if (rounded_.empty() || rounded_.back().dst != rounded.dst) rounded_.push_back(rounded);
  }
  static void set_visited(std::vector<uint64_t>& bits, size_t i) {
    bits[i / 64] |= uint64_t{1} << (i % 64);
  }
  /// Leaves out blocks that return only non-empty bags and have none in the batch.
  void find_visited(const RoutedBatch& batch) {
    visited_ = always_visited_;
    const std::vector<ReturnedBags>& returned = batch.requester.returned;
    for (size_t g = 0; g < returned.size(); ++g) {
      if (returned[g].count == 0) continue;
      for (size_t k = first_of_group_[g]; k < first_of_group_[g + 1]; ++k) {
        set_visited(visited_, blocks_of_group_[k]);
      }
    }
  }
  /// Calls visit(block) for the visited blocks, in their order.
  template <class Visit>
  void for_visited(const Visit& visit) const {
    for (size_t word = 0; word < visited_.size(); ++word) {
      for (uint64_t bits = visited_[word]; bits != 0; bits &= bits - 1) {
        visit(requested_[word * 64 + static_cast<size_t>(std::countr_zero(bits))]);
      }
    }
  }
  const ReturnedBags& returned_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    const int group = layout_.owner(requested.owner).first_group + requested.block.group;
    return batch.requester.returned[static_cast<size_t>(group)];
  }
  const int32_t* samples_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    return batch.requester.returned_samples + returned_of(batch, requested).first;
  }

  BlockCopy copy_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    BlockCopy copy;
    copy.cols = requested.block.width;
    if (requested.block.skips_empty_bags) {
      const ReturnedBags& returned = returned_of(batch, requested);
      const bool mean = layout_.features[static_cast<size_t>(requested.block.feature)].mean;
      copy.rows = returned.count;
      copy.scale = mean ? batch.requester.returned_scales + returned.first : nullptr;
    } else {
      copy.rows = batch.local.size();
      copy.scale = batch.requester.scales[static_cast<size_t>(requested.block.feature)];
    }
    return copy;
  }

  /// Writes zeros to all rows of the columns that `copy` writes.
  BlockCopy zero(const BlockCopy& copy, int64_t rows) const {
    BlockCopy result;
    result.src = buffers_.zeros.data();
    result.dst = copy.dst;
    result.dst_type = copy.dst_type;
    result.dst_stride = copy.dst_stride;
    result.rows = rows;
    result.cols = copy.cols;
    return result;
  }

  /// The memory that a requested block is received in or sent from. A block of this rank's own
  /// shards stays with the vectors of its shards.
  void* wire_place(const RequestedBlock& requested, DType type) const {
    const auto element = static_cast<int64_t>(size_of(type));
    if (requested.owner != comm_->rank()) {
      return buffers_.requester_wire.data() +
             places_.requested_at(requested.block, requested.owner, requested.number) * element;
    }
    char* owned = is_converted(type) ? buffers_.owner_wire.data() : buffers_.pooled.data();
    return owned + places_.own_at(requested.block, requested.number) * element;
  }
  int64_t wire_stride(const RequestedBlock& requested) const {
    return requested.block.skips_empty_bags ? requested.block.width : width_of(requested.owner);
  }

  Context& context_;
  Ops& ops_;
  const EmbeddingLayout& layout_;
  const WireConfig wire_;
  std::unique_ptr<Communicator> comm_;
  std::vector<RequestedBlock> requested_;  ///< by feature, then row
  // Bits by requested block.
  std::vector<uint64_t> always_visited_, visited_;
  std::vector<uint32_t> blocks_of_group_;  ///< group-major, counted over all owners
  std::vector<size_t> first_of_group_;     ///< [groups + 1] into blocks_of_group_
  struct SummedFeature {
    bool is_cut = false;
    bool skips_empty_bags = true;  ///< all of its blocks do
    int64_t column = 0;            ///< in Buffers::sums
  };
  std::vector<SummedFeature> summed_;  ///< by feature
  int64_t summed_width_ = 0;
  PooledLayout places_;
  Buffers buffers_;
  std::vector<BlockCopy> copies_, rounded_;
  std::unique_ptr<NodeExchange> node_;      ///< null if no node adds partial vectors
  const RoutedBatch* summing_ = nullptr;    ///< its partial vectors are on their way
  const RoutedBatch* receiving_ = nullptr;  ///< its gradients are on their way to the owners
  Pending pending_;
  int64_t pooled_bytes_ = 0;
  int64_t gradient_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BagPooling> make_all_to_all_pooling(Context& context, Ops& ops,
                                                    const EmbeddingLayout& layout,
                                                    WireConfig wire) {
  return std::make_unique<AllToAllPooling>(context, ops, layout, wire);
}

}  // namespace dlrm
