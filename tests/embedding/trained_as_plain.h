#pragma once
#include "training.h"

namespace dlrm::testing {

inline void expect_close(const std::vector<float>& values, const std::vector<double>& expected,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

inline void expect_trained_as(const PlainTables& plain, const Tensors& tensors,
                              const EmbeddingOptions& options, double tolerance) {
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const std::string path = "/tables/" + options.tables[t].name;
    const PlainTables::Table& expected = plain.table(t);
    expect_close(tensors.at(path + "/weight"), expected.weight, tolerance, path + "/weight");
    const OptimizerTraits& traits = traits_of(options.optimizer.type);
    const std::vector<double>* const states[] = {&expected.state1, &expected.state2};
    for (int i = 0; i < traits.state_count(); ++i) {
      std::vector<double> state;
      const int64_t apart = traits.rowwise() ? options.tables[t].dim : 1;
      for (size_t at = 0; at < states[i]->size(); at += static_cast<size_t>(apart)) {
        state.push_back((*states[i])[at]);
      }
      const std::string name = path + "/" + traits.states[i].name;
      expect_close(tensors.at(name), state, tolerance, name);
    }
  }
}

}  // namespace dlrm::testing
