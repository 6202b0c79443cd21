#include "names.h"
#include "run_schema.h"
#include "table_list.h"

namespace dlrm {
namespace {

constexpr int64_t kMaxLayerWidth = int64_t{1} << 20;
constexpr size_t kMaxLayers = 64;

bool is_not(const InteractionConfig& interaction, InteractionType type) {
  return interaction.type != type;
}

// An option written for another type would be ignored: more likely a mistake.
void reject_foreign_options(const Node& node, const std::string& path,
                            const InteractionConfig& interaction) {
  static const std::pair<const char*, InteractionType> kOwners[] = {
      {"order", InteractionType::kConcat},
      {"average_pool", InteractionType::kConcat},
      {"layers", InteractionType::kCross},
      {"rank", InteractionType::kCross}};
  for (const auto& [name, owner] : kOwners) {
    const NodePtr value = node.find(name);
    if (!value || interaction.type == owner) continue;
    throw usage_error("{}: {}.{} belongs to type {}, and the type is {}", value->place.text(), path,
                      name, choice(kInteractionNames).write(owner)->text,
                      choice(kInteractionNames).write(interaction.type)->text);
  }
}

Schema<InteractionConfig> interaction_schema() {
  using I = InteractionConfig;
  Schema<I> schema;
  schema.key(
      "type", &I::type, choice(kInteractionNames),
      "how the dense side X and the embeddings E meet; the name alone may stand for the map");
  schema.key("order", &I::order, choice(kConcatOrderNames), "concat: [X, E] or [E, X]")
      .omit_if([](const I& i) { return is_not(i, InteractionType::kConcat); });
  schema
      .key("average_pool", &I::average_pool, whole_number<int64_t>(0, int64_t{1} << 40),
           "concat: window and stride of an average pooling over the embedding width, at most "
           "that width; 0 = none")
      .omit_if([](const I& i) { return is_not(i, InteractionType::kConcat); });
  schema.key("layers", &I::layers, whole_number<int64_t>(1, kMaxLayers), "cross: layers")
      .omit_if([](const I& i) { return is_not(i, InteractionType::kCross); });
  schema
      .key("rank", &I::rank, whole_number<int64_t>(1, kMaxLayerWidth),
           "cross: rank of each layer's product")
      .omit_if([](const I& i) { return is_not(i, InteractionType::kCross); });
  schema.then([](const Node& node, const std::string& path, I& out) {
    reject_foreign_options(node, path, out);
  });
  return schema;
}

// `dot` alone means `{type: dot}`.
Codec<InteractionConfig> interaction() {
  Codec<InteractionConfig> codec = section(interaction_schema());
  const auto read_map = codec.read;
  codec.read = [read_map, type = choice(kInteractionNames)](
                   const Node& node, const std::string& key, InteractionConfig& out) {
    if (node.is_scalar()) {
      type.read(node, key, out.type);
    } else {
      read_map(node, key, out);
    }
  };
  return codec;
}

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
  schema.key("interaction", &M::interaction, interaction(), "how X and E meet");
  schema.key("tables", &M::tables, table_list(), "the embedding tables").required();
  schema.then([](const Node&, const std::string&, M& model) {
    set_default_dim(model.tables, model.embedding_dim);
  });
  return schema;
}

}  // namespace dlrm
