#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include <omp.h>

#include "dlrm/core/isa.h"

#include "error_of.h"
#include "fixture.h"

namespace dlrm {
namespace {

struct Layer {
  int64_t batch, in, out;
};
const Layer kLayers[] = {{1, 1, 1},     {8, 13, 512},  {5, 7, 3},   {2, 130, 1},   {37, 64, 1},
                         {19, 1, 17},   {64, 33, 65},  {3, 256, 8}, {129, 16, 31}, {147, 261, 20},
                         {10, 30, 517}, {10, 517, 30}, {300, 9, 20}};

/// These, every size from 1 to beyond the tiles, packs and bands that kernels are chosen by, one
/// dimension after the other, and few samples of wide layers.
std::vector<Layer> every_layer() {
  std::vector<Layer> all(std::begin(kLayers), std::end(kLayers));
  for (int64_t n = 1; n <= 36; ++n) {
    all.insert(all.end(), {{n, 7, 5}, {6, n, 5}, {6, 7, n}, {n, 40, 1}, {6, n, 1}});
  }
  for (int64_t batch = 1; batch <= 17; ++batch) {
    all.insert(all.end(), {{batch, 64, 8}, {batch, 65, 9}, {batch, 79, 14}, {batch, 367, 67}});
  }
  return all;
}

using Linear = EveryExecution;

TEST_P(Linear, LayersOfEverySizeAgreeWithTheReference) {
  for (const auto& [batch, in, out] : every_layer()) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      Cells x = Cells::random(batch, in, 1, type), w = Cells::random(out, in, 2, type);
      Cells bias = Cells::random(1, out, 3).rounded_to(type);
      const Cells gradient = Cells::random(batch, out, 4, type);
      const auto row_of = [](Cells& cells) {
        return View<float>(cells.floats().data, static_cast<size_t>(cells.cols()));
      };
      const auto run = [&, batch = batch, in = in, out = out](Ops& by) {
        std::vector<Cells> y(2, Cells(batch, out, type)), dx(2, Cells(batch, in, type));
        std::vector<Cells> dw(2, Cells(out, in)), db(2, Cells(1, out));
        Cells dz = gradient;
        const View<float> b = row_of(bias);
        by.linear_forward(x.matrix(), w.matrix(), b, Activation::kNone, y[0].matrix(), {});
        by.linear_forward(x.matrix(), w.matrix(), b, Activation::kRelu, y[1].matrix(), {});
        by.linear_backward_input(dz.matrix(), w.matrix(), dx[0].matrix());
        by.linear_backward_weight(dz.matrix(), x.matrix(), dw[0].floats(), row_of(db[0]));
        LinearBackward l;
        l.dy = dz.matrix(), l.x = x.matrix(), l.w = w.matrix(), l.dx = dx[1].matrix();
        l.dw = dw[1].floats(), l.dbias = row_of(db[1]);
        by.run(l);
        return std::array{y[0], y[1], dx[0], dx[1], dw[0], dw[1], db[0], db[1]};
      };
      const auto got = run(*ops), want = run(*reference);
      const double scale = 3 * std::sqrt(static_cast<double>(std::max({batch, in, out})));
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(close(got[i], want[i], scale))
            << batch << " x " << in << " -> " << out << " " << name_of(type) << ", result " << i;
      }
    }
  }
}

TEST_P(Linear, ReluPassesOnANan) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const Layer& l : kLayers) {
      Cells x = Cells::random(l.batch, l.in, 1, type), w = Cells::random(l.out, l.in, 2, type);
      x.set(l.batch - 1, 0, std::nanf(""));
      Cells y(l.batch, l.out, type);
      ops->linear_forward(x.matrix(), w.matrix(), {}, Activation::kRelu, y.matrix(), {});
      for (int64_t c = 0; c < l.out; ++c) {
        EXPECT_TRUE(std::isnan(y.at(l.batch - 1, c)))
            << l.batch << " x " << l.in << " -> " << l.out << " " << name_of(type);
      }
    }
  }
}

/// A layer's product to which a matrix is added, which may be the result.
void expect_added(Ops& ops, Ops& reference, const Layer& l, DType type, bool in_place) {
  Cells x = Cells::random(l.batch, l.in, 1, type), w = Cells::random(l.out, l.in, 2, type);
  Cells bias = Cells::random(1, l.out, 3).rounded_to(type);
  const auto added = [&](int64_t cols) { return Cells::random(l.batch, cols, 4, type); };
  const std::string what =
      fmt::format("{} x {} -> {} {}, in place {}", l.batch, l.in, l.out, name_of(type), in_place);
  for (const bool with_bias : {true, false}) {
    Cells apart = added(l.out), got = added(l.out), want(l.batch, l.out, type);
    if (!in_place) got = Cells(l.batch, l.out, type);
    LinearForward forward;
    forward.x = x.matrix(), forward.w = w.matrix();
    if (with_bias) forward.bias = {bias.floats().data, static_cast<size_t>(l.out)};
    forward.added = apart.matrix(), forward.y = want.matrix();
    reference.run(forward);
    forward.y = got.matrix();
    if (in_place) forward.added = got.matrix();
    ops.run(forward);
    EXPECT_TRUE(close(got, want, std::sqrt(static_cast<double>(l.in)) * 3)) << what;
  }
  Cells dz = Cells::random(l.batch, l.out, 5, type);
  Cells apart = added(l.in), got = added(l.in), want(l.batch, l.in, type);
  if (!in_place) got = Cells(l.batch, l.in, type);
  reference.run(LinearBackwardInput{dz.matrix(), w.matrix(), want.matrix(), apart.matrix()});
  ops.run(LinearBackwardInput{dz.matrix(), w.matrix(), got.matrix(),
                              in_place ? got.matrix() : apart.matrix()});
  EXPECT_TRUE(close(got, want, std::sqrt(static_cast<double>(l.out)) * 3)) << what;
}

TEST_P(Linear, AddsAMatrixToAProduct) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const Layer& l : kLayers) {
      for (const bool in_place : {false, true}) expect_added(*ops, *reference, l, type, in_place);
    }
  }
}

TEST_P(Linear, WhatIsAddedToAProductIsRoundedOnce) {
  // 1 + 2^-8 lies midway between neighbours in bf16. The product is a little more than 2^-8, but
  // would be rounded to that.
  for (const int64_t out : {1, 24}) {
    for (const int64_t in : {1, 16}) {
      const DType type = DType::kBFloat16;
      Cells x(5, in, type), w(out, in, type), ones(5, out, type), y(5, out, type);
      for (int64_t c = 0; c < in; ++c) {
        for (int64_t r = 0; r < 5; ++r) x.set(r, c, c == 0 ? 0x1p-8f * (1 + 0x1p-7f) : 0);
        for (int64_t r = 0; r < out; ++r) w.set(r, c, 1 - 0x1p-8f);
      }
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t c = 0; c < out; ++c) ones.set(r, c, 1);
      }
      const std::vector<float> bias(static_cast<size_t>(out), 0);
      LinearForward layer;
      layer.x = x.matrix(), layer.w = w.matrix(), layer.bias = bias;
      layer.y = y.matrix(), layer.added = ones.matrix();
      ops->run(layer);
      for (int64_t c = 0; c < out; ++c) EXPECT_EQ(y.at(4, c), 1 + 0x1p-7f) << in << " -> " << out;
    }
  }
}

TEST_P(Linear, TheInputGradientOfALayerWithoutOutputsIsWhatIsAdded) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Cells dz(4, 0, type), w(0, 9, type), added = Cells::random(4, 9, 1, type), dx(4, 9, type);
    ops->run(LinearBackwardInput{dz.matrix(), w.matrix(), dx.matrix(), added.matrix()});
    EXPECT_TRUE(dx.same_bits(added));
  }
}

/// The stride of a single row has no meaning. The same operations then multiply rows with gaps.
TEST_P(Linear, ASingleRowMayHaveAnyStride) {
  if (GetParam().copies()) GTEST_SKIP() << "arguments in the host's memory";
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t rows : {1, 2, 1}) {
      Cells x = Cells::random(rows, 9, 1, type), w = Cells::random(5, 9, 2, type);
      Cells y(rows, 5, type), want = y, dx(rows, 9, type), want_dx = dx, dw(5, 9), want_dw = dw;
      const auto single = [&](Cells& cells) {
        Matrix m = cells.matrix();
        if (rows == 1) m.stride = 3;
        return m;
      };
      ops->linear_forward(single(x), w.matrix(), {}, Activation::kNone, single(y), {});
      reference->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, want.matrix(), {});
      EXPECT_TRUE(close(y, want, 9)) << rows;
      ops->linear_backward_input(single(y), w.matrix(), single(dx));
      reference->linear_backward_input(y.matrix(), w.matrix(), want_dx.matrix());
      EXPECT_TRUE(close(dx, want_dx, 9)) << rows;
      ops->linear_backward_weight(single(y), single(x), dw.floats(), {});
      reference->linear_backward_weight(y.matrix(), x.matrix(), want_dw.floats(), {});
      EXPECT_TRUE(close(dw, want_dw, 9)) << rows;
    }
  }
}

TEST_P(Linear, ALayerWithoutInputsOrOutputsIsItsBias) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Cells none(5, 0, type), no_weights(7, 0, type), bias = Cells::random(1, 7, 3).rounded_to(type);
    const View<const float> b(bias.floats().data, 7);
    for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kTanh}) {
      Cells y = Cells::random(5, 7, 4, type), want = y;
      ops->linear_forward(none.matrix(), no_weights.matrix(), b, act, y.matrix(), {});
      reference->linear_forward(none.matrix(), no_weights.matrix(), b, act, want.matrix(), {});
      EXPECT_TRUE(close(y, want, 3)) << name_of(type);
    }
    // Its outputs' gradients reach the bias alone.
    Cells dz = Cells::random(5, 7, 5, type), dw(7, 0), db(1, 7), want_db(1, 7);
    ops->linear_backward_weight(dz.matrix(), none.matrix(), dw.floats(), {db.floats().data, 7});
    reference->linear_backward_weight(dz.matrix(), none.matrix(), dw.floats(),
                                      {want_db.floats().data, 7});
    EXPECT_TRUE(close(db, want_db, 10)) << name_of(type);
    // Without outputs, inputs have no gradient.
    Cells no_outputs(0, 6, type), dx = Cells::random(5, 6, 6, type);
    ops->linear_backward_input(none.matrix(), no_outputs.matrix(), dx.matrix());
    for (int64_t c = 0; c < 30; ++c) EXPECT_EQ(dx.at(c / 6, c % 6), 0);
    EXPECT_TRUE(dx.margins_untouched());
  }
}

TEST_P(Linear, TheCallersNumberOfThreadsStays) {
  for (const int threads : {1, 3, 5}) {
    omp_set_num_threads(threads);
    for (const int64_t n : {3, 200}) {
      Cells x = Cells::random(n, n, 1), w = Cells::random(n, n, 2), y(n, n);
      ops->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, y.matrix(), {});
      EXPECT_EQ(omp_get_max_threads(), threads);
    }
  }
  omp_set_num_threads(2);
}

TEST_P(Linear, RanksAsThreadsComputeTheResultsOfOneRank) {
  Cells x = Cells::random(90, 70, 1), w = Cells::random(50, 70, 2), alone(90, 50);
  ops->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, alone.matrix(), {});
  std::vector<Cells> got(4, Cells(90, 50));
  std::vector<std::thread> ranks;
  for (Cells& mine : got) {
    ranks.emplace_back([&] {
      auto own = machine.run_as(GetParam());
      for (int i = 0; i < 5; ++i) {
        own->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, mine.matrix(), {});
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const Cells& mine : got) EXPECT_TRUE(mine.same_bits(alone));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Linear, testing::ValuesIn(executions()), execution_name);

/// Products are cut into tiles of 8 rows and 16 columns at least, of any rest.
TEST(CpuProducts, OfAnyNumberOfThreadsAgreeWithTheReference) {
  const Machine machine;
  for (const int threads : {2, 3, 7, 8, 16}) {
    const auto ops = make_checked_ops(machine.cpu({"", threads}), *machine.device, *machine.stream);
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const auto& [batch, in, out] :
           {std::array<int64_t, 3>{300, 129, 33}, {9, 700, 210}, {1030, 17, 150}, {131, 300, 15}}) {
        Cells x = Cells::random(batch, in, 1, type), w = Cells::random(out, in, 2, type);
        Cells y = Cells::random(batch, out, 3, type), dx = Cells::random(batch, in, 4, type);
        std::vector<float> bias(static_cast<size_t>(out), 0.5f), dw(static_cast<size_t>(out * in));
        std::vector<float> dbias(bias.size());
        EXPECT_NO_THROW({
          ops->linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {});
          ops->run(LinearBackwardInput{y.matrix(), w.matrix(), dx.matrix(), {}});
          ops->linear_backward_weight(y.matrix(), x.matrix(), {dw.data(), out, in}, dbias);
        }) << threads
           << " threads, " << batch << " x " << in << " x " << out;
      }
    }
  }
}

TEST(CpuOps, UseTheInstructionSetThatIsAskedFor) {
  for (const OpsExecution& e : executions()) {
    if (e.gpu()) continue;
    const std::string name = Machine().cpu(e)->name();
    EXPECT_EQ(name.rfind("cpu " + e.isa, 0), 0u) << name;
    EXPECT_EQ(Machine().cpu(e)->threads(), e.threads);
  }
  const std::string best = Machine().cpu({"", 1})->name();
  // Its products of bf16 are those of the set that was asked for.
  if (best.rfind("cpu avx512", 0) == 0) {
    EXPECT_EQ(Machine().cpu({"avx512", 1})->name(), best);
  }
  // A set that is refused by mistake is not among the executions that tests run.
  if (vector_isa() >= Isa::kAvx2) {
    EXPECT_EQ(Machine().cpu({"avx2", 1})->name(), "cpu avx2");
  }
  for (const char* isa : {"sse9", "avx", "AVX2", " "}) {
    EXPECT_THAT(usage_error_of([&] {
                  Machine().cpu({isa, 1});
                }),
                ::testing::HasSubstr("'" + std::string(isa) + "'"));
  }
  EXPECT_THROW(Machine().cpu({"", 0}), std::exception);
}

TEST(ReferenceLinear, AKnownLayerIsRight) {
  Machine machine;
  Cells x(1, 2), w(2, 2), bias(1, 2), y(1, 2);
  x.set(0, 0, 2), x.set(0, 1, 3);
  w.set(0, 0, 1), w.set(0, 1, 10), w.set(1, 0, -1), w.set(1, 1, -10);
  bias.set(0, 0, 0.5f), bias.set(0, 1, 0.25f);
  machine.reference()->linear_forward(x.matrix(), w.matrix(), {bias.floats().data, 2},
                                      Activation::kRelu, y.matrix(), {});
  EXPECT_EQ(y.at(0, 0), 32.5f);
  EXPECT_EQ(y.at(0, 1), 0.0f);
}

}  // namespace
}  // namespace dlrm
