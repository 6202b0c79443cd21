#include "interaction_schema.h"

#include <tuple>

#include "dlrm/core/error.h"

#include "schema.h"

namespace dlrm {
namespace {

/// The type, an index into InteractionConfig, and the options of every type.
template <class... Configs>
struct Written {
  using Variant = std::variant<Configs...>;
  size_t type = 0;
  std::tuple<Configs...> options;
};
template <class... Configs>
Written<Configs...> written_of(const std::variant<Configs...>&);
using WrittenInteraction = decltype(written_of(InteractionConfig()));

/// Calls visit(std::integral_constant<size_t, i>) for each type i.
template <class Visit>
void for_each_type(const Visit& visit) {
  [&]<size_t... i>(std::index_sequence<i...>) { (visit(std::integral_constant<size_t, i>()), ...); }
  (std::make_index_sequence<std::variant_size_v<InteractionConfig>>());
}

const Names<size_t>& type_names() {
  static const Names<size_t> names = [] {
    Names<size_t> out;
    for_each_type(
        [&](auto i) { out.add(std::variant_alternative_t<i, InteractionConfig>::kName, i); });
    return out;
  }();
  return names;
}

WrittenInteraction written(const InteractionConfig& config) {
  WrittenInteraction out;
  out.type = config.index();
  for_each_type([&](auto i) {
    if (const auto* options = std::get_if<i>(&config)) std::get<i>(out.options) = *options;
  });
  return out;
}

InteractionConfig chosen(const WrittenInteraction& written) {
  InteractionConfig out;
  for_each_type([&](auto i) {
    if (i == written.type) out = std::get<i>(written.options);
  });
  return out;
}

template <class Config>
Codec<int64_t> codec_of(const WholeNumberKey<Config>& key) {
  return key.automatic ? whole_number_or_auto(key.lo, key.hi, *key.automatic)
                       : whole_number<int64_t>(key.lo, key.hi);
}

template <class Config, class Value, size_t N>
Codec<Value> codec_of(const ChoiceKey<Config, Value, N>& key) {
  Names<Value> names;
  for (const auto& [name, value] : key.names) names.add(name, value);
  return choice(names);
}

/// The name of each option, and the type that has it.
using Owners = std::vector<std::pair<std::string, size_t>>;

template <size_t type>
void add_options(Schema<WrittenInteraction>& schema, Owners& owners) {
  const auto add = [&](const auto& key) {
    const auto option = [member = key.member](auto& written) -> auto& {
      return std::get<type>(written.options).*member;
    };
    schema.key(key.name, option, codec_of(key), key.meaning)
        .omit_if([](const WrittenInteraction& written) { return written.type != type; });
    owners.emplace_back(key.name, type);
  };
  std::apply([&](const auto&... keys) { (add(keys), ...); },
             std::variant_alternative_t<type, InteractionConfig>::keys());
}

Schema<WrittenInteraction> interaction_schema() {
  Schema<WrittenInteraction> schema;
  schema.key(
      "type", &WrittenInteraction::type, choice(type_names()),
      "how the bottom MLP's output X and the embeddings E are combined; if no option is set, the "
      "name may stand for the map");
  Owners owners;
  for_each_type([&](auto type) { add_options<type>(schema, owners); });
  // Rejects an option of another type. It would be ignored, so it is more likely a mistake.
  schema.then([owners](const Node& node, const std::string& path, WrittenInteraction& out) {
    for (const auto& [name, owner] : owners) {
      const NodePtr value = node.find(name);
      if (!value || owner == out.type) continue;
      throw usage_error("{}: {}.{} belongs to type {}, and the type is {}", value->place.text(),
                        path, name, type_names().words()[owner].first,
                        type_names().words()[out.type].first);
    }
  });
  return schema;
}

}  // namespace

Codec<InteractionConfig> interaction_codec() {
  const Codec<WrittenInteraction> map = section(interaction_schema());
  Codec<InteractionConfig> codec;
  codec.allowed = map.allowed;
  codec.is_section = map.is_section;
  codec.read = [read_map = map.read, type = choice(type_names())](
                   const Node& node, const std::string& key, InteractionConfig& out) {
    WrittenInteraction all = written(out);
    if (node.is_scalar()) {
      type.read(node, key, all.type);
    } else {
      read_map(node, key, all);
    }
    out = chosen(all);
  };
  codec.write = [map](const InteractionConfig& config) { return map.write(written(config)); };
  codec.document = [map](const std::string& key, const InteractionConfig& defaults,
                         std::vector<KeyDoc>& rows) { map.document(key, written(defaults), rows); };
  return codec;
}

}  // namespace dlrm
