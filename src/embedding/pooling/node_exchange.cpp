#include "node_exchange.h"

#include <algorithm>

namespace dlrm {

NodeExchange::NodeExchange(Context& context, const EmbeddingLayout& layout)
    : mine_(layout.owner(context.comm.rank())),
      comm_(context.device_comm().duplicate()),
      partial_(context.device, 0, "partial vectors"),
      summed_(context.device, 0, "sums of partial vectors"),
      own_(comm_->shared_memory(context.device)),
      others_(comm_->shared_memory(context.device)) {
  for (size_t s = 0; s < mine_.sums.size(); ++s) {
    const SummedBlock& sum = mine_.sums[s];
    const Range own = sum.parts[sum.place];
    summed_at_.push_back(summed_width_);
    summed_width_ += own.size();
    for (size_t i = 0; i < sum.ranks.size(); ++i) {
      if (i == sum.place) continue;
      own_.links.push_back({static_cast<int>(s), sum.ranks[i], i, own});
      others_.links.push_back({static_cast<int>(s), sum.ranks[i], i, sum.parts[i]});
    }
  }
  place(own_);
  place(others_);
}

/// Orders the links of each rank as that rank does.
void NodeExchange::place(Side& side) const {
  const auto ranks = static_cast<size_t>(comm_->size());
  std::stable_sort(side.links.begin(), side.links.end(),
                   [](const Link& a, const Link& b) { return a.rank < b.rank; });
  side.widths.assign(ranks, 0);
  side.offsets.assign(ranks, 0);
  for (const Link& link : side.links)
    side.widths[static_cast<size_t>(link.rank)] += link.part.size();
  for (size_t p = 0; p < ranks; ++p) {
    side.offsets[p] = side.width;
    side.width += side.widths[p];
  }
  int64_t at = 0;
  for (Link& link : side.links) {
    link.at = at;
    at += link.part.size();
  }
}

void NodeExchange::begin(int64_t samples) {
  samples_ = samples;
  const auto reserve = [&](Array<float>& values, int64_t width) {
    values.reserve(static_cast<size_t>(samples * width));
  };
  reserve(partial_, mine_.partial_width);
  reserve(summed_, summed_width_);
  reserve(own_.values, own_.width);
  reserve(others_.values, others_.width);
}

Matrix NodeExchange::partial(int sum, int64_t first, int64_t bags) const {
  return partial_columns(block(sum), {0, block(sum).width}).row_range(first, bags);
}

MatrixView<float> NodeExchange::summed(int sum) const {
  const SummedBlock& of = block(sum);
  return {summed_.data() + samples_ * summed_at_[static_cast<size_t>(sum)], samples_,
          of.parts[of.place].size()};
}

MatrixView<float> NodeExchange::columns(const Side& side, const Link& link) const {
  return {side.values.data() + samples_ * link.at, samples_, link.part.size()};
}

MatrixView<float> NodeExchange::partial_columns(const SummedBlock& sum, Range part) const {
  return {partial_.data() + sum.column + part.begin, samples_, part.size(), mine_.partial_width};
}

void NodeExchange::copy(MatrixView<float> from, MatrixView<float> to, bool accumulate) {
  if (to.rows == 0 || to.cols == 0) return;
  BlockCopy copy;
  copy.src = from.data;
  copy.src_stride = from.stride;
  copy.dst = to.data;
  copy.dst_stride = to.stride;
  copy.rows = to.rows;
  copy.cols = to.cols;
  copy.accumulate = accumulate;
  copies_.push_back(copy);
}

void NodeExchange::start(const Side& from, Side& to, int64_t& bytes, Stream& stream) {
  const auto of_batch = [&](const std::vector<int64_t>& floats, std::vector<int64_t>& sizes) {
    sizes.clear();
    for (const int64_t n : floats) {
      sizes.push_back(n * samples_ * static_cast<int64_t>(sizeof(float)));
    }
  };
  of_batch(from.widths, layout_.send_bytes);
  of_batch(from.offsets, layout_.send_offsets);
  of_batch(to.widths, layout_.receive_bytes);
  of_batch(to.offsets, layout_.receive_offsets);
  bytes += layout_.send_total();
  pending_ = comm_->start_alltoallv(from.values.data(), to.values.data(), layout_, &stream);
}

void NodeExchange::start_sums(Ops& ops, Stream& stream) {
  copies_.clear();
  for (const Link& link : others_.links) {
    copy(partial_columns(block(link.sum), link.part), columns(others_, link));
  }
  if (!copies_.empty()) ops.copy_blocks(copies_);
  start(others_, own_, pooled_bytes_, stream);
}

void NodeExchange::finish_sums(Ops& ops, Stream& stream) {
  pending_.wait(stream);
  // By entry, then by rows.
  std::vector<std::vector<MatrixView<float>>> addends(mine_.sums.size());
  for (size_t s = 0; s < addends.size(); ++s) {
    const SummedBlock& sum = mine_.sums[s];
    addends[s].resize(sum.ranks.size());
    addends[s][sum.place] = partial_columns(sum, sum.parts[sum.place]);
  }
  for (const Link& link : own_.links) {
    addends[static_cast<size_t>(link.sum)][link.place] = columns(own_, link);
  }
  copies_.clear();
  for (size_t s = 0; s < addends.size(); ++s) {
    for (size_t i = 0; i < addends[s].size(); ++i) {
      copy(addends[s][i], summed(static_cast<int>(s)), i > 0);
    }
  }
  if (!copies_.empty()) ops.copy_blocks(copies_);
}

void NodeExchange::start_gradients(Ops& ops, Stream& stream) {
  copies_.clear();
  for (const Link& link : own_.links) copy(summed(link.sum), columns(own_, link));
  if (!copies_.empty()) ops.copy_blocks(copies_);
  start(own_, others_, gradient_bytes_, stream);
}

void NodeExchange::finish_gradients(Ops& ops, Stream& stream) {
  pending_.wait(stream);
  copies_.clear();
  for (size_t s = 0; s < mine_.sums.size(); ++s) {
    const SummedBlock& sum = mine_.sums[s];
    copy(summed(static_cast<int>(s)), partial_columns(sum, sum.parts[sum.place]));
  }
  for (const Link& link : others_.links) {
    copy(columns(others_, link), partial_columns(block(link.sum), link.part));
  }
  if (!copies_.empty()) ops.copy_blocks(copies_);
}

}  // namespace dlrm
