#include <algorithm>
#include <numeric>

#include "checked/checked_ops.h"
#include "checked/host_bags.h"
#include "checked/host_runs.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

void expect_equal(const Subject& s, const char* what, int64_t i, int64_t got, int64_t expected) {
  if (got == expected) return;
  disagree(s, fmt::format("{} {}", what, i), static_cast<double>(got),
           static_cast<double>(expected));
}

std::string runs_shape(int64_t count, int64_t occurrences, int64_t width) {
  return fmt::format("of {} rows x {} named {} times", count, width, occurrences);
}

}  // namespace

/// bound(bags, bag, column): the error that an element may have.
template <class Forward, class Bound>
void CheckedOps::check_pooled(const Forward& o, const Bound& bound) {
  chosen_->run(o);
  for (size_t i = 0; i < o.groups.size(); ++i) {
    const BagGroup& g = o.groups[i];
    if (g.bags == 0) continue;
    const Copy want(g.bags, g.table.width, g.pooled.type);
    const HostBags bags(host_, g);
    const BagGroup again = bags.group(want);
    reference_.run(Forward{{&again, 1}});
    expect_close(subject(Forward::kName, fmt::format("group {} of {}, [{} x {}]", i,
                                                     o.groups.size(), g.bags, g.table.width)),
                 "pooled", host_.of(g.pooled).matrix(), want.matrix(),
                 [&](int64_t r, int64_t c) { return bound(bags, r, c); });
  }
}

void CheckedOps::check(const EmbeddingBagForward& o) {
  check_pooled(o, [](const HostBags& bags, int64_t r, int64_t c) {
    return summing(bags.size(r), bags.magnitude(r, c));
  });
}

void CheckedOps::check(const MaxBagForward& o) {
  check_pooled(o, [](const HostBags&, int64_t, int64_t) { return 0.0; });
}

void CheckedOps::check(const GroupRows& o) {
  const auto& [groups, rows, runs] = o;
  chosen_->run(o);
  check_groups(groups, rows, runs);
}

void CheckedOps::check(const GroupShardRows& o) {
  const auto& [shards, progress] = o;
  chosen_->run(o);
  for (const UpdatedShard& shard : shards) check_groups(shard.groups, shard.table.rows, shard.runs);
}

void CheckedOps::check_groups(View<const IdGroup> groups, int64_t rows, const SegmentedRows& runs) {
  std::vector<std::vector<int64_t>> lists;
  std::vector<std::vector<float>> weights;
  std::vector<IdGroup> again(groups.begin(), groups.end());
  size_t room = 0;
  for (IdGroup& g : again) {
    if (g.bags == 0) continue;
    std::vector<int64_t> offsets = host_.list(g.offsets, g.bags + 1);
    const int64_t first = offsets.front(), size = offsets.back() - first;
    for (int64_t& at : offsets) at -= first;
    lists.push_back(host_.list(g.ids + first, size));
    g.ids = lists.back().data();
    lists.push_back(std::move(offsets));
    g.offsets = lists.back().data();
    if (g.weights) weights.push_back(host_.list(g.weights + first, size));
    if (g.weights) g.weights = weights.back().data();
    room += static_cast<size_t>(size);
  }
  std::vector<int64_t> want_rows(room), starts(room + 1), count(1);
  std::vector<Occurrence> occurrences(room);
  std::vector<float> want_weights(runs.weights.empty() ? 0 : room);
  reference_.group_rows(again, rows, {want_rows, starts, occurrences, count, want_weights});
  const Subject s =
      subject("group_rows", fmt::format("of {} groups over {} rows", groups.size(), rows));
  expect_equal(s, "count", 0, host_.of(runs.count.first(1))[0], count[0]);
  const auto unique = static_cast<size_t>(count[0]);
  const std::vector<int64_t> got_starts = host_.of(runs.starts.first(unique + 1));
  const std::vector<int64_t> got_rows = host_.of(runs.rows.first(unique));
  const std::vector<Occurrence> got = host_.of(runs.occurrences.first(room));
  const std::vector<float> got_weights = host_.of(runs.weights.first(want_weights.size()));
  for (size_t i = 0; i <= unique; ++i) {
    const auto at = static_cast<int64_t>(i);
    expect_equal(s, "start", at, got_starts[i], starts[i]);
    if (i < unique) expect_equal(s, "row", at, got_rows[i], want_rows[i]);
  }
  for (size_t k = 0; k < room; ++k) {
    const auto at = static_cast<int64_t>(k);
    expect_equal(s, "group of occurrence", at, got[k].group, occurrences[k].group);
    expect_equal(s, "bag of occurrence", at, got[k].bag, occurrences[k].bag);
    if (want_weights.empty() || got_weights[k] == want_weights[k]) continue;
    disagree(s, fmt::format("weight of occurrence {}", at), got_weights[k], want_weights[k]);
  }
}

void CheckedOps::check_backward(const Subject& subject, const SegmentedRows& runs,
                                View<const BagGradient> gradients,
                                const MatrixView<const float>& grads) {
  HostRuns again(host_, runs);
  const HostGradients from(host_, gradients);
  const int64_t count = again.count[0];
  const Copy want(count, grads.cols, DType::kFloat32), sizes(count, grads.cols, DType::kFloat32);
  reference_.embedding_bag_backward(again.view(), from.plain, want.floats());
  std::vector<float> weights;
  reference_.embedding_bag_backward(again.sized(weights), from.sized, sizes.floats());
  expect_close(subject, "gradient", host_.of(grads.row_range(0, count)).matrix(), want.matrix(),
               [&](int64_t r, int64_t c) {
                 const auto i = static_cast<size_t>(r);
                 return summing(again.starts[i + 1] - again.starts[i], sizes.at(r, c));
               });
}

void CheckedOps::check(const EmbeddingBagBackward& o) {
  const auto& [runs, gradients, grads] = o;
  chosen_->run(o);
  const HostRuns named(host_, runs);
  check_backward(subject("embedding_bag_backward",
                         runs_shape(named.count[0], named.starts.back(), grads.cols)),
                 runs, gradients, grads);
}

void CheckedOps::check(const RowSquareSums& o) {
  const auto& [count, grads, sums, table, rows] = o;
  std::vector<float> want = host_.of(sums);  // the rest stays
  chosen_->run(o);
  const auto n = static_cast<size_t>(host_.of(count.first(1))[0]);
  const auto size = static_cast<int64_t>(n);
  // The rows with a penalty, one after another.
  RowTable applied = table;
  std::vector<int64_t> named;
  Copy weights(0, 0, DType::kFloat32);
  if (table.l2 != 0) {
    const Matrix all(table.weights, table.type, table.rows, grads.cols, table.stride);
    weights = host_.rows(all, host_.of(rows.first(n)));
    applied.weights = weights.matrix().data;
    applied.stride = grads.cols;
    named.resize(n);
    std::iota(named.begin(), named.end(), int64_t{0});
  }
  const Copy gradients = host_.of(grads.row_range(0, size));
  reference_.row_square_sums({&size, 1}, gradients.floats(), want, applied, named);
  const std::vector<float> got = host_.of(sums);
  for (size_t i = 0; i < got.size(); ++i) {
    if (agree(got[i], want[i], i < n ? 1e-5 * double{want[i]} : 0)) continue;
    disagree(subject("row_square_sums", runs_shape(size, size, grads.cols)),
             fmt::format("sum {}", i), got[i], want[i]);
  }
}

void CheckedOps::check(const SparseUpdate& o) {
  const auto& [step, table, rows, count, grads, square_sums, full_width] = o;
  const HostStep now(host_, step);
  const auto n = static_cast<size_t>(host_.of(count.first(1))[0]);
  const std::vector<int64_t> named = host_.of(rows.first(n));
  const RowCopies before(host_, *now, table, named);
  RowCopies want = before;
  chosen_->run(o);
  const auto size = static_cast<int64_t>(n);
  const Copy applied = host_.of(grads.row_range(0, size));
  want.update(reference_, *now, applied.floats(), host_.of(square_sums), full_width);
  want.compare(subject("sparse_update", runs_shape(size, size, table.width)), *now,
               RowCopies(host_, *now, table, named), before);
}

void CheckedOps::check(const EmbeddingBagUpdate& o) {
  const auto& [step, table, runs, gradients] = o;
  const UpdatedShard shard{table, {}, gradients, runs};
  check_updates("embedding_bag_update", step, {&shard, 1}, [&] { chosen_->run(o); });
}

void CheckedOps::check(const UpdateShards& o) {
  const auto& [step, shards, progress] = o;
  check_updates("embedding_bag_updates", step, shards, [&] { chosen_->run(o); });
}

/// The fused update must give the bits of its two halves. Each half is compared separately: first
/// the sums, then the rule applied to the sums that the device computed.
void CheckedOps::check_updates(const char* operation, const OptimizerStep& step,
                               View<const UpdatedShard> shards,
                               const std::function<void()>& chosen) {
  struct Update {
    Subject subject;
    HostRuns runs;
    Copy grads;
    RowCopies before, want;
  };
  const HostStep now(host_, step);
  std::vector<Update> updates;
  for (const UpdatedShard& shard : shards) {
    HostRuns runs(host_, shard.runs);
    const int64_t count = runs.count[0], width = shard.table.width;
    const Subject s = subject(operation, runs_shape(count, runs.starts.back(), width));
    const Array<float> sums(device_, static_cast<size_t>(count * width), "checked gradients");
    const MatrixView<float> grads(sums.data(), count, width);
    chosen_->embedding_bag_backward(shard.runs, shard.gradients, grads);
    check_backward(s, shard.runs, shard.gradients, grads);
    RowCopies before(host_, *now, shard.table, runs.rows);
    updates.push_back({s, std::move(runs), host_.of(grads), before, before});
  }
  chosen();
  for (size_t i = 0; i < shards.size(); ++i) {
    Update& u = updates[i];
    u.want.update(reference_, *now, u.grads.floats(), {}, shards[i].table.width);
    u.want.compare(u.subject, *now, RowCopies(host_, *now, shards[i].table, u.runs.rows), u.before);
  }
}

}  // namespace dlrm::checked
