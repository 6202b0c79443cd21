// Operations on memory of which one operand is not aligned, or has rows that are not.
#include <functional>
#include <string>
#include <vector>

#include "bags.h"

namespace dlrm {
namespace {

struct Shape {
  int64_t rows, cols;
  DType type = DType::kFloat32;
};

/// How the memory of a matrix differs from the best one.
enum class Flaw { kNone, kPacked, kShifted, kStride };

/// A matrix of random numbers, with space between its rows unless they are packed. The best memory
/// begins, and its rows do, at multiples of eight elements.
Cells matrix_of(const Shape& shape, Flaw flaw, unsigned seed) {
  int64_t left = 8, right = 16 - shape.cols % 8;
  if (flaw == Flaw::kPacked) left = right = 0;
  if (flaw == Flaw::kShifted) ++left, --right;
  if (flaw == Flaw::kStride) ++right;
  Cells cells(shape.rows, shape.cols, shape.type, left, right);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> numbers(0.1f, 2.0f);
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t c = 0; c < shape.cols; ++c) cells.set(r, c, numbers(generator));
  }
  return cells;
}

using Fields = std::vector<Cells>;
using Call = std::function<void(Ops&, Fields&)>;

class Alignment : public EveryExecution {
 protected:
  /// Runs `call` on matrices of these shapes, one of which has a flaw, and compares with the
  /// reference on the same numbers.
  void check(const std::string& name, const std::vector<Shape>& shapes, const Call& call) {
    compare(name, shapes, Flaw::kNone, shapes.size(), call);
    compare(name, shapes, Flaw::kPacked, shapes.size(), call);
    for (size_t which = 0; which < shapes.size(); ++which) {
      for (const Flaw flaw : {Flaw::kPacked, Flaw::kShifted, Flaw::kStride}) {
        compare(name, shapes, flaw, which, call);
      }
    }
  }

 private:
  /// `which`: the matrix with the flaw; all if there is none of this number.
  void compare(const std::string& name, const std::vector<Shape>& shapes, Flaw flaw, size_t which,
               const Call& call) {
    Fields got;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Flaw own = i == which || which == shapes.size() ? flaw : Flaw::kNone;
      got.push_back(matrix_of(shapes[i], own, static_cast<unsigned>(i) + 1));
    }
    Fields want = got;
    call(*ops, got);
    call(*reference, want);
    for (size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_TRUE(close(got[i], want[i], 30))
          << name << ": matrix " << i << " with flaw " << static_cast<int>(flaw) << " of " << which;
    }
  }
};

TEST_P(Alignment, OfInteractionsIsFreeForEachMatrix) {
  for (const DType type : kTypes) {
    for (const int64_t b : {1, 5}) {
      const Shape x{b, 8, type}, e{b, 24, type};
      check("dot forward", {x, e, {b, 14, type}},
            [](Ops& o, Fields& f) { o.dot_forward(f[0].matrix(), f[1].matrix(), f[2].matrix()); });
      check("dot backward", {x, e, {b, 14, type}, x, e}, [](Ops& o, Fields& f) {
        o.dot_backward(f[0].matrix(), f[1].matrix(), f[2].matrix(), f[3].matrix(), f[4].matrix());
      });
      check("fm forward", {x, e, {b, 33, type}}, [](Ops& o, Fields& f) {
        o.run(FmForward{f[0].matrix(), f[1].matrix(), f[2].matrix()});
      });
      check("fm backward", {x, e, {b, 33, type}, x, e}, [](Ops& o, Fields& f) {
        o.run(
            FmBackward{f[0].matrix(), f[1].matrix(), f[2].matrix(), f[3].matrix(), f[4].matrix()});
      });
      check("cross forward", {x, x, x}, [](Ops& o, Fields& f) {
        o.cross_forward(f[0].matrix(), f[1].matrix(), f[2].matrix());
      });
      check("cross backward", {x, x, x}, [](Ops& o, Fields& f) {
        o.cross_backward(f[0].matrix(), f[1].matrix(), f[2].matrix());
      });
      check("cross input backward", {x, {2 * b, 8, type}, x, x, x, x}, [](Ops& o, Fields& f) {
        o.cross_input_backward(f[0].matrix(), f[1].matrix(), f[2].matrix(), f[3].matrix(),
                               f[4].matrix(), f[5].matrix());
      });
      check("pool forward", {e, {b, 4, type}},
            [](Ops& o, Fields& f) { o.average_pool_forward(f[0].matrix(), 7, f[1].matrix()); });
      check("pool backward", {{b, 4, type}, e},
            [](Ops& o, Fields& f) { o.average_pool_backward(f[0].matrix(), 7, f[1].matrix()); });
    }
  }
}

TEST_P(Alignment, OfLayersIsFreeForEachMatrix) {
  for (const DType type : kTypes) {
    const Shape x{6, 16, type}, w{8, 16, type}, y{6, 8, type}, dw{8, 16};
    for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      if (act == Activation::kNone) {
        check("forward, added", {x, w, y, y, {1, 8}}, [](Ops& o, Fields& f) {
          LinearForward layer;
          layer.x = f[0].matrix(), layer.w = f[1].matrix();
          layer.bias = {f[4].floats().data, 8};
          layer.y = f[2].matrix(), layer.added = f[3].matrix();
          o.run(layer);
        });
      }
      check("forward", {x, w, y, y, {1, 8}}, [act](Ops& o, Fields& f) {
        o.linear_forward(f[0].matrix(), f[1].matrix(), {f[4].floats().data, 8}, act, f[2].matrix(),
                         needs_input(act) ? f[3].matrix() : Matrix());
      });
      check("activation backward", {y, y, y}, [act](Ops& o, Fields& f) {
        o.activation_backward(act, f[0].matrix(), f[1].matrix(), f[2].matrix());
      });
    }
    check("backward input", {y, w, x}, [](Ops& o, Fields& f) {
      o.linear_backward_input(f[0].matrix(), f[1].matrix(), f[2].matrix());
    });
    check("backward weight", {y, x, dw, {1, 8}}, [](Ops& o, Fields& f) {
      const MatrixView<float> dbias = f[3].floats();
      o.linear_backward_weight(f[0].matrix(), f[1].matrix(), f[2].floats(), {dbias.data, 8});
    });
    // A layer of one output has kernels of its own.
    check("one output", {{40, 16, type}, {1, 16, type}, {40, 1, type}}, [](Ops& o, Fields& f) {
      const std::vector<float> bias(1, 0.5f);
      o.linear_forward(f[0].matrix(), f[1].matrix(), bias, Activation::kNone, f[2].matrix(), {});
    });
    check("backward input of one output", {{40, 1, type}, {1, 16, type}, {40, 16, type}},
          [](Ops& o, Fields& f) {
            o.linear_backward_input(f[0].matrix(), f[1].matrix(), f[2].matrix());
          });
    check("backward weight of one output", {{40, 1, type}, {40, 16, type}, {1, 16}, {1, 1}},
          [](Ops& o, Fields& f) {
            const MatrixView<float> dbias = f[3].floats();
            o.linear_backward_weight(f[0].matrix(), f[1].matrix(), f[2].floats(), {dbias.data, 1});
          });
  }
}

TEST_P(Alignment, OfRowsThatAreUpdatedIsFree) {
  const std::vector<int64_t> rows{0, 2, 3, 6}, count{4};
  for (const OptimizerStep& step : every_rule(kSparse)) {
    const int states = traits_of(step.rule).state_count();
    const bool rowwise = traits_of(step.rule).rowwise();
    for (const DType type : kTypes) {
      for (const int64_t width : {6, 8, 13}) {
        const int64_t state_width = rowwise ? 1 : width;
        std::vector<Shape> shapes{{7, width, type}, {4, width}};
        for (int s = 0; s < states; ++s) shapes.push_back({7, state_width});
        check("update", shapes, [&](Ops& o, Fields& f) {
          RowTable table;
          const Matrix w = f[0].matrix();
          table.weights = w.data, table.type = type;
          table.rows = 7, table.width = width, table.stride = w.stride;
          if (states > 0)
            table.state1 = f[2].floats().data, table.state_stride = f[2].floats().stride;
          if (states > 1) {
            if (f[3].floats().stride != table.state_stride) return;  // one stride for both
            table.state2 = f[3].floats().data;
          }
          o.sparse_update(step, table, rows, count, f[1].floats(), {}, width);
        });
      }
    }
  }
}

TEST_P(Alignment, OfRowsThatAreLookedUpIsFree) {
  const std::vector<int64_t> ids{0, 6, 3, 3, 1, 5}, offsets{0, 2, 2, 5, 6};
  for (const DType type : kTypes) {
    for (const int64_t width : {6, 8, 13, 130}) {
      check("lookup", {{7, width, type}, {4, width}}, [&](Ops& o, Fields& f) {
        BagGroup g;
        const Matrix w = f[0].matrix();
        g.table.weights = w.data, g.table.type = type;
        g.table.rows = 7, g.table.width = width, g.table.stride = w.stride;
        g.ids = ids.data(), g.offsets = offsets.data(), g.bags = 4, g.capacity = 6;
        g.pooled = f[1].floats();
        o.embedding_bag_forward({&g, 1});
      });
    }
  }
  const std::vector<int64_t> rows{0, 2, 3, 6}, starts{0, 1, 3, 4, 6}, count{4};
  const std::vector<Occurrence> occurrences{{0, 0}, {0, 1}, {0, 2}, {0, 0}, {0, 1}, {0, 1}};
  for (const int64_t width : {6, 8, 13, 130}) {
    check("gradients", {{3, width}, {4, width}}, [&](Ops& o, Fields& f) {
      std::vector<int64_t> r = rows, s = starts, n = count;
      std::vector<Occurrence> k = occurrences;
      const BagGradient gradient{f[0].floats(), nullptr};
      o.embedding_bag_backward({r, s, k, n}, {&gradient, 1}, f[1].floats());
    });
    check("squares", {{4, width}, {1, 4}}, [&](Ops& o, Fields& f) {
      o.row_square_sums(count, f[0].floats(), {f[1].floats().data, 4});
    });
    check("sums by row", {{3, width}, {7, width}, {1, 7}}, [&](Ops& o, Fields& f) {
      std::vector<int64_t> r = rows, s = starts, n = count;
      std::vector<Occurrence> k = occurrences;
      const BagGradient gradient{f[0].floats(), nullptr};
      const UpdatedShard table{{}, {}, {&gradient, 1}, {r, s, k, n}};
      const TableGradients to{f[1].floats(), {f[2].floats().data, 7}};
      o.sum_table_gradients({&table, 1}, {&to, 1});
    });
    check("whole tables", {{7, width}, {7, width}}, [&](Ops& o, Fields& f) {
      RowTable table;
      table.weights = f[0].floats().data, table.stride = f[0].floats().stride;
      table.rows = 7, table.width = width;
      std::vector<float> touched{1, 0, 1, 1, 0, 0, 1};
      const TableUpdate update{table, {f[1].floats(), touched}};
      OptimizerStep step;
      step.rule = OptimizerRule::kSgd, step.lr = 0.5f;
      o.update_tables(step, {&update, 1});
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Alignment, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
