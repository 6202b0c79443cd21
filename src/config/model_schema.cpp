#include "interaction_schema.h"
#include "names.h"
#include "run_schema.h"
#include "table_list.h"

namespace dlrm {
namespace {

constexpr int64_t kMaxLayerWidth = int64_t{1} << 20;
constexpr size_t kMaxLayers = 64;

}  // namespace

Schema<ModelConfig> model_schema() {
  using M = ModelConfig;
  Schema<M> schema;
  schema
      .key("dense_features", &M::dense_features, whole_number<int64_t>(1, 1000000),
           "numbers in a sample")
      .required();
  schema.key("embedding_dim", &M::embedding_dim, whole_number<int64_t>(1, 16384),
             "the width of tables without a dim of their own");
  schema.key("bottom_mlp", &M::bottom_mlp, whole_numbers(1, kMaxLayerWidth, 0, kMaxLayers),
             "layer widths; [] = none: the dense features are X");
  schema
      .key("top_mlp", &M::top_mlp, whole_numbers(1, kMaxLayerWidth, 1, kMaxLayers),
           "layer widths; the last is 1, the logit")
      .required();
  schema.key("activation", &M::activation, choice(kActivationNames),
             "after every bottom layer and every top layer but the last; gelu in its tanh form");
  schema.key("interaction", &M::interaction, interaction_codec(), "how X and E meet");
  schema.key("tables", &M::tables, table_list(), "the embedding tables").required();
  schema.then([](const Node&, const std::string&, M& model) {
    set_default_dim(model.tables, model.embedding_dim);
  });
  return schema;
}

}  // namespace dlrm
