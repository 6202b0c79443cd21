#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/experts.h"

#include "interaction_schema.h"
#include "names.h"
#include "run_schema.h"
#include "table_list.h"

namespace dlrm {
namespace {

constexpr int64_t kMaxLayerWidth = int64_t{1} << 20;
constexpr size_t kMaxLayers = 64;

/// A key for each MLP.
template <class T>
Codec<OfHiddenLayers<T>> of_hidden_layers(const Codec<T>& codec, const char* what) {
  using H = OfHiddenLayers<T>;
  Schema<H> schema;
  for (const auto& [name, member] : {std::pair{"bottom", &H::bottom}, {"top", &H::top}}) {
    schema.key(name, member, codec, fmt::format("{} in the {} MLP", what, name));
  }
  return section(schema);
}

Schema<TaskConfig> task_schema() {
  using T = TaskConfig;
  Schema<T> schema;
  schema.key("name", &T::name, name_text(), "name of the label in metrics and predictions")
      .required();
  schema.key("weight", &T::weight, real_number(1e-6, 1e6), "factor of its loss in the sum of all");
  schema
      .key("tower", &T::tower, whole_numbers(1, kMaxLayerWidth, 1, kMaxLayers),
           "layer widths of its MLP over the interaction's output; the last one is 1, the logit")
      .default_shown("model.top_mlp");
  return schema;
}

Codec<std::vector<TaskConfig>> task_list() {
  using List = std::vector<TaskConfig>;
  constexpr size_t kMost = 64;
  const auto schema = std::make_shared<const Schema<TaskConfig>>(task_schema());
  Codec<List> codec;
  codec.allowed = fmt::format("a list of 2 to {} maps, or []", kMost);
  codec.read = [schema, allowed = codec.allowed](const Node& node, const std::string& key,
                                                 List& out) {
    if (!node.is_list() || node.items.size() == 1 || node.items.size() > kMost) {
      reject(node, key, allowed);
    }
    out.clear();
    std::set<std::string> names;
    for (const NodePtr& item : node.items) {
      const std::string item_key = fmt::format("{}.{}", key, out.size());
      schema->read(*item, item_key, out.emplace_back());
      if (names.insert(out.back().name).second) continue;
      throw usage_error("{}: {} has two tasks named {}: needs names that differ",
                        item->place.text(), key, out.back().name);
    }
  };
  codec.write = [schema](const List& tasks) {
    std::vector<NodePtr> items;
    for (const TaskConfig& task : tasks) items.push_back(schema->write(task));
    return make_list(std::move(items));
  };
  codec.document = [schema](const std::string& key, const List&, std::vector<KeyDoc>& rows) {
    schema->document(key + "[]", {}, rows);
  };
  return codec;
}

Schema<ExpertsConfig> experts_schema() {
  using E = ExpertsConfig;
  Schema<E> schema;
  schema.key("count", &E::count, whole_number<int64_t>(0, kMostExperts),
             "the number of experts, 2 or more; 0 = none");
  schema.key("layers", &E::layers, whole_numbers(1, kMaxLayerWidth, 0, kMaxLayers),
             "layer widths of each; the last one is that of the towers' input");
  return schema;
}

}  // namespace

Schema<ModelConfig> model_schema() {
  using M = ModelConfig;
  Schema<M> schema;
  schema
      .key("dense_features", &M::dense_features, whole_number<int64_t>(0, 1000000),
           "numbers per sample; 0 = none, and no bottom MLP")
      .required();
  schema.key("embedding_dim", &M::embedding_dim, whole_number<int64_t>(1, 16384),
             "width of tables without their own dim");
  schema.key("bottom_mlp", &M::bottom_mlp, whole_numbers(1, kMaxLayerWidth, 0, kMaxLayers),
             "layer widths; [] = no bottom MLP: X is the dense features");
  schema
      .key("top_mlp", &M::top_mlp, whole_numbers(1, kMaxLayerWidth, 1, kMaxLayers),
           "layer widths; the last one is 1, the logit; with tasks, of each tower without its own")
      .required();
  schema.key("activation", &M::activation, choice(kActivationNames),
             "activation of every layer but the last of the top MLP; gelu is the tanh form");
  schema.key("dropout", &M::dropout,
             of_hidden_layers(real_number(0, 1, /*open_above=*/true),
                              "probability with which training drops an output of a layer, except "
                              "the last one,"),
             "dropout of hidden layers");
  schema.key("layer_norm", &M::layer_norm,
             of_hidden_layers(boolean(),
                              "layer normalisation before the activation of each layer, except the "
                              "last one,"),
             "layer normalisation of hidden layers");
  schema.key("interaction", &M::interaction, interaction_codec(), "how X and E are combined");
  schema.key("linear", &M::linear, boolean(),
             "adds a weight of each id of a feature, pooled like it, and of each dense feature to "
             "the logit");
  schema.key("tables", &M::tables, table_list(), "the embedding tables").required();
  schema
      .key("tasks", &M::tasks, task_list(),
           "several labels, in the order of the columns of /label, each with a tower over the "
           "interaction's output")
      .default_shown("one label and the top MLP")
      .omit_if([](const M& model) { return model.tasks.empty(); });
  schema
      .key("experts", &M::experts, section(experts_schema()),
           "MLPs over the interaction's output; a task's tower sees the sum of their outputs by "
           "shares that depend on the sample and the task (MMoE)")
      .omit_if([](const M& model) { return model.experts.count == 0; });
  schema.then([](const Node& node, const std::string& path, M& model) {
    set_default_dim(model.tables, model.embedding_dim);
    model.add_linear_tables();
    for (TaskConfig& task : model.tasks) {
      if (task.tower.empty()) task.tower = model.top_mlp;
    }
    if (model.dense_features > 0) return;
    const NodePtr layers = node.find("bottom_mlp");
    if (layers && !model.bottom_mlp.empty()) {
      throw usage_error("{}: {} has layers, but {} is 0: needs [], or leave it out",
                        layers->place.text(), dotted(path, "bottom_mlp"),
                        dotted(path, "dense_features"));
    }
    model.bottom_mlp.clear();
  });
  return schema;
}

}  // namespace dlrm
