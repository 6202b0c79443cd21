#include "tables.h"

#include <algorithm>

#include "dlrm/core/dispatch.h"
#include "dlrm/core/parallel.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/checkpoint.h"

namespace dlrm::serve {
namespace {

DType stored_type(TableType type, DType trained) {
  switch (type) {
    case TableType::kFp32:
    case TableType::kMapped:
      return DType::kFloat32;
    case TableType::kBf16:
      return DType::kBFloat16;
    case TableType::kAsTrained:
    case TableType::kInt8:
      break;
  }
  return trained;
}

/// Whether two bags are equal, and long enough for a copy of their vector to be cheaper.
bool repeats(const Samples& samples, const int64_t* bag, const int64_t* before) {
  constexpr int64_t kLeast = 4;
  const int64_t length = bag[1] - bag[0];
  if (length < kLeast || before[1] - before[0] != length) return false;
  const auto equal = [&](const auto& values) {
    return std::equal(values.begin() + bag[0], values.begin() + bag[1], values.begin() + before[0]);
  };
  return equal(samples.ids) && (samples.weights.empty() || equal(samples.weights));
}

}  // namespace

Tables::Tables(Device& device, const ModelConfig& model, TableType type, int threads)
    : device_(device),
      type_(type),
      threads_(threads),
      inputs_(model.num_features() - model.linear_features()) {
  for (const TableConfig& config : model.tables) {
    Table table;
    table.path = config.path();
    table.rows.type = stored_type(type, config.dtype);
    table.rows.rows = config.rows;
    table.rows.width = config.dim;
    table.rows.stride = table_stride(config.dim, table.rows.type);
    if (type == TableType::kInt8) table.int8_row_bytes = int8_row_bytes(config.dim);
    for (const FeatureConfig& feature : config.features) {
      features_.push_back({tables_.size(), feature.pooling, feature.weights, width_});
      width_ += config.dim;
    }
    tables_.push_back(std::move(table));
  }
}

void Tables::hold_rows(Communicator& comm, const std::string& checkpoint) {
  std::vector<std::optional<PlaceInFile>> places(tables_.size());
  if (type_ == TableType::kMapped) places = find_in_files(comm, checkpoint, shards());
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    RowTable& rows = table.rows;
    const auto element = static_cast<int64_t>(size_of(rows.type));
    if (places[t]) {
      const MappedFile& file = files_.try_emplace(places[t]->file, places[t]->file).first->second;
      rows.stride = rows.width;
      // Lookups only read.
      rows.weights = const_cast<std::byte*>(
          file.column(table.path, places[t]->offset, rows.rows * rows.width, element));
      continue;
    }
    const int64_t row_bytes =
        table.int8_row_bytes > 0 ? table.int8_row_bytes : rows.stride * element;
    table.memory = Buffer(device_, static_cast<size_t>(rows.rows * row_bytes), "embedding rows");
    rows.weights = table.memory.data();
  }
}

/// With all threads, so that the memory of a table is near them, and not all in one socket.
void Tables::write(const Table& table, int64_t first, int64_t count, const float* in) const {
  constexpr int64_t kGrain = 16384;  // elements for which a thread is worth its start
  const int64_t width = table.rows.width;
  if (table.int8_row_bytes > 0) {
    auto* to = static_cast<std::byte*>(table.memory.data()) + first * table.int8_row_bytes;
    parallel_ranges(threads_, count, width, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        write_int8_row(in + r * width, width, to + r * table.int8_row_bytes);
      }
    });
    return;
  }
  dispatch_compute(table.rows.type, [&]<class T>() {
    T* to = static_cast<T*>(table.rows.weights) + first * table.rows.stride;
    parallel_ranges(threads_, count, width, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        std::transform(in + r * width, in + (r + 1) * width, to + r * table.rows.stride,
                       [](float w) { return T(w); });
      }
    });
  });
}

TensorShard Tables::shard_of(const Table& table) const {
  TensorShard shard;
  shard.path = table.path + "/weight";
  shard.shape = {table.rows.rows, table.rows.width};
  shard.rows = {0, table.rows.rows};
  shard.columns = {0, table.rows.width};
  shard.write = [this, &table](int64_t first, int64_t count, const float* in) {
    write(table, first, count, in);
  };
  return shard;
}

std::vector<TensorShard> Tables::shards() {
  std::vector<TensorShard> shards;
  for (const Table& table : tables_) {
    const bool mapped = table.rows.weights && table.memory.bytes() == 0;
    if (!mapped) shards.push_back(shard_of(table));
  }
  return shards;
}

int64_t Tables::bytes() const {
  int64_t sum = 0;
  for (const Table& table : tables_) sum += static_cast<int64_t>(table.memory.bytes());
  return sum;
}

void Tables::check_pages() const {
  for (const auto& [path, file] : files_) file.check_pages();
}

TableLookup::TableLookup(const Tables& tables, Device& device, Ops& ops, int64_t batch_size)
    : tables_(tables),
      ops_(ops),
      e_(device, static_cast<size_t>(batch_size * tables.width()), "embedding vectors") {}

void TableLookup::gather(const Samples& samples, int64_t first, int64_t count) {
  ids_.clear();
  offsets_.clear();
  scales_.clear();
  weights_.clear();
  bags_.clear();
  const int64_t inputs = tables_.inputs();
  bag_of_.resize(static_cast<size_t>(inputs * count));
  auto bag_of = bag_of_.begin();
  for (int64_t f = 0; f < inputs; ++f) {
    Bags& bags = bags_.emplace_back(Bags{0, offsets_.size(), scales_.size()});
    offsets_.push_back(static_cast<int64_t>(ids_.size()));
    for (int64_t s = first; s < first + count; ++s) {
      const int64_t* bag = samples.offsets.data() + s * inputs + f;
      if (s > first && repeats(samples, bag, bag - inputs)) {
        *bag_of++ = bags.count - 1;
        continue;
      }
      *bag_of++ = bags.count++;
      ids_.insert(ids_.end(), samples.ids.begin() + bag[0], samples.ids.begin() + bag[1]);
      if (!samples.weights.empty()) {
        weights_.insert(weights_.end(), samples.weights.begin() + bag[0],
                        samples.weights.begin() + bag[1]);
      }
      offsets_.push_back(static_cast<int64_t>(ids_.size()));
      const int64_t length = bag[1] - bag[0];
      scales_.push_back(length > 0 ? 1.0f / static_cast<float>(length) : 0.0f);
    }
  }
}

void TableLookup::spread(const MatrixView<float>& e) const {
  const int64_t count = e.rows, inputs = tables_.inputs();
  const std::vector<Tables::Feature>& features = tables_.features();
  for (size_t f = 0; f < features.size(); ++f) {
    const int64_t number = static_cast<int64_t>(f) % inputs;
    if (bags_[static_cast<size_t>(number)].count == count) continue;
    const int64_t* const bag_of = bag_of_.data() + number * count;
    const int64_t width = tables_.of(features[f]).rows.width;
    // A bag's number is at most that of its sample, so no vector is lost.
    for (int64_t s = count - 1; s > 0; --s) {
      const float* const from = e.row(bag_of[s]) + features[f].column;
      if (bag_of[s] < s) std::copy_n(from, width, e.row(s) + features[f].column);
    }
  }
}

MatrixView<float> TableLookup::operator()(const Samples& samples, int64_t first, int64_t count) {
  gather(samples, first, count);
  const MatrixView<float> e(e_.data(), count, tables_.width());
  groups_.clear();
  max_groups_.clear();
  int8_groups_.clear();
  const std::vector<Tables::Feature>& features = tables_.features();
  for (size_t f = 0; f < features.size(); ++f) {
    const Tables::Feature& feature = features[f];
    const Tables::Table& table = tables_.of(feature);
    const int64_t number =
        static_cast<int64_t>(f) % tables_.inputs();  // the linear part repeats them
    const Bags& bags = bags_[static_cast<size_t>(number)];
    const int64_t* offsets = offsets_.data() + bags.offsets;
    const bool is_mean = feature.pooling == Pooling::kMean;
    const bool is_max = feature.pooling == Pooling::kMax;
    const float* scale = is_mean ? scales_.data() + bags.scales : nullptr;
    const float* weights = feature.weighted ? weights_.data() : nullptr;
    const MatrixView<float> pooled =
        e.row_range(0, bags.count).columns(feature.column, table.rows.width);
    if (table.int8_row_bytes > 0) {
      int8_groups_.push_back({static_cast<const std::byte*>(table.memory.data()),
                              table.int8_row_bytes, ids_.data(), offsets, bags.count, scale, pooled,
                              weights, is_max});
    } else {
      (is_max ? max_groups_ : groups_)
          .push_back({table.rows, ids_.data(), offsets, bags.count, scale, pooled, 0, weights});
    }
  }
  if (!groups_.empty()) ops_.embedding_bag_forward(groups_);
  if (!max_groups_.empty()) ops_.max_bag_forward(max_groups_);
  if (!int8_groups_.empty()) pool_int8_bags(int8_groups_, ops_.threads());
  tables_.check_pages();
  spread(e);
  return e;
}

}  // namespace dlrm::serve
