#pragma once
#include "dlrm/core/dtype.h"
#include "dlrm/core/error.h"

namespace dlrm {

/// Returns body.template operator()<T>() with T the type of activations and weights: float or
/// BFloat16. Throws run_error for other types. A switch that lacks a type does not compile.
template <class Body>
decltype(auto) dispatch_compute(DType type, const Body& body) {
  switch (type) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      break;
  }
  throw run_error("{} is no type to compute in", name_of(type));
}

}  // namespace dlrm
