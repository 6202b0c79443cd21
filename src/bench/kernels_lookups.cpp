// Pooled lookups, and the backward pass with Adagrad, over tables far larger than caches.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "dlrm/data/synthetic_draws.h"

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

constexpr double kZipf = 1.05;

constexpr const char* kLookups[] = {"lookup fp32", "lookup bf16"};
constexpr const char* kGroup = "group rows";
constexpr const char* kUpdate = "update adagrad";
constexpr const char* kBoth = "group and update";
constexpr const char* kWorks[] = {kLookups[0], kLookups[1], kGroup, kUpdate, kBoth};

std::string row_name(const char* work, const std::string& law) {
  return fmt::format("{}, {} ids", work, law);
}

/// The ids of all tables, and how many different rows they name.
struct Ids {
  Array<int64_t> ids;
  double unique = 0;
};

Ids draw(KernelClock& clock, double alpha) {
  const KernelSizes& s = clock.options.sizes;
  const int64_t a_table = s.batch * s.hotness;
  const PowerLaw law(s.rows, alpha);
  std::vector<int64_t> ids(static_cast<size_t>(s.tables * a_table));
  Ids drawn;
  for (int64_t t = 0; t < s.tables; ++t) {
    int64_t* part = ids.data() + t * a_table;
    draw_ids(law, 7, static_cast<uint32_t>(t), 0, a_table, part);
    std::vector<bool> named(static_cast<size_t>(s.rows));
    for (int64_t i = 0; i < a_table; ++i) {
      auto row = named[static_cast<size_t>(part[i])];
      drawn.unique += row ? 0 : 1;
      row = true;
    }
  }
  drawn.ids = clock.filled(ids, "ids");
  return drawn;
}

/// Tables with Adagrad's state, side by side in two arrays.
class Tables {
 public:
  Tables(KernelClock& clock, DType type, bool state)
      : sizes_(clock.options.sizes),
        type_(type),
        weights_(clock.numbers(sizes_.tables * sizes_.rows, sizes_.width, type, "tables")),
        state_(clock.device,
               state ? static_cast<size_t>(sizes_.tables * sizes_.rows * sizes_.width) : 0,
               "optimizer state") {}

  RowTable table(int64_t t) const {
    const int64_t first = t * sizes_.rows * sizes_.width;
    RowTable table;
    table.weights = weights_.data() + first * static_cast<int64_t>(size_of(type_));
    table.type = type_;
    table.rows = sizes_.rows;
    table.width = table.stride = table.state_stride = sizes_.width;
    if (state_.size() > 0) table.state1 = state_.data() + first;
    return table;
  }

 private:
  const KernelSizes& sizes_;
  DType type_;
  Array<char> weights_;
  Array<float> state_;
};

/// Every bag has `hotness` ids.
Array<int64_t> bag_offsets(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i <= s.batch; ++i) offsets.push_back(i * s.hotness);
  return clock.filled(offsets, "offsets");
}

std::string shape_of(const KernelSizes& s) {
  return fmt::format("{} x {} x {} x {}", s.tables, s.batch, s.hotness, s.width);
}

double all_ids(const KernelSizes& s) { return static_cast<double>(s.tables * s.batch * s.hotness); }

/// Bytes: a row for each id, though a cache may hold the hot ones.
void time_lookup(KernelClock& clock, DType type, const std::string& law, const Ids& ids,
                 double goal) {
  const KernelSizes& s = clock.options.sizes;
  KernelRow row{.name = row_name(kLookups[type == DType::kFloat32 ? 0 : 1], law),
                .shape = shape_of(s)};
  if (!clock.wants(row.name)) return;
  const Tables tables(clock, type, false);
  const Array<int64_t> offsets = bag_offsets(clock);
  const Array<float> pooled(clock.device, static_cast<size_t>(s.tables * s.batch * s.width),
                            "pooled rows");
  std::vector<BagGroup> groups;
  for (int64_t t = 0; t < s.tables; ++t) {
    BagGroup g;
    g.table = tables.table(t);
    g.ids = ids.ids.data() + t * s.batch * s.hotness;
    g.offsets = offsets.data();
    g.bags = s.batch;
    g.pooled = {pooled.data() + t * s.width, s.batch, s.width, s.tables * s.width};
    groups.push_back(g);
  }
  const auto width = static_cast<double>(s.width);
  row.goal = goal;
  row.bytes = all_ids(s) * (width * static_cast<double>(size_of(type)) + 8) +
              static_cast<double>(s.tables * s.batch) * (width * 4 + 8);
  clock.time(row, [&] { clock.ops.embedding_bag_forward(groups); });
}

/// Shards whose gradients lie as E does.
struct Updates {
  Array<int64_t> offsets, rows, starts, count;
  Array<Occurrence> occurrences;
  Array<char> gradients;
  std::vector<IdGroup> groups;
  std::vector<BagGradient> bags;
  std::vector<ShardUpdate> shards;

  Updates(KernelClock& clock, const Tables& tables, const Ids& ids) {
    const KernelSizes& s = clock.options.sizes;
    const int64_t a_table = s.batch * s.hotness, columns = s.tables * s.width;
    const auto all = static_cast<size_t>(s.tables * a_table);
    offsets = bag_offsets(clock);
    rows = {clock.device, all, "rows"};
    starts = {clock.device, all + static_cast<size_t>(s.tables), "starts"};
    count = {clock.device, static_cast<size_t>(s.tables), "counts"};
    occurrences = {clock.device, all, "occurrences"};
    gradients = clock.numbers(s.batch, columns, DType::kFloat32, "gradients");
    const auto* g = reinterpret_cast<const float*>(gradients.data());
    for (int64_t t = 0; t < s.tables; ++t) {
      groups.push_back({ids.ids.data() + t * a_table, offsets.data(), s.batch, a_table});
      bags.push_back({{g + t * s.width, s.batch, s.width, columns}, nullptr});
    }
    const auto part = static_cast<size_t>(a_table);
    for (size_t t = 0; t < groups.size(); ++t) {
      ShardUpdate shard;
      shard.table = tables.table(static_cast<int64_t>(t));
      shard.groups = {&groups[t], 1};
      shard.gradients = {&bags[t], 1};
      shard.runs = {rows.view().subspan(t * part, part),
                    starts.view().subspan(t * (part + 1), part + 1),
                    occurrences.view().subspan(t * part, part), count.view().subspan(t, 1)};
      shards.push_back(shard);
    }
  }
};

/// Bytes: a gradient for each id, weight and state of each different row read and written, and
/// the list of occurrences; of grouping, ids and list once.
void time_update(KernelClock& clock, const std::string& law, const Ids& ids) {
  const std::string updated = row_name(kUpdate, law);
  const std::string grouped = row_name(kGroup, law);
  const std::string both = row_name(kBoth, law);
  if (!clock.wants(updated) && !clock.wants(grouped) && !clock.wants(both)) return;
  const KernelSizes& s = clock.options.sizes;
  const Tables tables(clock, DType::kFloat32, true);
  const Updates updates(clock, tables, ids);
  const auto nothing = [] {};
  const auto group = [&] { clock.ops.group_rows_of(updates.shards, nothing); };
  OptimizerStep step;
  step.rule = OptimizerStep::Rule::kAdagrad;
  step.lr = 1e-3f;
  step.eps = 1e-8f;
  const auto update = [&] { clock.ops.embedding_bag_updates(step, updates.shards, nothing); };

  const double row_bytes = 4.0 * static_cast<double>(s.width);
  KernelRow row{.name = grouped, .shape = shape_of(s)};
  row.bytes = all_ids(s) * 16 + ids.unique * 16;
  clock.time(row, group);
  group();
  row.name = updated;
  row.bytes = all_ids(s) * (row_bytes + 8) + ids.unique * (4 * row_bytes + 16);
  row.goal = 0.7;
  clock.time(row, update);
  row.name = both;
  row.goal = 0;
  clock.time(row, [&] {
    group();
    update();
  });
}

}  // namespace

void time_lookups(KernelClock& clock) {
  const std::vector<std::pair<std::string, double>> laws = {{"uniform", 0}, {"zipf", kZipf}};
  for (const auto& [law, alpha] : laws) {
    const auto wanted = [&](const char* work) { return clock.wants(row_name(work, law)); };
    if (std::none_of(std::begin(kWorks), std::end(kWorks), wanted)) continue;
    const Ids ids = draw(clock, alpha);
    time_lookup(clock, DType::kFloat32, law, ids, alpha == 0 ? 0.8 : 0);
    time_lookup(clock, DType::kBFloat16, law, ids, 0);
    time_update(clock, law, ids);
  }
}

}  // namespace dlrm::bench
