#pragma once
#include <string>
#include <vector>

#include "dlrm/data/samples.h"

namespace dlrm::serve {

/// Of 10 and 4 rows, beside two dense features.
inline Inputs two_features() {
  ModelConfig model;
  model.dense_features = 2;
  model.tables.resize(2);
  model.tables[0].rows = 10;
  model.tables[0].features = {{"C1"}};
  model.tables[1].rows = 4;
  model.tables[1].features = {{"C2"}};
  return inputs_of(model);
}

/// As a body has them.
template <class T>
std::string bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace dlrm::serve
