#include "table_list.h"

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "dlrm/core/error.h"

#include "names.h"
#include "schema.h"

namespace dlrm {
namespace {

constexpr int64_t kMaxCount = 1000000;
constexpr int64_t kMaxFeatures = 2 * kMaxCount;  // of all tables
constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr int64_t kMaxDim = 16384;
constexpr int64_t kMaxHotness = 1000000;

/// An entry of the list in the form in which it is written.
struct TableEntry {
  std::string name;
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  int64_t count = 0;  // 0: one table with the entry's name
  int64_t hotness = 1;
  Pooling pooling = Pooling::kSum;
  std::vector<FeatureConfig> features;
  double l2 = -1;
  InitConfig init;
  bool weights = false;
};

Schema<InitConfig> init_schema() {
  using I = InitConfig;
  Schema<I> schema;
  schema.key("type", &I::type, choice(kInitTypeNames), "distribution of the initial rows");
  schema
      .key("scale", &I::scale, real_number(1e-12, 1e6),
           "uniform: largest absolute value; normal: standard deviation")
      .default_shown("uniform: 1/sqrt(rows); normal: 0.01")
      .omit_if([](const I& init) { return init.scale == 0; });
  schema.then([](const Node& node, const std::string& path, I& init) {
    const NodePtr scale = node.find("scale");
    if (!scale || init.type != InitType::kZero) return;
    throw usage_error("{}: {}.scale has no effect if the type is zero: leave it out",
                      scale->place.text(), path);
  });
  return schema;
}

/// Refuses weights where rows are not added.
template <class T>
void check_pooling(const Node& node, const std::string& path, T& feature) {
  if (!feature.weights || feature.pooling == Pooling::kSum) return;
  throw usage_error(
      "{}: {}.weights needs pooling sum; for a weighted mean, give weights whose sum "
      "in a bag is 1",
      place_of(node, "weights").text(), path);
}

Schema<FeatureConfig> feature_schema() {
  Schema<FeatureConfig> schema;
  schema.key("name", &FeatureConfig::name, name_text(), "the feature's name in the data")
      .required();
  schema.key("hotness", &FeatureConfig::hotness, whole_number<int64_t>(1, kMaxHotness),
             "ids in a bag; the expected mean if the data has offsets");
  schema.key("pooling", &FeatureConfig::pooling, choice(kPoolingNames),
             "how the rows of a bag are combined");
  schema
      .key("weights", &FeatureConfig::weights, boolean(),
           "each id has a weight in the data, which multiplies its row; with pooling sum")
      .omit_if([](const FeatureConfig& feature) { return !feature.weights; });
  schema.then(check_pooling<FeatureConfig>);
  return schema;
}

Codec<std::vector<FeatureConfig>> feature_list() {
  using List = std::vector<FeatureConfig>;
  const auto schema = std::make_shared<const Schema<FeatureConfig>>(feature_schema());
  Codec<List> codec;
  codec.allowed = "a list of maps, at least one";
  codec.read = [schema, allowed = codec.allowed](const Node& node, const std::string& key,
                                                 List& out) {
    if (!node.is_list() || node.items.empty()) reject(node, key, allowed);
    out.clear();
    for (const NodePtr& item : node.items) {
      schema->read(*item, fmt::format("{}.{}", key, out.size()), out.emplace_back());
    }
  };
  codec.write = [schema](const List& features) {
    std::vector<NodePtr> items;
    for (const FeatureConfig& feature : features) items.push_back(schema->write(feature));
    return make_list(std::move(items));
  };
  codec.document = [schema](const std::string& key, const List&, std::vector<KeyDoc>& rows) {
    schema->document(key + "[]", {}, rows);
  };
  return codec;
}

bool has_features(const TableEntry& entry) { return !entry.features.empty(); }

Schema<TableEntry> entry_schema() {
  Schema<TableEntry> schema;
  schema
      .key("name", &TableEntry::name, name_text(),
           "name of the table, and of its feature if none are listed")
      .required();
  schema
      .key("rows", &TableEntry::rows, whole_number<int64_t>(1, kMaxRows),
           "number of rows; ids are less than it")
      .required();
  schema.key("dim", &TableEntry::dim, whole_number<int64_t>(1, kMaxDim), "width of the table")
      .default_shown("model.embedding_dim");
  schema.key("dtype", &TableEntry::dtype, choice(kTableTypeNames), "type of the stored weights");
  schema.key("l2", &TableEntry::l2, real_number(0, 1e6), "l2 of the rows of this table")
      .default_shown("train.sparse_optimizer.l2")
      .omit_if([](const TableEntry& entry) { return entry.l2 < 0; });
  schema.key("init", &TableEntry::init, section(init_schema()), "the rows before training")
      .omit_if([](const TableEntry& entry) { return entry.init == InitConfig(); });
  schema
      .key("count", &TableEntry::count, whole_number<int64_t>(1, kMaxCount),
           "number of tables of this shape: <name>_0, <name>_1, ..., with the same suffixes on "
           "their features; elsewhere <name> stands for all of them")
      .default_shown("one table, <name>")
      .omit_if([](const TableEntry& entry) { return entry.count == 0; });
  schema
      .key("hotness", &TableEntry::hotness, whole_number<int64_t>(1, kMaxHotness),
           "hotness of the only feature, if none are listed")
      .omit_if(has_features);
  schema
      .key("pooling", &TableEntry::pooling, choice(kPoolingNames),
           "pooling of the only feature, if none are listed")
      .omit_if(has_features);
  schema
      .key("weights", &TableEntry::weights, boolean(),
           "weights of the only feature, if none are listed")
      .omit_if([](const TableEntry& entry) { return has_features(entry) || !entry.weights; });
  schema.key("features", &TableEntry::features, feature_list(), "features that use the table")
      .default_shown("one, of the table's name")
      .omit_if([](const TableEntry& entry) { return !has_features(entry); });
  schema.then([](const Node& node, const std::string& path, TableEntry& entry) {
    if (!has_features(entry)) return check_pooling(node, path, entry);
    for (const char* name : {"hotness", "pooling", "weights"}) {
      const NodePtr value = node.find(name);
      if (!value) continue;
      throw usage_error("{}: {}.{} is set together with features: set it in each feature",
                        value->place.text(), path, name);
    }
  });
  return schema;
}

/// The names in use, and the place where each was written.
class UsedNames {
 public:
  UsedNames(const char* what, const char* remedy) : what_(what), remedy_(remedy) {}

  void claim(const std::string& name, const YamlPlace& place) {
    const auto [first, is_new] = places_.emplace(name, place);
    if (is_new) return;
    throw usage_error("{}: {} {} is already used at {}: {}", place.text(), what_, name,
                      first->second.text(), remedy_);
  }

 private:
  const char* what_;
  const char* remedy_;
  std::map<std::string, YamlPlace> places_;
};

/// Expands the entries of the list one by one.
class Expansion {
 public:
  void add(const TableEntry& entry, const Node& item, const std::string& key) {
    const YamlPlace& place = item.place;
    const int64_t count = std::max<int64_t>(entry.count, 1);
    if (static_cast<int64_t>(tables_.size()) + count > kMaxCount) {
      throw usage_error("{}: {} makes more than {} tables", place_of(item, "count").text(), key,
                        kMaxCount);
    }
    features_ += count * std::max<int64_t>(static_cast<int64_t>(entry.features.size()), 1);
    if (features_ > kMaxFeatures) {
      throw usage_error("{}: {} makes more than {} features", place_of(item, "features").text(),
                        key, kMaxFeatures);
    }
    if (entry.count > 0) table_names_.claim(entry.name, place);
    for (int64_t i = 0; i < count; ++i) {
      add_table(entry, entry.count > 0 ? fmt::format("_{}", i) : "", place);
    }
  }

  std::vector<TableConfig> take() { return std::move(tables_); }

 private:
  void add_table(const TableEntry& entry, const std::string& suffix, const YamlPlace& place) {
    TableConfig table{entry.name + suffix, entry.name, entry.rows, entry.dim,
                      entry.dtype,         {},         entry.l2,   entry.init};
    table_names_.claim(table.name, place);
    table.features = entry.features;
    if (table.features.empty()) {
      table.features.push_back({entry.name, entry.hotness, entry.pooling, entry.weights});
    }
    for (FeatureConfig& feature : table.features) {
      feature.name += suffix;
      feature_names_.claim(feature.name, place);
    }
    tables_.push_back(std::move(table));
  }

  std::vector<TableConfig> tables_;
  int64_t features_ = 0;
  UsedNames table_names_{"table name", "names must differ"};
  UsedNames feature_names_{"feature name", "names must differ"};
};

bool is_alike(const FeatureConfig& a, const FeatureConfig& b) {
  return a.hotness == b.hotness && a.pooling == b.pooling && a.weights == b.weights;
}

/// True if `table` is member `i` of the group that began with `entry`, whose names have no suffix.
bool is_member(const TableConfig& table, const TableEntry& entry, int64_t i) {
  const std::string suffix = fmt::format("_{}", i);
  const bool same_shape = table.rows == entry.rows && table.dim == entry.dim &&
                          table.dtype == entry.dtype && table.l2 == entry.l2 &&
                          table.init == entry.init &&
                          table.features.size() == entry.features.size();
  if (!same_shape || table.group != entry.name || table.name != entry.name + suffix) return false;
  for (size_t f = 0; f < table.features.size(); ++f) {
    const FeatureConfig& feature = table.features[f];
    if (!is_alike(feature, entry.features[f])) return false;
    if (feature.name != entry.features[f].name + suffix) return false;
  }
  return true;
}

/// Omits the list of features if the only feature has the name of its table.
void fold_single_feature(TableEntry& entry) {
  if (entry.features.size() != 1 || entry.features[0].name != entry.name) return;
  entry.hotness = entry.features[0].hotness;
  entry.pooling = entry.features[0].pooling;
  entry.weights = entry.features[0].weights;
  entry.features.clear();
}

/// Makes the entry for tables[first] and the members of its group that follow.
TableEntry entry_at(const std::vector<TableConfig>& tables, size_t first) {
  const TableConfig& table = tables[first];
  TableEntry entry{table.name, table.rows,    table.dim,      table.dtype, 0,
                   1,          Pooling::kSum, table.features, table.l2,    table.init};
  TableEntry group = entry;
  group.name = table.group;
  for (FeatureConfig& feature : group.features) {
    if (feature.name.ends_with("_0")) feature.name.resize(feature.name.size() - 2);
  }
  const auto is_next = [&](size_t i) {
    return i < tables.size() && is_member(tables[i], group, group.count);
  };
  while (is_next(first + static_cast<size_t>(group.count))) ++group.count;
  if (group.count > 0) entry = group;
  fold_single_feature(entry);
  return entry;
}

void read_tables(const Schema<TableEntry>& schema, const Node& node, const std::string& key,
                 std::vector<TableConfig>& out) {
  if (!node.is_list() || node.items.empty()) reject(node, key, "a list of maps, at least one");
  Expansion expansion;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = *node.items[i];
    const std::string item_key = fmt::format("{}.{}", key, i);
    TableEntry entry;
    schema.read(item, item_key, entry);
    expansion.add(entry, item, item_key);
  }
  out = expansion.take();
}

NodePtr write_tables(const Schema<TableEntry>& schema, const std::vector<TableConfig>& tables) {
  std::vector<NodePtr> items;
  for (size_t i = 0; i < tables.size() && !tables[i].is_linear;) {
    const TableEntry entry = entry_at(tables, i);
    items.push_back(schema.write(entry));
    i += static_cast<size_t>(std::max<int64_t>(entry.count, 1));
  }
  return make_list(std::move(items));
}

}  // namespace

Codec<std::vector<TableConfig>> table_list() {
  using List = std::vector<TableConfig>;
  const auto schema = std::make_shared<const Schema<TableEntry>>(entry_schema());
  Codec<List> codec;
  codec.allowed = "a list of maps, at least one";
  codec.read = [schema](const Node& node, const std::string& key, List& out) {
    read_tables(*schema, node, key, out);
  };
  codec.write = [schema](const List& tables) { return write_tables(*schema, tables); };
  codec.document = [schema](const std::string& key, const List&, std::vector<KeyDoc>& rows) {
    schema->document(key + "[]", {}, rows);
  };
  return codec;
}

void set_default_dim(std::vector<TableConfig>& tables, int64_t dim) {
  for (TableConfig& table : tables) {
    if (table.dim == 0) table.dim = dim;
  }
}

}  // namespace dlrm
