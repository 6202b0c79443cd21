#include <utility>

#include <fmt/format.h>

#include "dlrm/core/error.h"

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
           "layer widths; the last one is 1, the logit")
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
  schema.then([](const Node& node, const std::string& path, M& model) {
    set_default_dim(model.tables, model.embedding_dim);
    model.add_linear_tables();
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
