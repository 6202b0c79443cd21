#pragma once
#include <cstdint>

namespace dlrm {

/// The skewed distribution of ids over [0, rows): id = ⌊(r·((rows + 1)^g − 1) + 1)^(1/g)⌋ − 1 with
/// r ~ U[0, 1) and g = 1 − alpha, as the synthetic models of NVIDIA's distributed-embeddings draw
/// theirs. 0 is the hottest id; alpha 0 is uniform; alpha 1 is the formula's limit.
struct PowerLaw {
  PowerLaw(int64_t rows, double alpha);

  int64_t rows;
  double span;     ///< (rows + 1)^g − 1; at alpha 1 ln(rows + 1)
  double inverse;  ///< 1/g; 0 stands for alpha 1; 1 (alpha 0) is uniform
};

/// Elements [first, first + count) of the endless sequence (key, stream) of ids. Element e takes 52
/// random bits from words 2·(e mod 2) and the next of Philox counter {e/2 low, e/2 high, stream,
/// 4}, so any part may be drawn anywhere. Bitwise the same on every instruction set.
void draw_ids(const PowerLaw& law, uint64_t key, uint32_t stream, uint64_t first, int64_t count,
              int64_t* out);

/// The same for floats u·scale, u ~ U[0, 1) in steps of 2^-24: element e is word e mod 4 of counter
/// {e/4 low, e/4 high, stream, 5}.
void draw_uniform(uint64_t key, uint32_t stream, uint64_t first, int64_t count, float scale,
                  float* out);

}  // namespace dlrm
