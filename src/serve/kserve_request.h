#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/data/record_inputs.h"

namespace dlrm::serve {

/// A request of the Open Inference Protocol (KServe v2): an object of JSON, and the bytes of the
/// tensors whose data it does not have.
struct KserveRequest {
  /// Its bytes are little-endian and without gaps. An element of type BYTES is its length, uint32,
  /// and so many bytes.
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    int64_t elements = 0;
    std::string_view binary;  ///< bytes of the body
    std::string own;          ///< bytes of what the JSON has
    std::string_view bytes() const { return own.empty() ? binary : own; }
  };
  struct Output {
    std::string name;
    bool binary = false;
  };
  std::string id;
  std::vector<Tensor> inputs;
  std::vector<Output> outputs;     ///< that are asked for; empty: all
  bool binary_by_default = false;  ///< outputs, if none is named

  const Tensor* find(std::string_view name) const;
};

/// What the tensors of a request may be.
struct KserveType {
  const char* name;
  const char* type;  ///< datatype of the protocol
  int64_t size;      ///< bytes of an element; 0: they differ
};
const KserveType* kserve_type(std::string_view name);

/// Reads a body. The header field Inference-Header-Content-Length says how many bytes of JSON it
/// begins with; empty: it is JSON. A usage_error names the tensor and what would be right. The
/// result refers to the body.
KserveRequest read_kserve_request(std::string_view body, std::string_view header_length);

/// The samples of the tensors dense, lengths, ids and weights.
Samples samples_of(const KserveRequest& request, const Inputs& inputs);

/// The samples of the tensors records and shared.
Samples samples_of(const KserveRequest& request, const RecordInputs& inputs);

}  // namespace dlrm::serve
