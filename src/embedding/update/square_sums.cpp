#include "square_sums.h"

#include <algorithm>
#include <numeric>

#include "dlrm/core/error.h"

namespace dlrm {

bool columns_are_cut(const EmbeddingLayout& layout) {
  for (const OwnerLayout& owner : layout.owners) {
    for (const PooledBlock& block : owner.blocks) {
      if (block.width != layout.features[static_cast<size_t>(block.feature)].width) return true;
    }
  }
  return false;
}

CutShardSums::CutShardSums(Context& context, const std::vector<OwnedShard>& shards)
    : shards_(shards),
      host_visible_(context.device.host_visible_memory()),
      gradients_(context.device, 0, "row gradients"),
      sums_(context.device, 0, "sums of squares"),
      totals_(context.device, 0, "sums of squares"),
      ordered_(context.device, 0, "sums of squares") {}

void CutShardSums::begin(const SegmentBuffers& segments, bool orders) {
  counts_.assign(shards_.size(), 0);
  gradient_at_.assign(shards_.size(), 0);
  sum_at_.assign(shards_.size(), 0);
  int64_t elements = 0, rows = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (!shards_[s].columns_cut) continue;
    counts_[s] = unique_rows(segments, s);
    gradient_at_[s] = elements;
    sum_at_[s] = rows;
    elements += counts_[s] * shards_[s].columns.size();
    rows += counts_[s];
  }
  gradients_.reserve(static_cast<size_t>(elements));
  sums_.reserve(static_cast<size_t>(rows));
  totals_.reserve(static_cast<size_t>(rows));
  if (orders) ordered_.reserve(static_cast<size_t>(rows));
}

int64_t CutShardSums::unique_rows(const SegmentBuffers& segments, size_t shard) const {
  const SegmentedRows& all = segments[static_cast<size_t>(shards_[shard].slice)];
  return host_visible_ ? all.count[0] : static_cast<int64_t>(all.rows.size());
}

MatrixView<float> CutShardSums::gradients(size_t shard) const {
  return {gradients_.data() + gradient_at_[shard], counts_[shard], shards_[shard].columns.size()};
}

RowOrder::RowOrder(View<const int64_t> slots, const int64_t* row_of)
    : at_(slots.size()), values_(slots.size()) {
  std::iota(at_.begin(), at_.end(), int64_t{0});
  const auto row_at = [&](int64_t i) { return row_of[slots[static_cast<size_t>(i)]]; };
  std::sort(at_.begin(), at_.end(), [&](int64_t a, int64_t b) { return row_at(a) < row_at(b); });
  for (const int64_t i : at_) rows_.push_back(row_at(i));
}

void RowOrder::to_rows(View<float> values) {
  std::copy(values.begin(), values.end(), values_.begin());
  for (size_t i = 0; i < at_.size(); ++i) values[i] = values_[static_cast<size_t>(at_[i])];
}

void RowOrder::to_slots(View<float> values) {
  std::copy(values.begin(), values.end(), values_.begin());
  for (size_t i = 0; i < at_.size(); ++i) values[static_cast<size_t>(at_[i])] = values_[i];
}

SquareSums::SquareSums(Context& context, Ops& ops, const EmbeddingLayout& layout,
                       const std::vector<OwnedShard>& shards)
    : context_(context),
      ops_(ops),
      shards_(shards),
      comm_(context.device_comm().duplicate()),
      shard_sums_(context, shards),
      send_(context.device, 0, "sums of squares"),
      receive_(context.device, 0, "sums of squares") {
  for (size_t t = 0; t + 1 < layout.first_feature.size(); ++t) {
    find_intervals(layout, static_cast<int>(t));
  }
  number_orders(layout.owner(comm_->rank()));
  const auto world = static_cast<size_t>(comm_->size());
  for (auto* list : {&layout_.send_bytes, &layout_.send_offsets, &layout_.receive_bytes,
                     &layout_.receive_offsets}) {
    list->resize(world);
  }
}

SquareSums::~SquareSums() = default;

void SquareSums::number_orders(const OwnerLayout& mine) {
  order_of_.assign(shards_.size(), -1);
  int orders = 0, last = -1;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const OwnedShard& shard = shards_[s];
    if (!mine.slices[static_cast<size_t>(shard.slice)].ordered) continue;
    if (shard.slice != last) ++orders;
    last = shard.slice;
    order_of_[s] = orders - 1;
  }
  orders_on_device_ = orders > 0;
}

void SquareSums::find_intervals(const EmbeddingLayout& layout, int table) {
  std::vector<int64_t> cuts;
  for (const OwnerLayout& owner : layout.owners) {
    for (const Slice& slice : owner.slices) {
      if (slice.table != table) continue;
      cuts.push_back(slice.rows.begin);
      cuts.push_back(slice.rows.end);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    Interval interval;
    interval.rows = {cuts[c], cuts[c + 1]};
    for (size_t q = 0; q < layout.owners.size(); ++q) {
      int shard = 0;
      for (const Slice& slice : layout.owners[q].slices) {
        const bool holds = slice.table == table && slice.rows.begin <= interval.rows.begin &&
                           interval.rows.end <= slice.rows.end;
        for (const Range& columns : slice.columns) {
          const bool mine = static_cast<int>(q) == comm_->rank();
          if (holds) {
            const auto before = std::upper_bound(slice.cuts.begin(), slice.cuts.end(),
                                                 interval.rows.begin - slice.rows.begin);
            interval.pieces.push_back({static_cast<int>(q), columns.begin, slice.rows,
                                       static_cast<size_t>(before - slice.cuts.begin()),
                                       mine ? shard : -1, nullptr});
          }
          ++shard;
        }
      }
    }
    std::sort(interval.pieces.begin(), interval.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.first_column < b.first_column; });
    const auto own = std::find_if(interval.pieces.begin(), interval.pieces.end(),
                                  [](const Piece& piece) { return piece.local_shard >= 0; });
    if (interval.pieces.size() < 2 || own == interval.pieces.end()) continue;
    interval.own = static_cast<size_t>(own - interval.pieces.begin());
    intervals_.push_back(interval);
  }
}

Range SquareSums::segments_of(const Interval& interval, const Piece& piece,
                              const SegmentBuffers& segments, const OwnerSide& owner) const {
  const auto number = static_cast<size_t>(piece.local_shard);
  if (order_of_[number] >= 0) {
    const auto& first_ids = owner.orders[static_cast<size_t>(order_of_[number])].first_ids;
    return {first_ids[piece.interval], first_ids[piece.interval + 1]};
  }
  if (piece.shard_rows == interval.rows) return {0, shard_sums_.unique_rows(segments, number)};
  const OwnedShard& shard = shards_[number];
  const SegmentedRows& all = segments[static_cast<size_t>(shard.slice)];
  const auto order = orders_.find(shard.slice);
  const View<const int64_t> rows = order != orders_.end()
                                       ? View<const int64_t>(order->second.rows())
                                       : all.rows.subspan(0, static_cast<size_t>(all.count[0]));
  const auto first = rows.begin(), last = rows.end();
  const auto at = [&](int64_t row) {
    return std::lower_bound(first, last, row - piece.shard_rows.begin) - first;
  };
  return {at(interval.rows.begin), at(interval.rows.end)};
}

void SquareSums::start(const SegmentBuffers& segments, const OwnerSide& owner) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (!shards_[s].columns_cut) continue;
    const SegmentedRows& all = segments[static_cast<size_t>(shards_[s].slice)];
    ops_.row_square_sums(all.count, gradients(s), shard_sums_.sums(s), shards_[s].store->table(),
                         all.rows);
  }
  context_.device.host_visible_memory() ? order_rows(segments) : order_on_device(owner, true);
  lay_out(segments, owner);
  list_additions(segments, owner);
  ops_.copy_blocks(copies_);
  bytes_sent_ += layout_.send_total();
  pending_ = comm_->start_alltoallv(send_.data(), receive_.data(), layout_, &context_.stream);
}

BlockCopy SquareSums::copy_of(const float* from, float* to, int64_t count) const {
  BlockCopy copy;
  copy.src = from;
  copy.dst = to;
  copy.rows = 1;
  copy.cols = copy.src_stride = copy.dst_stride = count;
  return copy;
}

void SquareSums::lay_out(const SegmentBuffers& segments, const OwnerSide& owner) {
  int64_t total = 0;
  for (const Interval& interval : intervals_) {
    total += segments_of(interval, interval.pieces[interval.own], segments, owner).size() *
             static_cast<int64_t>(interval.pieces.size());
  }
  const auto world = static_cast<size_t>(comm_->size());
  send_.reserve(static_cast<size_t>(total) * world);
  receive_.reserve(static_cast<size_t>(total));
  copies_.clear();
  int64_t sent = 0, received = 0;  // elements
  for (size_t q = 0; q < world; ++q) {
    const int64_t sent_before = sent, received_before = received;
    const bool self = static_cast<int>(q) == comm_->rank();
    for (Interval& interval : intervals_) {
      const int64_t rows =
          segments_of(interval, interval.pieces[interval.own], segments, owner).size();
      const bool theirs =
          !self && std::any_of(interval.pieces.begin(), interval.pieces.end(),
                               [&](const Piece& p) { return p.owner == static_cast<int>(q); });
      if (!theirs) continue;
      for (Piece& piece : interval.pieces) {
        if (piece.owner == static_cast<int>(q)) {
          piece.received = receive_.data() + received;
          received += rows;
        } else if (piece.local_shard >= 0) {
          const auto shard = static_cast<size_t>(piece.local_shard);
          copies_.push_back(
              copy_of(row_sums(shard).data() + segments_of(interval, piece, segments, owner).begin,
                      send_.data() + sent, rows));
          sent += rows;
        }
      }
    }
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    layout_.send_bytes[q] = (sent - sent_before) * kBytes;
    layout_.send_offsets[q] = sent_before * kBytes;
    layout_.receive_bytes[q] = (received - received_before) * kBytes;
    layout_.receive_offsets[q] = received_before * kBytes;
  }
}

void SquareSums::list_additions(const SegmentBuffers& segments, const OwnerSide& owner) {
  sums_added_.clear();
  for (const Interval& interval : intervals_) {
    for (const Piece& target : interval.pieces) {
      if (target.local_shard < 0) continue;
      const Range part = segments_of(interval, target, segments, owner);
      for (const Piece& piece : interval.pieces) {
        const float* from = piece.received;
        if (piece.local_shard >= 0) {
          const auto shard = static_cast<size_t>(piece.local_shard);
          from = row_sums(shard).data() + segments_of(interval, piece, segments, owner).begin;
        }
        float* to = shard_sums_.totals(static_cast<size_t>(target.local_shard)).data() + part.begin;
        BlockCopy copy = copy_of(from, to, part.size());
        copy.accumulate = &piece != &interval.pieces.front();
        sums_added_.push_back(copy);
      }
    }
  }
}

void SquareSums::order_rows(const SegmentBuffers& segments) {
  orders_.clear();
  for (size_t s = 0; s < shards_.size(); ++s) {
    const OwnedShard& shard = shards_[s];
    const int64_t* row_of = shard.store->table().row_of;
    if (!shard.columns_cut || !row_of) continue;
    const SegmentedRows& all = segments[static_cast<size_t>(shard.slice)];
    const auto slots = all.rows.subspan(0, static_cast<size_t>(all.count[0]));
    orders_.try_emplace(shard.slice, slots, row_of).first->second.to_rows(shard_sums_.sums(s));
  }
}

void SquareSums::order_on_device(const OwnerSide& owner, bool to_rows) {
  if (!orders_on_device_) return;
  orders_copied_.clear();
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (order_of_[s] < 0) continue;
    const OwnerSide::RowOrders& order = owner.orders[static_cast<size_t>(order_of_[s])];
    const View<float> from = to_rows ? shard_sums_.sums(s) : shard_sums_.totals(s);
    const View<float> to = to_rows ? shard_sums_.ordered(s) : shard_sums_.sums(s);
    BlockCopy copy;
    copy.src = from.data();
    copy.dst = to.data();
    copy.rows = static_cast<int64_t>(to.size());
    copy.cols = copy.src_stride = copy.dst_stride = 1;
    copy.src_rows = to_rows ? order.device_by_row : order.device_by_slot;
    orders_copied_.push_back(copy);
  }
  ops_.copy_blocks(orders_copied_);
}

void SquareSums::finish(const OwnerSide& owner) {
  pending_.wait(context_.stream);
  ops_.copy_blocks(sums_added_);
  order_on_device(owner, false);
  for (size_t s = 0; s < shards_.size(); ++s) {
    const auto order = orders_.find(shards_[s].slice);
    if (shards_[s].columns_cut && order != orders_.end()) {
      order->second.to_slots(shard_sums_.totals(s));
    }
  }
}

}  // namespace dlrm
