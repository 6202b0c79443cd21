#include <algorithm>
#include <tuple>

#include "pooled_path.h"

namespace dlrm {
namespace {

/// A block of some owner, as the requester of its vectors sees it.
struct RequestedBlock {
  int owner = 0;
  PooledBlock block;
};

class ExchangedPath final : public PooledPath {
 public:
  ExchangedPath(Context& context, Ops& ops, const EmbeddingLayout& layout, WireConfig wire)
      : ops_(ops),
        layout_(layout),
        wire_(wire),
        comm_(context.comm.duplicate()),
        pooled_(context.device, 0, "pooled vectors"),
        owner_wire_(context.device, 0, "pooled vectors on their way"),
        requester_wire_(context.device, 0, "pooled vectors on their way") {
    for (size_t q = 0; q < layout.owners.size(); ++q) {
      for (const PooledBlock& block : layout.owners[q].blocks) {
        requested_.push_back({static_cast<int>(q), block});
      }
      width_before_.push_back(requested_width_);
      requested_width_ += layout.owners[q].width;
    }
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
    copies_.reserve(requested_.size());
  }

  Place pooled(const RoutedBatch& batch, size_t block, MatrixView<float>) override {
    reserve(batch);
    const PooledBlock& place = mine().blocks[block];
    return {pooled_matrix(batch).f32().columns(place.column, place.width), nullptr};
  }

  void start_return(const RoutedBatch& batch) override {
    reserve(batch);
    lay_out(batch, size_of(wire_.forward));
    void* send = pooled_.data();
    if (wire_.forward != DType::kFloat32) {
      send = owner_wire_.data();
      ops_.convert(pooled_matrix(batch), owner_matrix(batch, wire_.forward));
    }
    pooled_bytes_ += bytes_to_others(exchange_.send_bytes);
    pending_ = comm_->start_alltoallv(send, requester_wire_.data(), exchange_);
  }

  void finish_return(const RoutedBatch& batch, MatrixView<float> e) override {
    pending_.wait();
    copies_.clear();
    for (const RequestedBlock& requested : requested_) {
      BlockCopy copy = copy_of(batch, requested);
      copy.src = wire_place(batch, requested, wire_.forward);
      copy.src_type = wire_.forward;
      copy.src_stride = width_of(requested.owner);
      copy.dst = e.data + requested.block.e_column;
      copy.dst_stride = e.stride;
      copy.accumulate = requested.block.first_row > 0;
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
      copy.dst = wire_place(batch, requested, wire_.backward);
      copy.dst_type = wire_.backward;
      copy.dst_stride = width_of(requested.owner);
      copies_.push_back(copy);
    }
    ops_.copy_blocks(copies_);

    lay_out(batch, size_of(wire_.backward));
    std::swap(exchange_.send_bytes, exchange_.receive_bytes);
    std::swap(exchange_.send_offsets, exchange_.receive_offsets);
    gradient_bytes_ += bytes_to_others(exchange_.send_bytes);
    void* receive = wire_.backward == DType::kFloat32 ? static_cast<void*>(pooled_.data())
                                                      : static_cast<void*>(owner_wire_.data());
    pending_ = comm_->start_alltoallv(requester_wire_.data(), receive, exchange_);
  }

  void finish_backward(const RoutedBatch& batch) override {
    pending_.wait();
    if (wire_.backward == DType::kFloat32) return;
    ops_.convert(owner_matrix(batch, wire_.backward), pooled_matrix(batch));
  }

  Place gradient(const RoutedBatch& batch, size_t block, MatrixView<float> de) override {
    return pooled(batch, block, de);
  }

  void poll() override { pending_.poll(); }
  int64_t pooled_bytes() const override { return pooled_bytes_; }
  int64_t gradient_bytes() const override { return gradient_bytes_; }

 private:
  const OwnerLayout& mine() const { return layout_.owner(comm_->rank()); }
  int64_t width_of(int owner) const { return layout_.owner(owner).width; }

  void reserve(const RoutedBatch& batch) {
    const auto owned = static_cast<size_t>(batch.global_size * mine().width);
    const auto requested = static_cast<size_t>(batch.local.size() * requested_width_);
    const bool narrow = wire_.forward != DType::kFloat32 || wire_.backward != DType::kFloat32;
    const size_t bytes = std::max(size_of(wire_.forward), size_of(wire_.backward));
    pooled_.reserve(owned);
    if (narrow) owner_wire_.reserve(owned * sizeof(BFloat16));
    requester_wire_.reserve(requested * bytes);
  }

  Matrix pooled_matrix(const RoutedBatch& batch) const {
    return {pooled_.data(), DType::kFloat32, batch.global_size, mine().width};
  }
  Matrix owner_matrix(const RoutedBatch& batch, DType type) const {
    return {owner_wire_.data(), type, batch.global_size, mine().width};
  }

  /// The layout of the way forward: sends my block of every rank's samples, receives every owner's
  /// block of mine.
  void lay_out(const RoutedBatch& batch, size_t element) {
    const auto bytes = static_cast<int64_t>(element);
    const int world = comm_->size();
    int64_t received = 0;
    for (int q = 0; q < world; ++q) {
      const auto i = static_cast<size_t>(q);
      const Range samples = part_of(batch.global_size, q, world);
      exchange_.send_bytes[i] = samples.size() * mine().width * bytes;
      exchange_.send_offsets[i] = samples.begin * mine().width * bytes;
      exchange_.receive_bytes[i] = batch.local.size() * width_of(q) * bytes;
      exchange_.receive_offsets[i] = received;
      received += exchange_.receive_bytes[i];
    }
  }

  BlockCopy copy_of(const RoutedBatch& batch, const RequestedBlock& requested) const {
    BlockCopy copy;
    copy.rows = batch.local.size();
    copy.cols = requested.block.width;
    copy.scale = batch.scales[static_cast<size_t>(requested.block.feature)];
    return copy;
  }

  /// Where a requested block's column starts among the vectors of all owners.
  void* wire_place(const RoutedBatch& batch, const RequestedBlock& requested, DType type) const {
    const int64_t before = width_before_[static_cast<size_t>(requested.owner)];
    const int64_t element = batch.local.size() * before + requested.block.column;
    return requester_wire_.data() + element * static_cast<int64_t>(size_of(type));
  }

  int64_t bytes_to_others(const std::vector<int64_t>& bytes) const {
    int64_t total = 0;
    for (const int64_t n : bytes) total += n;
    return total - bytes[static_cast<size_t>(comm_->rank())];
  }

  Ops& ops_;
  const EmbeddingLayout& layout_;
  const WireConfig wire_;
  std::unique_ptr<Communicator> comm_;
  std::vector<RequestedBlock> requested_;  ///< by feature, then row
  std::vector<int64_t> width_before_;      ///< sum of the widths of lower owners, by owner
  int64_t requested_width_ = 0;
  Array<float> pooled_;         ///< [B, my width]: vectors, later their gradients
  Array<char> owner_wire_;      ///< the same in the wire's type, where it is not fp32
  Array<char> requester_wire_;  ///< owner after owner, [b, width of the owner]
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
