#include <algorithm>
#include <tuple>

#include "bag_pooling.h"
#include "node_exchange.h"
#include "pooled_buffers.h"
#include "visited_blocks.h"

namespace dlrm {
namespace {

/// Columns of a block of any owner, with the data that its requester needs.
struct RequestedBlock {
  int owner = 0;
  size_t number = 0;   ///< over the blocks of all owners
  int64_t column = 0;  ///< the first of them in the owner's block
  PooledBlock block;   ///< of these columns
};

/// Cuts blocks at the columns of E where others begin or end, which are others of their feature. A
/// device adds blocks of the same columns in one launch.
std::vector<RequestedBlock> cut_columns(const std::vector<RequestedBlock>& blocks) {
  std::vector<int64_t> borders;
  for (const RequestedBlock& b : blocks) {
    borders.insert(borders.end(), {b.block.e_column, b.block.e_column + b.block.width});
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<RequestedBlock> cut;
  for (const RequestedBlock& b : blocks) {
    const int64_t first = b.block.e_column, end = first + b.block.width;
    auto border = std::upper_bound(borders.begin(), borders.end(), first);
    for (int64_t begin = first; begin < end; begin = *border++) {
      RequestedBlock part = b;
      part.column = begin - first;
      part.block.e_column = begin;
      part.block.width = *border - begin;
      cut.push_back(part);
    }
  }
  return cut;
}

class AllToAllPooling final : public BagPooling {
 public:
  AllToAllPooling(Context& context, Ops& ops, const EmbeddingLayout& layout, WireConfig wire)
      : context_(context),
        ops_(ops),
        layout_(layout),
        comm_(context.device_comm().duplicate()),
        buffers_(comm_->shared_memory(context.device), layout, comm_->rank(), wire, most_parts()),
        visited_(layout.groups),
        sums_(context.device, 0, "sums of row shards") {
    pending_.resize(static_cast<size_t>(parts()));
    int64_t widest = 0;
    for (size_t q = 0; q < layout.owners.size(); ++q) {
      for (const PooledBlock& block : layout.owners[q].returned) {
        requested_.push_back({static_cast<int>(q), requested_.size(), 0, block});
        widest = std::max(widest, block.width);
      }
    }
    zeros_ = Array<float>(context.device, static_cast<size_t>(widest), "zeros");
    requested_ = cut_columns(requested_);
    // The shard of row 0 is first. Its vectors are copied, and those of later rows are added.
    const auto order = [](const RequestedBlock& r) {
      return std::tuple(r.block.feature, r.block.first_row, r.block.e_column);
    };
    std::sort(requested_.begin(), requested_.end(),
              [&](const auto& a, const auto& b) { return order(a) < order(b); });
    for (const RequestedBlock& requested : requested_) {
      const int first = layout.owner(requested.owner).first_group;
      visited_.add(requested.block, first + requested.block.group);
    }
    list_summed();
    copies_.reserve(2 * requested_.size());
    if (layout.sums_in_nodes()) node_ = std::make_unique<NodeExchange>(context, layout);
  }

  void set_type(DType vectors) override {
    buffers_.set_type(vectors);
    pending_.resize(static_cast<size_t>(parts()));
  }

  void begin(const RoutedBatch& batch) override {
    buffers_.begin(batch);
    if (node_) node_->begin(batch.global_size);
    visited_.set(batch);
  }

  int parts() const override { return buffers_.parts().count(); }
  Return return_of(int shard) const override {
    const ReturnedParts& parts = buffers_.parts();
    const int rank = comm_->rank();
    const ReturnedShard& returned = parts.shard(rank, shard);
    return {parts.part_of(rank, shard), returned.rounds, returned.work()};
  }

  Piece pooled(const RoutedBatch& batch, size_t block, size_t piece, const Matrix&) override {
    return {piece_of(batch, block, piece, true), nullptr};
  }

  void start_return(const RoutedBatch& batch, int part, Ops& ops, Stream& stream) override {
    if (!node_) return return_vectors(static_cast<size_t>(part), ops, stream);
    node_->start_sums(ops, stream);
    summing_ = &batch;
    if (context_.device.asynchronous()) return_sums(ops, stream);
  }

  void finish_return(const RoutedBatch& batch, const Matrix& e) override {
    if (summing_) return_sums(ops_, context_.stream);
    for (Pending& part : pending_) part.wait(context_.stream);
    copies_.clear();
    summed_copies_.clear();
    rounded_.clear();
    const bool rounds = e.type != DType::kFloat32;
    if (rounds) sums_.reserve(static_cast<size_t>(e.rows * summed_width_));
    visited_.for_each([&](size_t visited) {
      const RequestedBlock& requested = requested_[visited];
      const PooledBlock& block = requested.block;
      BlockCopy copy = copy_of(batch, requested);
      const PooledBuffers::Place place =
          buffers_.received_vectors(requested.owner, requested.number, block);
      copy.src = column_of(place, requested);
      copy.src_type = place.type;
      copy.src_stride = place.stride;
      copy.dst = e.element(0, block.e_column);
      copy.dst_type = e.type;
      copy.dst_stride = e.stride;
      copy.accumulate = block.first_row > 0;
      const bool in_fp32 = rounds && is_summed(batch, block);
      std::vector<BlockCopy>& copies = in_fp32 ? summed_copies_ : copies_;
      if (in_fp32) sum_in_fp32(block, e, copy);
      if (block.skips_empty_bags) {
        const bool alone = in_one_block(batch, block);
        copy.dst_rows = samples_of(batch, requested);
        copy.dst_height = e.rows;
        copy.accumulate = !alone;
        copy.disjoint = alone;
        if (block.first_row == 0 && !alone) copies.push_back(zero(copy, e.rows));
      }
      if (copy.rows > 0) copies.push_back(copy);
    });
    // A call of its own, because rounded_ reads these sums. In one call a device would have to
    // order them as it orders copies to the same place, one launch after another.
    if (!rounded_.empty()) ops_.copy_blocks(summed_copies_);
    copies_.insert(copies_.end(), rounded_.begin(), rounded_.end());
    ops_.copy_blocks(copies_);
  }

  void start_backward(const RoutedBatch& batch, const Matrix& de) override {
    copies_.clear();
    visited_.for_each([&](size_t visited) {
      const RequestedBlock& requested = requested_[visited];
      BlockCopy copy = copy_of(batch, requested);
      copy.src = de.element(0, requested.block.e_column);
      copy.src_type = de.type;
      copy.src_stride = de.stride;
      const PooledBuffers::Place place = buffers_.sent_gradients(requested.owner, requested.number);
      copy.dst = column_of(place, requested);
      copy.dst_type = place.type;
      copy.dst_stride = place.stride;
      if (requested.block.skips_empty_bags) copy.src_rows = samples_of(batch, requested);
      if (copy.rows > 0) copies_.push_back(copy);
    });
    ops_.copy_blocks(copies_);

    const PooledBuffers::Messages messages = buffers_.send_gradients();
    gradient_bytes_ += messages.layout.send_total();
    pending_.front() =
        comm_->start_alltoallv(messages.send, messages.receive, messages.layout, &context_.stream);
    receiving_ = &batch;
  }

  void finish_backward(const RoutedBatch&) override {
    if (receiving_) receive_gradients();
    if (node_) node_->finish_gradients(ops_, context_.stream);
  }

  Piece gradient(const RoutedBatch& batch, size_t block, size_t piece, const Matrix&) override {
    return {piece_of(batch, block, piece, false), nullptr};
  }

  void poll() override {
    bool done = true;
    for (Pending& part : pending_) done &= part.poll();
    const bool node_done = !node_ || node_->poll();
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
  /// While one part travels, the next one is looked up. Only a device does both at once.
  int most_parts() const {
    const bool one = layout_.owners.size() == 1 || layout_.sums_in_nodes();
    return context_.device.asynchronous() && !one ? 2 : 1;
  }

  /// Sends a part of the owned vectors once `stream` has computed them.
  void return_vectors(size_t part, Ops& ops, Stream& stream) {
    const PooledBuffers::Messages messages = buffers_.send_vectors(part, ops);
    pooled_bytes_ += messages.layout.send_total();
    pending_[part] =
        comm_->start_alltoallv(messages.send, messages.receive, messages.layout, &stream);
  }

  /// Adds partial vectors, and sends them with all others.
  void return_sums(Ops& ops, Stream& stream) {
    node_->finish_sums(ops, stream);
    copy_sums(*summing_, ops, true);
    return_vectors(0, ops, stream);
    summing_ = nullptr;
  }

  /// The first of a block's columns among those of its owner.
  static void* column_of(const PooledBuffers::Place& place, const RequestedBlock& requested) {
    return place.data + requested.column * static_cast<int64_t>(size_of(place.type));
  }

  /// Waits for gradients, and hands out those of sums.
  void receive_gradients() {
    pending_.front().wait(context_.stream);
    buffers_.convert_gradients(ops_);
    if (node_) {
      copy_sums(*receiving_, ops_, false);
      node_->start_gradients(ops_, context_.stream);
    }
    receiving_ = nullptr;
  }

  /// Copies the node's sums to the owned vectors, or back.
  void copy_sums(const RoutedBatch& batch, Ops& ops, bool to_owned) {
    copies_.clear();
    const auto world = static_cast<int>(layout_.owners.size());
    for (size_t s = 0; s < mine().sums.size(); ++s) {
      if (mine().sums[s].returned < 0) continue;
      const auto returned = static_cast<size_t>(mine().sums[s].returned);
      const MatrixView<float> sums = node_->summed(static_cast<int>(s));
      for (int p = 0; p < (mine().by_source ? world : 1); ++p) {
        const Range samples = mine().by_source ? samples_of_rank(batch, p) : Range{0, sums.rows};
        if (samples.size() == 0) continue;
        const PooledBuffers::Place owned =
            to_owned ? buffers_.owned_vectors(returned, p) : buffers_.owned_gradients(returned, p);
        BlockCopy copy;
        copy.src = sums.row(samples.begin);
        copy.src_stride = sums.stride;
        copy.dst = owned.data;
        copy.dst_type = owned.type;
        copy.dst_stride = owned.stride;
        if (!to_owned) {
          copy.dst = sums.row(samples.begin);
          copy.src = owned.data;
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

  /// The vectors of a piece on its owner, or their gradients.
  Matrix piece_of(const RoutedBatch& batch, size_t block, size_t piece, bool vectors) const {
    const PooledBlock& place = mine().blocks[block];
    const int source = batch.owner.sources[piece];
    if (place.sum >= 0) {
      const int64_t first =
          source == OwnerSide::kEveryRank ? 0 : samples_of_rank(batch, source).begin;
      return node_->partial(place.sum, first, batch.owner.pieces[piece].bags);
    }
    const auto returned = static_cast<size_t>(place.returned);
    const PooledBuffers::Place owned = vectors ? buffers_.owned_vectors(returned, source)
                                               : buffers_.owned_gradients(returned, source);
    return {owned.data, owned.type, batch.owner.pieces[piece].bags, place.width, owned.stride};
  }
  const OwnerLayout& mine() const { return layout_.owner(comm_->rank()); }

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
  void sum_in_fp32(const PooledBlock& block, const Matrix& e, BlockCopy& copy) {
    const FeaturePlace& feature = layout_.features[static_cast<size_t>(block.feature)];
    float* const sums = sums_.data() + summed_[static_cast<size_t>(block.feature)].column;
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

  /// Writes zeros to all rows of the columns that `copy` writes. They are read as its type.
  BlockCopy zero(const BlockCopy& copy, int64_t rows) const {
    BlockCopy result;
    result.src = zeros_.data();
    result.src_type = copy.src_type;
    result.dst = copy.dst;
    result.dst_type = copy.dst_type;
    result.dst_stride = copy.dst_stride;
    result.rows = rows;
    result.cols = copy.cols;
    return result;
  }

  Context& context_;
  Ops& ops_;
  const EmbeddingLayout& layout_;
  std::unique_ptr<Communicator> comm_;
  PooledBuffers buffers_;
  std::vector<RequestedBlock> requested_;  ///< by feature, then row
  VisitedBlocks visited_;                  ///< of requested_
  struct SummedFeature {
    bool is_cut = false;
    bool skips_empty_bags = true;  ///< all of its blocks do
    int64_t column = 0;            ///< in sums_
  };
  std::vector<SummedFeature> summed_;  ///< by feature
  int64_t summed_width_ = 0;
  Array<float> zeros_;  ///< [columns of the widest block]
  Array<float> sums_;   ///< [b, summed_width_] if E is not fp32
  std::vector<BlockCopy> copies_, summed_copies_, rounded_;
  std::unique_ptr<NodeExchange> node_;      ///< null if no node adds partial vectors
  const RoutedBatch* summing_ = nullptr;    ///< its partial vectors are on their way
  const RoutedBatch* receiving_ = nullptr;  ///< its gradients are on their way to the owners
  std::vector<Pending> pending_;            ///< by part; gradients use the first
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
