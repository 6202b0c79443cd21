// Matrices whose rows follow each other without gaps, of every small size. Kernels may take all
// their elements as one long row, except where the column matters.
#include <array>

#include "bags.h"

namespace dlrm {
namespace {

constexpr std::array kPackedTypes{DType::kFloat32, DType::kBFloat16};

class PackedMatrices : public EveryExecution {
 protected:
  /// Calls work(rows, cols, type) for matrices that end within a pack of elements, within the first
  /// pack of a row only, or with a pack.
  template <class Work>
  static void in_every_size(const Work& work) {
    for (const DType type : kPackedTypes) {
      for (const int64_t rows : {1, 2, 3, 4, 8}) {
        for (int64_t cols = 1; cols <= 9; ++cols) {
          SCOPED_TRACE(fmt::format("{} x {} {}", rows, cols, name_of(type)));
          work(rows, cols, type);
        }
      }
    }
  }
  static Cells packed(int64_t rows, int64_t cols, unsigned seed, DType type) {
    return Cells::random(rows, cols, seed, type, 0);
  }
  /// work(execution, results) on equal results for both executions.
  template <class Work>
  void compare(const std::vector<Cells>& results, double scale, const Work& work) {
    std::vector<Cells> got = results, want = results;
    work(*ops, got);
    work(*reference, want);
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(close(got[i], want[i], scale)) << "result " << i;
    }
  }
};

/// The bias of a column is that of the column in each row. It begins aligned, or does not.
TEST_P(PackedMatrices, OfLayersGetTheBiasesOfTheirColumns) {
  in_every_size([&](int64_t rows, int64_t cols, DType type) {
    Cells bias = Cells::random(1, cols + 1, 1, DType::kFloat32, 0).rounded_to(type);
    Cells x = packed(rows, 1, 2, type), w = packed(cols, 1, 3, type);
    for (const int64_t inputs : {0, 1}) {
      for (const int64_t shift : {0, 1}) {
        const View<const float> b(bias.floats().data + shift, static_cast<size_t>(cols));
        for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
          compare({packed(rows, cols, 4, type), packed(rows, cols, 5, type)},
                  type == DType::kFloat32 ? 20 : 8000, [&](Ops& run, std::vector<Cells>& r) {
                    run.linear_forward(Matrix(x.matrix().data, type, rows, inputs),
                                       Matrix(w.matrix().data, type, cols, inputs), b, act,
                                       r[0].matrix(), needs_input(act) ? r[1].matrix() : Matrix());
                  });
        }
      }
    }
  });
}

TEST_P(PackedMatrices, AreComputedElementByElement) {
  in_every_size([&](int64_t rows, int64_t cols, DType type) {
    Cells a = packed(rows, cols, 1, type), b = packed(rows, cols, 2, type);
    const Cells c = packed(rows, cols, 3, type);
    for (const DType to : kPackedTypes) {
      compare({packed(rows, cols, 4, to)}, 1, [&](Ops& run, std::vector<Cells>& r) {
        run.convert(a.matrix(), r[0].matrix());
        run.add(b.matrix(), r[0].matrix());
      });
    }
    for (const Activation act : {Activation::kRelu, Activation::kGelu, Activation::kSigmoid}) {
      compare({c}, 2, [&](Ops& run, std::vector<Cells>& r) {
        run.activation_backward(act, a.matrix(), b.matrix(), r[0].matrix());
      });
    }
    compare({c, c}, 2, [&](Ops& run, std::vector<Cells>& r) {
      run.cross_forward(a.matrix(), b.matrix(), r[0].matrix());
      run.cross_backward(a.matrix(), b.matrix(), r[1].matrix());
    });
    compare({c}, 1, [&](Ops& run, std::vector<Cells>& r) {  // the sum over no outputs
      run.linear_backward_input(Matrix(a.matrix().data, type, rows, 0),
                                Matrix(b.matrix().data, type, 0, cols), r[0].matrix());
    });
    compare({c}, 1, [&](Ops& run, std::vector<Cells>& r) {
      for (const bool accumulate : {false, true}) {
        BlockCopy block;
        block.src = a.matrix().data, block.dst = r[0].matrix().data;
        block.src_type = block.dst_type = type, block.src_stride = block.dst_stride = cols;
        block.rows = rows, block.cols = cols, block.accumulate = accumulate;
        run.copy_blocks({&block, 1});
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Every, PackedMatrices, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
