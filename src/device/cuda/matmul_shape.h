#pragma once
#include <cstdint>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/matmul.h"

namespace dlrm::cuda {

struct MatmulShape {
  int64_t m, n, k;
};

/// The sizes of `p`, which must fit one another.
inline MatmulShape shape_of(const Product& p) {
  const MatmulShape s{p.d.rows, p.d.cols, p.transpose_a ? p.a.rows : p.a.cols};
  DLRM_CHECK((p.transpose_a ? p.a.cols : p.a.rows) == s.m, "rows of a product");
  DLRM_CHECK((p.transpose_b ? p.b.rows : p.b.cols) == s.n, "columns of a product");
  DLRM_CHECK((p.transpose_b ? p.b.cols : p.b.rows) == s.k, "inner size of a product");
  DLRM_CHECK(s.m > 0 && s.n > 0 && s.k > 0, "an empty product");
  DLRM_CHECK(p.a.type == p.b.type && (p.d.type == p.a.type || p.d.type == DType::kFloat32),
             "types of a product");
  DLRM_CHECK(!p.c.data || (p.c.rows == s.m && p.c.cols == s.n && p.c.type == p.d.type),
             "what is added to a product");
  DLRM_CHECK((p.epilogue == Epilogue::kNone || p.epilogue == Epilogue::kDrelu) || p.bias,
             "an epilogue without its vector");
  return s;
}

/// Whether the epilogue reads or writes aux.
inline bool uses_aux(Epilogue e) {
  return e == Epilogue::kReluAuxBias || e == Epilogue::kGeluAuxBias || e == Epilogue::kDrelu ||
         e == Epilogue::kDreluBgrad;
}

}  // namespace dlrm::cuda
