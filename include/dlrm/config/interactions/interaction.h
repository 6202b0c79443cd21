#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// Descriptions of interactions. An interaction combines the bottom MLP's output X [b, D] and the
/// pooled embeddings E [b, W] into Z, the input of the top MLP.
///
/// A description is a struct of the interaction's options with these members:
///   kName               its name in a config
///   kNeedsEqualWidths   true if every vector must be as wide as X: others are projected first
///   keys()              a tuple with a key for each option
///   width(in)           number of columns of Z
///   cost(in)            products and memory that it adds to the model
///   embeddings_in_place()  true if E is a part of Z or of another input of products, and dE of a
///                       gradient, so that no pass copies them
///   limits(in)          a list of OptionLimit, if bounds of options depend on the model
namespace dlrm {

struct InteractionInputs {
  int64_t dense = 0;       ///< D; 0: no dense features
  int64_t embeddings = 0;  ///< the sum of the features' widths, after projections
  int64_t features = 0;    ///< F
};

/// One feature's vectors in E.
struct FeatureVectors {
  std::string feature;
  int64_t width = 0;
};

/// A product y = x·wᵀ with a trained matrix w [outputs, inputs], and perhaps a trained bias.
struct InteractionProduct {
  int64_t inputs = 0, outputs = 0;
  bool bias = false;

  int64_t parameters() const { return outputs * (inputs + (bias ? 1 : 0)); }
};

struct InteractionCost {
  std::vector<InteractionProduct> products;  ///< in forward order
  int64_t kept = 0;      ///< elements per sample that backward needs from forward, without Z
  int64_t matrices = 9;  ///< upper bound of the number of kept matrices, but one for each tensor
};

/// An option that is a whole number in [lo, hi], or the word auto if a number stands for it.
template <class Config>
struct WholeNumberKey {
  const char* name;
  int64_t Config::*member;
  int64_t lo, hi;
  const char* meaning;
  std::optional<int64_t> automatic = {};
};

/// An option that is one of N names.
template <class Config, class Value, size_t N>
struct ChoiceKey {
  const char* name;
  Value Config::*member;
  std::array<std::pair<const char*, Value>, N> names;
  const char* meaning;
};

/// The upper limit of an option. Errors describe it as `what`: "the embedding width".
struct OptionLimit {
  const char* key;
  int64_t value;
  int64_t limit;
  const char* what;
};

}  // namespace dlrm
