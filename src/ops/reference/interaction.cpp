#include <algorithm>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {
namespace {

/// The vectors v0 = x, v1..vF = e of one sample.
struct Vectors {
  const Matrix& x;
  const Matrix& e;
  int64_t sample;
  int64_t count() const { return 1 + (x.cols == 0 ? 0 : e.cols / x.cols); }
  double at(int64_t vector, int64_t c) const {
    return vector == 0 ? get(x, sample, c) : get(e, sample, (vector - 1) * x.cols + c);
  }
};

/// Column of product (i, j), j < i, in z.
int64_t product_column(int64_t width, int64_t i, int64_t j) { return width + i * (i - 1) / 2 + j; }

/// Columns of e that window k covers.
struct Window {
  int64_t begin;
  int64_t end;
};
Window window_of(int64_t k, int64_t width, int64_t window) {
  const int64_t count = (width + window - 1) / window;
  const int64_t left = (count * window - width) / 2;
  return {std::max<int64_t>(0, k * window - left), std::min(width, k * window - left + window)};
}

}  // namespace

void ReferenceOps::run(const DotForward& o) {
  const auto& [x, e, z] = o;
  for (int64_t r = 0; r < z.rows; ++r) {
    const Vectors v{x, e, r};
    for (int64_t c = 0; c < x.cols; ++c) set(z, r, c, get(x, r, c));
    for (int64_t i = 1; i < v.count(); ++i) {
      for (int64_t j = 0; j < i; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < x.cols; ++c) sum += v.at(i, c) * v.at(j, c);
        set(z, r, product_column(x.cols, i, j), sum);
      }
    }
  }
}

void ReferenceOps::run(const DotBackward& o) {
  const auto& [x, e, dz, dx, de] = o;
  for (int64_t r = 0; r < dz.rows; ++r) {
    const Vectors v{x, e, r};
    const int64_t vectors = v.count();
    for (int64_t i = 0; i < vectors; ++i) {
      for (int64_t c = 0; c < x.cols; ++c) {
        double sum = i == 0 ? get(dz, r, c) : 0.0;
        for (int64_t j = 0; j < vectors; ++j) {
          if (j == i) continue;
          sum += get(dz, r, product_column(x.cols, std::max(i, j), std::min(i, j))) * v.at(j, c);
        }
        if (i == 0) {
          set(dx, r, c, sum);
        } else {
          set(de, r, (i - 1) * x.cols + c, sum);
        }
      }
    }
  }
}

void ReferenceOps::run(const AveragePoolForward& o) {
  const auto& [e, window, y] = o;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t k = 0; k < y.cols; ++k) {
      const Window w = window_of(k, e.cols, window);
      double sum = 0;
      for (int64_t c = w.begin; c < w.end; ++c) sum += get(e, r, c);
      set(y, r, k, sum / static_cast<double>(w.end - w.begin));
    }
  }
}

void ReferenceOps::run(const AveragePoolBackward& o) {
  const auto& [dy, window, de] = o;
  for (int64_t r = 0; r < dy.rows; ++r) {
    for (int64_t k = 0; k < dy.cols; ++k) {
      const Window w = window_of(k, de.cols, window);
      const double share = get(dy, r, k) / static_cast<double>(w.end - w.begin);
      for (int64_t c = w.begin; c < w.end; ++c) set(de, r, c, share);
    }
  }
}

void ReferenceOps::run(const CrossForward& o) {
  const auto& [x0, t, y] = o;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) {
      set(y, r, c, get(x0, r, c) * get(t, r, c) + get(x0, r, c));
    }
  }
}

void ReferenceOps::run(const CrossBackward& o) {
  const auto& [x0, dy, du] = o;
  for (int64_t r = 0; r < dy.rows; ++r) {
    for (int64_t c = 0; c < dy.cols; ++c) set(du, r, c, get(x0, r, c) * get(dy, r, c));
  }
}

void ReferenceOps::run(const CrossInputBackward& o) {
  const auto& [x0, t, dy, dz, du, sum] = o;
  const int64_t b = dz.rows, layers = o.layers();
  for (int64_t r = 0; r < b; ++r) {
    for (int64_t c = 0; c < dz.cols; ++c) {
      const auto above = [&](int64_t l) {  // the gradient of the output of layer l
        return l + 1 < layers ? get(dy, l * b + r, c) : get(dz, r, c);
      };
      double total = above(0), below = 0;
      for (int64_t l = 0; l < layers; ++l) {
        const double here = get(t, l * b + r, c);
        total += (here - below) * above(l);
        below = here;
      }
      const double first = above(0);
      set(du, r, c, get(x0, r, c) * first);
      set(sum, r, c, total);
    }
  }
}

void ReferenceOps::run(const FmForward& o) {
  const auto& [x, e, z] = o;
  for (int64_t r = 0; r < z.rows; ++r) {
    const Vectors v{x, e, r};
    double fm = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < v.count(); ++i) {
        const double value = v.at(i, c);
        set(z, r, i * x.cols + c, value);
        sum += value;
        squares += value * value;
      }
      fm += 0.5 * (sum * sum - squares);
    }
    set(z, r, x.cols + e.cols, fm);
  }
}

void ReferenceOps::run(const FmBackward& o) {
  const auto& [x, e, dz, dx, de] = o;
  for (int64_t r = 0; r < dz.rows; ++r) {
    const Vectors v{x, e, r};
    const double g = get(dz, r, x.cols + e.cols);
    for (int64_t c = 0; c < x.cols; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < v.count(); ++i) sum += v.at(i, c);
      if (dx.data) set(dx, r, c, get(dz, r, c) + g * (sum - v.at(0, c)));
      for (int64_t i = 1; i < v.count(); ++i) {
        const double passed = get(dz, r, i * x.cols + c);
        set(de, r, (i - 1) * x.cols + c, passed + g * (sum - v.at(i, c)));
      }
    }
  }
}

}  // namespace dlrm::reference
