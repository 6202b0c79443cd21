// A line with what Inference-Header-Content-Length says, and the body of a request to infer.
#include <cmath>

#include "fuzz.h"
#include "serve/kserve_request.h"

namespace dlrm::fuzz {
namespace {

using serve::KserveRequest;

constexpr int64_t kDense = 2;

const Inputs& inputs() {
  static const Inputs made = [] {
    ModelConfig model;
    model.dense_features = kDense;
    model.tables.resize(2);
    for (TableConfig& table : model.tables) {
      table.rows = 10;
      table.features.resize(1);
    }
    model.tables[0].features[0].name = "a";
    model.tables[1].features[0].name = "b";
    model.tables[1].features[0].weights = true;
    return inputs_of(model);
  }();
  return made;
}

/// Ends the process unless the elements of each tensor are its bytes.
void check(const KserveRequest& request) {
  for (const KserveRequest::Tensor& tensor : request.inputs) {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) {
      if (size < 0) fail("a shape with {}", size);
      if (size == 0 || elements == 0) {
        elements = 0;
      } else {
        elements *= size;
      }
    }
    const int64_t size = serve::kserve_type(tensor.name)->size;
    if (elements != tensor.elements) fail("{} elements, not {}", tensor.elements, elements);
    if (size > 0 && static_cast<int64_t>(tensor.bytes().size()) != elements * size) {
      fail("{} bytes for {} elements", tensor.bytes().size(), elements);
    }
  }
}

void check(const Samples& samples) {
  const auto size = static_cast<size_t>(samples.size);
  if (samples.dense.size() != kDense * size || samples.offsets.size() != 2 * size + 1 ||
      samples.offsets.back() != static_cast<int64_t>(samples.ids.size()) ||
      samples.weights.size() != samples.ids.size()) {
    fail("samples of other sizes");
  }
  for (const int64_t id : samples.ids) {
    if (id < 0 || id >= 10) fail("id {}", id);
  }
  for (const std::vector<float>* values : {&samples.dense, &samples.weights}) {
    for (const float value : *values) {
      if (!std::isfinite(value)) fail("a number is not finite");
    }
  }
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  if (line == std::string_view::npos) return 0;
  accepted(ExitCode::kUsage, [&] {
    const KserveRequest request =
        serve::read_kserve_request(text.substr(line + 1), text.substr(0, line));
    check(request);
    accepted(ExitCode::kUsage, [&] { check(serve::samples_of(request, inputs())); });
  });
  return 0;
}
