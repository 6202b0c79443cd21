// Pooled lookups, and the backward pass with Adagrad, over tables far larger than caches.
#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "dlrm/data/synthetic_draws.h"

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

constexpr double kZipf = 1.05;
constexpr int64_t kLargeBytes = int64_t{100} << 30;
constexpr const char* kLarge = ", 100 GiB";

constexpr const char* kLookups[] = {"lookup fp32", "lookup bf16"};
constexpr const char* kGroup = "group rows";
constexpr const char* kUpdate = "update adagrad";
constexpr const char* kBoth = "group and update";
constexpr const char* kWorks[] = {kLookups[0], kLookups[1], kGroup, kUpdate, kBoth};

/// Tables of one shape, and the ids of a batch.
struct Shape {
  std::string name;  ///< after the names of rows; empty for the requested sizes
  int64_t batch = 0;
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<int64_t> hotness;  ///< by table

  int64_t tables() const { return static_cast<int64_t>(hotness.size()); }
  int64_t ids(int64_t t) const { return batch * hotness[static_cast<size_t>(t)]; }
  int64_t ids_before(int64_t t) const {
    return batch * std::accumulate(hotness.begin(), hotness.begin() + t, int64_t{0});
  }
  int64_t all_ids() const { return ids_before(tables()); }
  std::string text() const {
    const auto [least, most] = std::minmax_element(hotness.begin(), hotness.end());
    const std::string each =
        *least == *most ? fmt::format("{}", *most) : fmt::format("{}..{}", *least, *most);
    return fmt::format("{} x {} x {} x {}", tables(), batch, each, width);
  }
};

std::string row_name(const char* work, const std::string& law, const Shape& shape) {
  return fmt::format("{}, {} ids{}", work, law, shape.name);
}

/// The ids of all tables, and the number of different rows.
struct Ids {
  Array<int64_t> ids;
  double unique = 0;
};

Ids draw(KernelClock& clock, const Shape& s, double alpha) {
  const PowerLaw law(s.rows, alpha);
  std::vector<int64_t> ids(static_cast<size_t>(s.all_ids()));
  Ids drawn;
  for (int64_t t = 0; t < s.tables(); ++t) {
    int64_t* part = ids.data() + s.ids_before(t);
    draw_ids(law, 7, static_cast<uint32_t>(t), 0, s.ids(t), part);
    std::vector<bool> named(static_cast<size_t>(s.rows));
    for (int64_t i = 0; i < s.ids(t); ++i) {
      auto row = named[static_cast<size_t>(part[i])];
      drawn.unique += row ? 0 : 1;
      row = true;
    }
  }
  drawn.ids = clock.filled(ids, "ids");
  return drawn;
}

/// Tables with Adagrad's state, in two arrays.
class Tables {
 public:
  Tables(KernelClock& clock, const Shape& shape, DType type, bool state)
      : shape_(shape),
        type_(type),
        weights_(clock.numbers(shape.tables() * shape.rows, shape.width, type, "tables")),
        state_(clock.device,
               state ? static_cast<size_t>(shape.tables() * shape.rows * shape.width) : 0,
               "optimizer state") {}

  RowTable table(int64_t t) const {
    const int64_t first = t * shape_.rows * shape_.width;
    RowTable table;
    table.weights = weights_.data() + first * static_cast<int64_t>(size_of(type_));
    table.type = type_;
    table.rows = shape_.rows;
    table.width = table.stride = table.state_stride = shape_.width;
    if (state_.size() > 0) table.state1 = state_.data() + first;
    return table;
  }

 private:
  const Shape& shape_;
  DType type_;
  Array<char> weights_;
  Array<float> state_;
};

/// [tables][batch + 1]: all bags of a table have the same number of ids.
Array<int64_t> bag_offsets(KernelClock& clock, const Shape& s) {
  std::vector<int64_t> offsets;
  for (const int64_t hotness : s.hotness) {
    for (int64_t i = 0; i <= s.batch; ++i) offsets.push_back(i * hotness);
  }
  return clock.filled(offsets, "offsets");
}

/// Counts one row per id. A cache may hold frequent rows, so rates above the limit are possible.
void time_lookup(KernelClock& clock, const Shape& s, DType type, const std::string& law,
                 const Ids& ids, double goal) {
  KernelRow row{.name = row_name(kLookups[type == DType::kFloat32 ? 0 : 1], law, s),
                .shape = s.text()};
  if (!clock.wants(row.name)) return;
  const Tables tables(clock, s, type, false);
  const Array<int64_t> offsets = bag_offsets(clock, s);
  const Array<float> pooled(clock.device, static_cast<size_t>(s.tables() * s.batch * s.width),
                            "pooled rows");
  std::vector<BagGroup> groups;
  for (int64_t t = 0; t < s.tables(); ++t) {
    BagGroup g;
    g.table = tables.table(t);
    g.ids = ids.ids.data() + s.ids_before(t);
    g.offsets = offsets.data() + t * (s.batch + 1);
    g.bags = s.batch;
    g.capacity = s.ids(t);
    g.pooled = {pooled.data() + t * s.width, DType::kFloat32, s.batch, s.width,
                s.tables() * s.width};
    groups.push_back(g);
  }
  const auto width = static_cast<double>(s.width);
  row.goal = goal;
  row.bytes = static_cast<double>(s.all_ids()) * (width * static_cast<double>(size_of(type)) + 8) +
              static_cast<double>(s.tables() * s.batch) * (width * 4 + 8);
  clock.time(row, [&] { clock.ops.embedding_bag_forward(groups); });
}

/// Shards whose gradients have the layout of E.
struct Updates {
  Array<int64_t> offsets, rows, starts, count;
  Array<Occurrence> occurrences;
  Array<char> gradients;
  std::vector<IdGroup> groups;
  std::vector<BagGradient> bags;
  std::vector<ShardUpdate> shards;

  Updates(KernelClock& clock, const Shape& s, const Tables& tables, const Ids& ids) {
    const int64_t columns = s.tables() * s.width;
    const auto all = static_cast<size_t>(s.all_ids());
    offsets = bag_offsets(clock, s);
    rows = {clock.device, all, "rows"};
    starts = {clock.device, all + static_cast<size_t>(s.tables()), "starts"};
    count = {clock.device, static_cast<size_t>(s.tables()), "counts"};
    occurrences = {clock.device, all, "occurrences"};
    gradients = clock.numbers(s.batch, columns, DType::kFloat32, "gradients");
    const Matrix g(gradients.data(), DType::kFloat32, s.batch, columns);
    for (int64_t t = 0; t < s.tables(); ++t) {
      groups.push_back({ids.ids.data() + s.ids_before(t), offsets.data() + t * (s.batch + 1),
                        s.batch, s.ids(t)});
      bags.push_back({g.columns(t * s.width, s.width), nullptr});
    }
    for (size_t t = 0; t < groups.size(); ++t) {
      const auto before = static_cast<size_t>(s.ids_before(static_cast<int64_t>(t)));
      const auto part = static_cast<size_t>(s.ids(static_cast<int64_t>(t)));
      ShardUpdate shard;
      shard.table = tables.table(static_cast<int64_t>(t));
      shard.groups = {&groups[t], 1};
      shard.gradients = {&bags[t], 1};
      shard.runs = {rows.view().subspan(before, part), starts.view().subspan(before + t, part + 1),
                    occurrences.view().subspan(before, part), count.view().subspan(t, 1)};
      shards.push_back(shard);
    }
  }
};

/// Counts a gradient for each id, the weights and state of each unique row read and written, and
/// the list of occurrences. For the grouping it counts ids and the list once. `goal` is that of the
/// update.
void time_update(KernelClock& clock, const Shape& s, const std::string& law, const Ids& ids,
                 double goal) {
  const std::string updated = row_name(kUpdate, law, s);
  const std::string grouped = row_name(kGroup, law, s);
  const std::string both = row_name(kBoth, law, s);
  if (!clock.wants(updated) && !clock.wants(grouped) && !clock.wants(both)) return;
  const Tables tables(clock, s, DType::kFloat32, true);
  const Updates updates(clock, s, tables, ids);
  const auto nothing = [] {};
  const auto group = [&] { clock.ops.group_rows_of(updates.shards, nothing); };
  OptimizerStep step;
  step.rule = OptimizerRule::kAdagrad;
  step.lr = 1e-3f;
  step.eps = 1e-8f;
  const auto update = [&] { clock.ops.embedding_bag_updates(step, updates.shards, nothing); };

  const auto all = static_cast<double>(s.all_ids());
  const double row_bytes = 4.0 * static_cast<double>(s.width);
  KernelRow row{.name = grouped, .shape = s.text()};
  row.bytes = all * 16 + ids.unique * 16;
  clock.time(row, group);
  group();
  row.name = updated;
  row.bytes = all * (row_bytes + 8) + ids.unique * (4 * row_bytes + 16);
  row.goal = goal;
  clock.time(row, update);
  row.name = both;
  row.goal = 0;
  clock.time(row, [&] {
    group();
    update();
  });
}

/// Sizes of models: bags of one id (DLE), bags of 1 to 100 at a small batch (MLPerf DLRM-DCNv2),
/// narrow rows (DE), and tables larger than the GPU's TLB covers.
std::vector<Shape> shapes_of_models(const KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  const auto tables = static_cast<size_t>(s.tables);
  const std::vector<int64_t> hot(tables, s.hotness);
  std::vector<Shape> shapes = {
      {", one a bag", s.batch, s.rows, s.width, std::vector<int64_t>(tables, 1)},
      {", mixed bags",
       std::max<int64_t>(1, s.batch * 27 / 256),
       s.rows,
       s.width,
       {3, 2, 1, 2, 6, 100, 27, 10}},
      {", 16 wide", s.batch, s.rows, 16, hot},
      {", 8 wide", s.batch, s.rows, 8, hot}};
  const int64_t row_bytes = s.tables * s.width * 4;
  const auto free = static_cast<double>(clock.device.available_bytes());
  if (free > 1.15 * kLargeBytes) {
    shapes.push_back({kLarge, s.batch, kLargeBytes / row_bytes, s.width, hot});
  }
  return shapes;
}

void time_shape(KernelClock& clock, const Shape& shape) {
  const std::vector<std::pair<std::string, double>> laws = {{"uniform", 0}, {"zipf", kZipf}};
  for (const auto& [law, alpha] : laws) {
    const auto wanted = [&](const char* work) { return clock.wants(row_name(work, law, shape)); };
    if (std::none_of(std::begin(kWorks), std::end(kWorks), wanted)) continue;
    const Ids ids = draw(clock, shape, alpha);
    // Ids of a power law must be no slower than uniform ids, which move more bytes.
    const bool goals = shape.name.empty() && alpha == 0;
    time_lookup(clock, shape, DType::kFloat32, law, ids, goals ? 0.8 : 0);
    time_lookup(clock, shape, DType::kBFloat16, law, ids, 0);
    if (shape.name != kLarge) time_update(clock, shape, law, ids, goals ? 0.7 : 0);
  }
}

}  // namespace

void time_lookups(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  time_shape(clock, {"", s.batch, s.rows, s.width,
                     std::vector<int64_t>(static_cast<size_t>(s.tables), s.hotness)});
}

void time_lookups_of_models(KernelClock& clock) {
  for (const Shape& shape : shapes_of_models(clock)) time_shape(clock, shape);
}

}  // namespace dlrm::bench
