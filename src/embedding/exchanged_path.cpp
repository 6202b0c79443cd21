#include <algorithm>
#include <numeric>
#include <tuple>

#include "pooled_path.h"

namespace dlrm {
namespace {

/// A block of some owner, as the requester of its vectors sees it.
struct RequestedBlock {
  int owner = 0;
  size_t number = 0;  ///< over the blocks of all owners
  PooledBlock block;
};

/// Buffers are converted in rows of this many elements.
constexpr int64_t kConvertWidth = 1024;

class ExchangedPath final : public PooledPath {
 public:
  ExchangedPath(Context& context, Ops& ops, const EmbeddingLayout& layout, WireConfig wire)
      : context_(context),
        ops_(ops),
        layout_(layout),
        wire_(wire),
        comm_(context.device_comm().duplicate()),
        pooled_(comm_->shared_memory(context.device), 0, "pooled vectors"),
        owner_wire_(comm_->shared_memory(context.device), 0, "pooled vectors on their way"),
        requester_wire_(comm_->shared_memory(context.device), 0, "pooled vectors on their way") {
    int64_t widest = 0;
    for (size_t q = 0; q < layout.owners.size(); ++q) {
      for (const PooledBlock& block : layout.owners[q].blocks) {
        requested_.push_back({static_cast<int>(q), requested_.size(), block});
        widest = std::max(widest, block.width);
      }
    }
    zeros_ = Array<float>(context.device, static_cast<size_t>(widest), "zeros");
    requested_at_.resize(requested_.size());
    requested_end_.resize(layout.owners.size());
    owned_end_.resize(layout.owners.size());
    // A feature's cells come first from the shard of row 0, which copies; later rows are added.
    const auto order = [](const RequestedBlock& r) {
      return std::tuple(r.block.feature, r.block.first_row, r.block.e_column);
    };
    std::sort(requested_.begin(), requested_.end(),
              [&](const auto& a, const auto& b) { return order(a) < order(b); });
    const auto world = static_cast<size_t>(comm_->size());
    for (auto* list : {&exchange_.send_bytes, &exchange_.send_offsets, &exchange_.receive_bytes,
                       &exchange_.receive_offsets}) {
      list->resize(world);
    }
    copies_.reserve(2 * requested_.size());
  }

  void begin(const RoutedBatch& batch) override {
    place_owned(batch);
    place_requested(batch);
    const auto owned = static_cast<size_t>(padded(owned_end_.back()));
    const bool narrow = wire_.forward != DType::kFloat32 || wire_.backward != DType::kFloat32;
    pooled_.reserve(owned);
    if (narrow) owner_wire_.reserve(owned * sizeof(BFloat16));
    requester_wire_.reserve(static_cast<size_t>(requested_end_.back()) *
                            std::max(size_of(wire_.forward), size_of(wire_.backward)));
  }

  Place pooled(const RoutedBatch& batch, size_t block, size_t piece, MatrixView<float>) override {
    const PooledBlock& place = mine().blocks[block];
    const auto group = static_cast<size_t>(place.group);
    const int64_t bags = batch.owner.pieces[group * batch.owner.pieces_per_group + piece].bags;
    float* data = pooled_.data() + owned_at_[block * batch.owner.pieces_per_group + piece];
    return {{data, bags, place.width, place.non_empty ? place.width : mine().width}, nullptr};
  }

  void start_return(const RoutedBatch&, Ops& ops, Stream& stream) override {
    lay_out(size_of(wire_.forward));
    void* send = pooled_.data();
    if (wire_.forward != DType::kFloat32) {
      send = owner_wire_.data();
      ops.convert(owned(pooled_.data(), DType::kFloat32), owned(owner_wire_.data(), wire_.forward));
    }
    pooled_bytes_ += total(exchange_.send_bytes);
    pending_ = comm_->start_alltoallv(send, requester_wire_.data(), exchange_, &stream);
  }

  void finish_return(const RoutedBatch& batch, MatrixView<float> e) override {
    pending_.wait(context_.stream);
    copies_.clear();
    for (const RequestedBlock& requested : requested_) {
      const PooledBlock& block = requested.block;
      BlockCopy copy = copy_of(batch, requested);
      copy.src = wire_place(requested, wire_.forward);
      copy.src_type = wire_.forward;
      copy.src_stride = wire_stride(requested);
      copy.dst = e.data + block.e_column;
      copy.dst_stride = e.stride;
      copy.accumulate = block.first_row > 0;
      if (block.non_empty) {
        const ReturnedBags& returned = returned_of(batch, requested);
        copy.dst_rows = returned.samples;
        copy.accumulate = !returned.alone;
        if (block.first_row == 0 && !returned.alone) copies_.push_back(zero(copy, e.rows));
      }
      copies_.push_back(copy);
    }
    ops_.copy_blocks(copies_);
  }

  void start_backward(const RoutedBatch& batch, MatrixView<float> de) override {
    copies_.clear();
    for (const RequestedBlock& requested : requested_) {
      BlockCopy copy = copy_of(batch, requested);
      copy.src = de.data + requested.block.e_column;
      copy.src_stride = de.stride;
      copy.dst = wire_place(requested, wire_.backward);
      copy.dst_type = wire_.backward;
      copy.dst_stride = wire_stride(requested);
      if (requested.block.non_empty) copy.src_rows = returned_of(batch, requested).samples;
      copies_.push_back(copy);
    }
    ops_.copy_blocks(copies_);

    lay_out(size_of(wire_.backward));
    std::swap(exchange_.send_bytes, exchange_.receive_bytes);
    std::swap(exchange_.send_offsets, exchange_.receive_offsets);
    gradient_bytes_ += total(exchange_.send_bytes);
    void* receive = wire_.backward == DType::kFloat32 ? static_cast<void*>(pooled_.data())
                                                      : static_cast<void*>(owner_wire_.data());
    pending_ = comm_->start_alltoallv(requester_wire_.data(), receive, exchange_, &context_.stream);
  }

  void finish_backward(const RoutedBatch&) override {
    pending_.wait(context_.stream);
    if (wire_.backward == DType::kFloat32) return;
    ops_.convert(owned(owner_wire_.data(), wire_.backward), owned(pooled_.data(), DType::kFloat32));
  }

  Place gradient(const RoutedBatch& batch, size_t block, size_t piece,
                 MatrixView<float> de) override {
    return pooled(batch, block, piece, de);
  }

  void poll() override { pending_.poll(); }
  int64_t pooled_bytes() const override { return pooled_bytes_; }
  int64_t gradient_bytes() const override { return gradient_bytes_; }

 private:
  const OwnerLayout& mine() const { return layout_.owner(comm_->rank()); }
  int64_t width_of(int owner) const { return layout_.owner(owner).width; }

  int64_t world() const { return comm_->size(); }

  /// Where each piece of each block lies among the vectors of this owner, rank after rank.
  void place_owned(const RoutedBatch& batch) {
    const size_t pieces = batch.owner.pieces_per_group;
    owned_at_.resize(mine().blocks.size() * pieces);
    int64_t at = 0;
    for (size_t p = 0; p < static_cast<size_t>(world()); ++p) {
      const Range samples = part_of(batch.global_size, static_cast<int64_t>(p), world());
      const int64_t whole = at;
      at += samples.size() * mine().width;
      if (p < pieces) {
        for (size_t k = 0; k < mine().blocks.size(); ++k) {
          const PooledBlock& block = mine().blocks[k];
          owned_at_[k * pieces + p] = block.non_empty ? at : whole + block.column;
          if (!block.non_empty) continue;
          at +=
              batch.owner.pieces[static_cast<size_t>(block.group) * pieces + p].bags * block.width;
        }
      }
      owned_end_[p] = at;
    }
  }

  /// Where each block of each owner lies among the vectors of the local samples.
  void place_requested(const RoutedBatch& batch) {
    int64_t at = 0;
    size_t number = 0;
    for (size_t q = 0; q < layout_.owners.size(); ++q) {
      const OwnerLayout& owner = layout_.owners[q];
      const int64_t whole = at;
      at += batch.local.size() * owner.width;
      for (const PooledBlock& block : owner.blocks) {
        requested_at_[number++] = block.non_empty ? at : whole + block.column;
        if (!block.non_empty) continue;
        at += batch.requester.returned[static_cast<size_t>(owner.first_group + block.group)].count *
              block.width;
      }
      requested_end_[q] = at;
    }
  }

  static int64_t padded(int64_t elements) {
    return (elements + kConvertWidth - 1) / kConvertWidth * kConvertWidth;
  }
  Matrix owned(void* data, DType type) const {
    return {data, type, padded(owned_end_.back()) / kConvertWidth, kConvertWidth};
  }

  /// The layout of the way forward: sends every rank's vectors of my shards, receives every owner's
  /// for my samples.
  void lay_out(size_t element) {
    const auto bytes = static_cast<int64_t>(element);
    const auto fill = [&](const std::vector<int64_t>& ends, std::vector<int64_t>& sizes,
                          std::vector<int64_t>& offsets) {
      for (size_t i = 0; i < ends.size(); ++i) {
        offsets[i] = (i == 0 ? 0 : ends[i - 1]) * bytes;
        sizes[i] = ends[i] * bytes - offsets[i];
      }
    };
    fill(owned_end_, exchange_.send_bytes, exchange_.send_offsets);
    fill(requested_end_, exchange_.receive_bytes, exchange_.receive_offsets);
    const auto own = static_cast<size_t>(comm_->rank());
    exchange_.send_bytes[own] = exchange_.receive_bytes[own] = 0;  // used where they are
  }

  const ReturnedBags& returned_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    const int group = layout_.owner(requested.owner).first_group + requested.block.group;
    return batch.requester.returned[static_cast<size_t>(group)];
  }

  BlockCopy copy_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    BlockCopy copy;
    copy.cols = requested.block.width;
    if (requested.block.non_empty) {
      copy.rows = returned_of(batch, requested).count;
      copy.scale = returned_of(batch, requested).scale;
    } else {
      copy.rows = batch.local.size();
      copy.scale = batch.requester.scales[static_cast<size_t>(requested.block.feature)];
    }
    return copy;
  }

  /// Zeros for all rows of the columns that `copy` writes.
  BlockCopy zero(const BlockCopy& copy, int64_t rows) const {
    BlockCopy result;
    result.src = zeros_.data();
    result.dst = copy.dst;
    result.dst_stride = copy.dst_stride;
    result.rows = rows;
    result.cols = copy.cols;
    return result;
  }

  /// Where a block lies on its way: among those that travel, or, if this rank owns it, among the
  /// owner's, which are in the same order.
  void* wire_place(const RequestedBlock& requested, DType type) const {
    const int64_t element = static_cast<int64_t>(size_of(type));
    const int64_t at = requested_at_[requested.number];
    if (requested.owner != comm_->rank()) return requester_wire_.data() + at * element;
    char* owned =
        type == DType::kFloat32 ? reinterpret_cast<char*>(pooled_.data()) : owner_wire_.data();
    return owned + (at - start_of(requested_end_) + start_of(owned_end_)) * element;
  }
  /// Where this rank's part of a list starts.
  int64_t start_of(const std::vector<int64_t>& ends) const {
    return comm_->rank() == 0 ? 0 : ends[static_cast<size_t>(comm_->rank()) - 1];
  }
  int64_t wire_stride(const RequestedBlock& requested) const {
    return requested.block.non_empty ? requested.block.width : width_of(requested.owner);
  }

  static int64_t total(const std::vector<int64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  }

  Context& context_;
  Ops& ops_;
  const EmbeddingLayout& layout_;
  const WireConfig wire_;
  std::unique_ptr<Communicator> comm_;
  std::vector<RequestedBlock> requested_;  ///< by feature, then row
  // Elements: where this batch's pieces and blocks start, and where each rank's part ends.
  std::vector<int64_t> owned_at_, requested_at_, owned_end_, requested_end_;
  Array<float> pooled_;         ///< of my shards, rank after rank: vectors, later their gradients
  Array<char> owner_wire_;      ///< the same in the wire's type, where it is not fp32
  Array<char> requester_wire_;  ///< of my samples, owner after owner
  Array<float> zeros_;          ///< as many as the widest block has columns
  std::vector<BlockCopy> copies_;
  ExchangeLayout exchange_;
  Pending pending_;
  int64_t pooled_bytes_ = 0;
  int64_t gradient_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PooledPath> make_exchanged_path(Context& context, Ops& ops,
                                                const EmbeddingLayout& layout, WireConfig wire) {
  return std::make_unique<ExchangedPath>(context, ops, layout, wire);
}

}  // namespace dlrm
