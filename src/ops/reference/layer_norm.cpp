#include "dlrm/ops/layer_norm.h"

#include <algorithm>
#include <vector>

#include "reference/activation.h"
#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::run(const LayerNormForward& o) {
  const auto n = static_cast<double>(o.x.cols);
  for (int64_t r = 0; r < o.x.rows && o.x.cols > 0; ++r) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < o.x.cols; ++c) sum += get(o.x, r, c);
    const double mean = sum / n;
    for (int64_t c = 0; c < o.x.cols; ++c) squares += std::pow(get(o.x, r, c) - mean, 2);
    const double inverse = 1 / std::sqrt(squares / n + kLayerNormEps);
    const auto row = static_cast<size_t>(r);
    o.means[row] = static_cast<float>(mean);
    o.inverse_spreads[row] = static_cast<float>(inverse);
    for (int64_t c = 0; c < o.x.cols; ++c) {
      const auto unit = static_cast<size_t>(c);
      const double z = o.scale[unit] * ((get(o.x, r, c) - mean) * inverse) + o.shift[unit];
      if (needs_input(o.act)) set(o.z, r, c, z);
      set(o.y, r, c, activated(o.act, z));
    }
  }
}

void ReferenceOps::run(const LayerNormBackward& o) {
  const int64_t n = o.x.cols;
  std::vector<double> dscale(static_cast<size_t>(n)), dshift(dscale), units(dscale), g(dscale);
  for (int64_t r = 0; r < o.x.rows; ++r) {
    const double mean = o.means[static_cast<size_t>(r)];
    const double inverse = o.inverse_spreads[static_cast<size_t>(r)];
    double g_sum = 0, product_sum = 0;
    for (int64_t c = 0; c < n; ++c) {
      const auto i = static_cast<size_t>(c);
      const double dz = get(o.dz, r, c);
      units[i] = (get(o.x, r, c) - mean) * inverse;
      g[i] = o.scale[i] * dz;
      g_sum += g[i];
      product_sum += g[i] * units[i];
      dscale[i] += dz * units[i];
      dshift[i] += dz;
    }
    for (int64_t c = 0; c < n; ++c) {
      const auto i = static_cast<size_t>(c);
      const auto count = static_cast<double>(n);
      set(o.dz, r, c, inverse * (g[i] - g_sum / count - units[i] * product_sum / count));
    }
  }
  std::copy(dscale.begin(), dscale.end(), o.dscale.begin());
  std::copy(dshift.begin(), dshift.end(), o.dshift.begin());
}

}  // namespace dlrm::reference
