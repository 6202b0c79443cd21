// Operations keep lists and memory between calls. An earlier call must change no bit of a later
// one.
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bags.h"

namespace dlrm {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T* values, size_t count) {
  const auto* from = reinterpret_cast<const std::byte*>(values);
  bytes.insert(bytes.end(), from, from + count * sizeof(T));
}
void append(Bytes& bytes, const Cells& cells) {
  for (int64_t r = 0; r < cells.rows(); ++r) {
    for (int64_t c = 0; c < cells.cols(); ++c) {
      const float value = cells.at(r, c);
      append(bytes, &value, 1);
    }
  }
  const bool untouched = cells.margins_untouched();
  append(bytes, &untouched, 1);
}

/// Two shards with ids of two features each. Of the second, one feature has no bags.
struct Shards {
  Bags bags[4];
  Table tables[2];
  Cells gradients[4];
  std::vector<IdGroup> groups[2];
  std::vector<BagGradient> parts[2];
  RunSpace spaces[2];
  std::vector<UpdatedShard> shards;

  Shards(int64_t n, DType type)
      : bags{Bags::random(n, 40, 2, 1), Bags::random(n / 2 + 1, 40, 3, 2, false, true),
             Bags::random(n, 9, 1, 3), Bags::random(0, 9, 1, 4)},
        tables{Table(40, 12, type, 5), Table(9, 12, type, 6)},
        gradients{Cells::random(n, 12, 7), Cells::random(n / 2 + 1, 12, 8), Cells::random(n, 12, 9),
                  Cells(0, 12)},
        spaces{RunSpace(bags[0].nnz() + bags[1].nnz()), RunSpace(bags[2].nnz())} {
    for (size_t f = 0; f < 4; ++f) {
      groups[f / 2].push_back(bags[f].group());
      parts[f / 2].push_back({gradients[f].floats(), nullptr});
    }
    for (size_t s = 0; s < 2; ++s) {
      shards.push_back(
          {tables[s].rows(OptimizerRule::kAdam), groups[s], parts[s], spaces[s].runs()});
    }
  }
};

Bytes pooled(Ops& ops, int64_t n) {
  Bytes bytes;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Shards all(n, type);
    std::vector<Cells> results;
    std::vector<BagGroup> groups;
    for (size_t f = 0; f < 4; ++f) results.emplace_back(all.bags[f].count(), 12);
    for (size_t f = 0; f < 4; ++f) {
      groups.push_back(all.bags[f].lookup(all.tables[f / 2].rows(), results[f].floats()));
    }
    ops.embedding_bag_forward(groups);
    for (const Cells& result : results) append(bytes, result);
  }
  return bytes;
}

Bytes updated(Ops& ops, int64_t n) {
  Bytes bytes;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Shards all(n, type);
    ops.group_rows_of(all.shards, [] {});
    for (size_t s = 0; s < 2; ++s) {
      const auto count = static_cast<size_t>(all.spaces[s].count[0]);
      append(bytes, all.spaces[s].rows.data(), count);
      append(bytes, all.spaces[s].starts.data(), count + 1);
      Cells sums(static_cast<int64_t>(count), 12);
      ops.embedding_bag_backward(all.spaces[s].runs(), all.parts[s], sums.floats());
      append(bytes, sums);
    }
    ops.embedding_bag_updates(step_of(OptimizerRule::kAdam), all.shards, [] {});
    for (Table& table : all.tables) {
      append(bytes, table.weights);
      append(bytes, table.state1);
      append(bytes, table.state2);
    }
  }
  return bytes;
}

Bytes listed(Ops& ops, int64_t n) {
  Bytes bytes;
  Bags bags = Bags::random(n, 30, 3, 1);
  bags.ids[bags.ids.size() / 2] = 31;
  IdCheck check;
  check.ids = bags.ids.data(), check.offsets = bags.offsets.data(), check.bags = n;
  check.capacity = bags.nnz(), check.rows = 30, check.feature = 2;
  std::vector<float> flag = {0};
  std::vector<int64_t> where = {0, 0, 0};
  const IdCheck lists[] = {{}, check};
  ops.check_ids(lists, flag, where);
  append(bytes, where.data(), 3);
  append(bytes, bags.ids.data(), bags.ids.size());

  std::vector<int32_t> lengths;
  for (int64_t b = 0; b < n; ++b) lengths.push_back(static_cast<int32_t>(bags.of(b).size()));
  IdPart parts[2];
  parts[1].ids = bags.ids.data(), parts[1].lengths = lengths.data(), parts[1].bags = n;
  std::vector<int64_t> kept(bags.ids.size()), offsets(static_cast<size_t>(n) + 1);
  const IdFilter filter{parts, 5, 9, kept.data(), offsets.data()};
  ops.filter_ids({&filter, 1});
  kept.resize(static_cast<size_t>(offsets.back()));
  append(bytes, kept.data(), kept.size());
  append(bytes, offsets.data(), offsets.size());

  std::vector<int64_t> wide(static_cast<size_t>(n)), multiples(static_cast<size_t>(n));
  const PackedList packed[] = {
      {}, {lengths.data(), wide.data(), n, 0}, {nullptr, multiples.data(), n, 3}};
  ops.unpack(packed);
  append(bytes, wide.data(), wide.size());
  append(bytes, multiples.data(), multiples.size());

  return bytes;
}

Bytes layered(Ops& ops, int64_t n) {
  Bytes bytes;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t outputs : {1, 10}) {
      Cells x = Cells::random(n, 12, 1, type), w = Cells::random(outputs, 12, 2, type);
      Cells y(n, outputs, type), dy = Cells::random(n, outputs, 3, type), dx(n, 12, type);
      Cells dw(outputs, 12);
      std::vector<float> bias(static_cast<size_t>(outputs), 0.5f), dbias(bias.size());
      ops.linear_forward(x.matrix(), w.matrix(), bias, Activation::kRelu, y.matrix(), {});
      ops.linear_backward_input(dy.matrix(), w.matrix(), dx.matrix());
      ops.linear_backward_weight(dy.matrix(), x.matrix(), dw.floats(), dbias);
      for (const Cells* cells : {&y, &dx, &dw}) append(bytes, *cells);
      append(bytes, dbias.data(), dbias.size());
    }
  }
  Cells logits = Cells::random(n, 1, 4), dlogits(n, 1);
  std::vector<float> labels(static_cast<size_t>(n), 1), weights(labels.size(), 0.3f), bad = {0};
  std::vector<double> loss = {0};
  ops.bce_with_logits(logits.matrix(), {labels, weights}, 0.25f, loss, dlogits.matrix());
  append(bytes, loss.data(), 1);
  append(bytes, dlogits);
  ops.find_non_finite(logits.matrix(), bad);
  append(bytes, bad.data(), 1);
  return bytes;
}

Bytes copied(Ops& ops, int64_t n) {
  Bytes bytes;
  Cells from = Cells::random(n, 12, 1), to(n, 40);
  std::vector<BlockCopy> blocks(4);
  for (size_t i = 0; i < 4; ++i) {
    BlockCopy& b = blocks[i];
    b.src = from.matrix().data, b.src_stride = from.stride();
    b.dst = to.matrix().element(0, static_cast<int64_t>(i) / 2 * 12), b.dst_stride = to.stride();
    b.rows = n, b.cols = 12, b.accumulate = i % 2 == 1;
  }
  blocks[3].rows = n / 2;
  ops.fill_zero(to.matrix().data, to.stride() * 4 * (n - 1) + 160);
  ops.copy_blocks(blocks);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < 24; ++c) {
      const float value = to.at(r, c);
      append(bytes, &value, 1);
    }
  }
  return bytes;
}

using Again = EveryExecution;

TEST_P(Again, EarlierCallsOfOtherSizesChangeNoBit) {
  const std::pair<const char*, std::function<Bytes(Ops&, int64_t)>> calls[] = {{"lookups", pooled},
                                                                               {"updates", updated},
                                                                               {"lists", listed},
                                                                               {"layers", layered},
                                                                               {"copies", copied}};
  for (const auto& [name, call] : calls) {
    const auto used = machine.run_as(GetParam());
    for (const int64_t n : {7, 700, 1, 33, 7}) {
      const auto fresh = machine.run_as(GetParam());
      EXPECT_TRUE(call(*used, n) == call(*fresh, n)) << name << " of " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Again, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
