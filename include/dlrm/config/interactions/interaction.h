#pragma once
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

/// What the description of an interaction consists of. An interaction joins the bottom MLP's output
/// X [b, D] and the pooled embeddings E [b, W] into Z, the input of the top MLP.
///
/// A description is a struct of the interaction's options. It has
///   kName               its name in a config;
///   kNeedsEqualWidths   whether every feature must be as wide as X;
///   keys()              a tuple with a key for each option;
///   width(in)           columns of Z;
///   cost(in)            what it adds to the model;
///   limits(in)          if options have bounds that depend on the model: a list of OptionLimit.
namespace dlrm {

struct InteractionInputs {
  int64_t dense = 0;       ///< D
  int64_t embeddings = 0;  ///< W, the sum of the features' widths
  int64_t features = 0;    ///< F
};

struct InteractionCost {
  int64_t parameters = 0;      ///< elements of its trained tensors
  int64_t parameter_rows = 0;  ///< rows of its trained matrices
  int64_t kept = 0;            ///< elements that backward needs from forward, a sample, besides Z
  int64_t tensors = 9;  ///< a bound on its trained tensors, and on the matrices that it keeps
};

/// An option that is a whole number in [lo, hi].
template <class Config>
struct WholeNumberKey {
  const char* name;
  int64_t Config::*member;
  int64_t lo, hi;
  const char* meaning;
};

/// An option that is one of N names.
template <class Config, class Value, size_t N>
struct ChoiceKey {
  const char* name;
  Value Config::*member;
  std::array<std::pair<const char*, Value>, N> names;
  const char* meaning;
};

/// An option must be at most `limit`, which is `what` ("the embedding width").
struct OptionLimit {
  const char* key;
  int64_t value;
  int64_t limit;
  const char* what;
};

}  // namespace dlrm
