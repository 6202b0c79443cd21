// Operations on several threads, with shapes on both sides of each limit beyond which another
// thread helps or another kernel serves, compared with the fp64 reference. Other tests have too
// little work for several threads.
#include <cmath>
#include <deque>

#include "bags.h"

namespace dlrm {
namespace {

/// A matrix of values that are drawn anew each time. They are multiples of 1/16, so that long sums
/// of them are exact.
struct Drawn : Cells {
  Drawn(int64_t rows, int64_t cols) : Cells(Cells::random(rows, cols, ++drawn)) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) floats()(r, c) = std::round(16 * floats()(r, c)) / 16;
    }
  }
  static inline unsigned drawn = 0;
};

std::vector<float> drawn_values(int64_t count) {
  Drawn cells(1, count);
  return {cells.floats().data, cells.floats().data + count};
}

class CpuThreads : public testing::Test {
 protected:
  static constexpr int kThreads = 3;

  /// Compares what each operation of `work` writes with the fp64 reference.
  template <class Work>
  void compare(const std::string& what, const Work& work) {
    const auto device = make_guarded_device(1);
    const auto stream = device->make_stream();
    const auto ops = make_checked_ops(make_cpu_ops(*device, *stream, kThreads), *device, *stream);
    try {
      work(*ops);
    } catch (const Error& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  }
  /// Compares work(n) for sizes with the given numbers of elements and one less.
  template <class Work>
  void at_limits(const std::string& what, std::vector<int64_t> limits, const Work& work) {
    for (const int64_t limit : limits) {
      for (const int64_t n : {limit - 1, limit}) {
        compare(fmt::format("{} {}", what, n), [&](Ops& ops) { work(ops, n); });
      }
    }
  }

  void add_movements();
  void add_layers();
  void add_interactions();
  void add_lookups();
  void add_groups();
  void add_updates();
};

constexpr int64_t kGrain = 16384;

TEST_F(CpuThreads, MoveAsTheReference) { add_movements(); }
TEST_F(CpuThreads, ComputeLayersAsTheReference) { add_layers(); }
TEST_F(CpuThreads, ComputeInteractionsAsTheReference) { add_interactions(); }
TEST_F(CpuThreads, PoolAsTheReference) { add_lookups(); }
TEST_F(CpuThreads, GroupRowsAsTheReference) { add_groups(); }
TEST_F(CpuThreads, UpdateAsTheReference) { add_updates(); }

void CpuThreads::add_movements() {
  at_limits("copy_blocks of", {2 * kGrain, 3 * kGrain}, [](Ops& ops, int64_t n) {
    std::vector<float> from = drawn_values(n), to(from.size());
    BlockCopy b;
    b.src = from.data(), b.dst = to.data(), b.rows = 1, b.cols = b.src_stride = b.dst_stride = n;
    ops.copy_blocks({&b, 1});
  });
  at_limits("convert 4 x", {kGrain / 2, 3 * kGrain / 4}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), y(4, n);
    ops.convert(x.matrix(), y.matrix());
  });
  at_limits("add 4 x", {kGrain / 2, 3 * kGrain / 4}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), y(4, n);
    ops.add(x.matrix(), y.matrix());
  });
  at_limits("add_row_sums 4 x", {kGrain / 2, 3 * kGrain / 4}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), y(4, 1);
    ops.run(RepeatColumn{y.matrix(), x.matrix()});
    ops.run(AddRowSums{x.matrix(), y.matrix()});
  });
  at_limits("fill_zero of", {2 << 20, 3 << 20}, [](Ops& ops, int64_t n) {
    std::vector<char> bytes(static_cast<size_t>(n));
    ops.fill_zero(bytes.data(), n);
  });
  at_limits("layer_norm of 4 x", {4096, 6144}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), y(4, n);
    const std::vector<float> scale = drawn_values(n), shift = drawn_values(n);
    std::vector<float> means(4), inverse(4), dscale(scale.size()), dshift(scale.size());
    ops.run(LayerNormForward{
        x.matrix(), scale, shift, Activation::kRelu, y.matrix(), {}, means, inverse});
    ops.run(LayerNormBackward{x.matrix(), scale, means, inverse, y.matrix(), dscale, dshift});
  });
  at_limits("dropout of 4 x", {2048, 3072}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), y(4, n);
    ops.dropout(3, 0.5, {5, 6}, x.matrix(), y.matrix());
  });
  at_limits("find_non_finite 4 x", {kGrain / 2, 3 * kGrain / 4}, [](Ops& ops, int64_t n) {
    Cells x = Cells::random(4, n, 1);
    std::vector<float> bad(1);
    ops.find_non_finite(x.matrix(), bad);
  });
  for (const InitType type : kInitTypes) {
    at_limits("fill_rows 4 x", {kGrain / 2, 3 * kGrain / 4}, [type](Ops& ops, int64_t n) {
      Table table(4, n, DType::kFloat32, 1);
      ops.fill_rows(1, 0, 0, {type, 1}, table.rows());
    });
  }
}

struct LayerSize {
  int64_t batch, inputs, outputs;
};

/// A layer's operands. Few columns have values that matter.
struct WorkLayer {
  Cells x, w, y, dy, dx, more_y, more_x;
  std::vector<float> bias, dw, dbias;

  WorkLayer(const LayerSize& s, DType type)
      : x(Cells::random(s.batch, s.inputs, 1, type)),
        w(Cells::random(s.outputs, s.inputs, 2, type, 0)),
        y(Cells::random(s.batch, s.outputs, 3, type)),
        dy(Cells::random(s.batch, s.outputs, 4, type)),
        dx(Cells::random(s.batch, s.inputs, 5, type)),
        more_y(y),
        more_x(dx),
        bias(static_cast<size_t>(s.outputs)),
        dw(static_cast<size_t>(s.outputs * s.inputs)),
        dbias(bias) {}
  LinearForward forward(Activation act, bool added) {
    LinearForward o;
    o.x = x.matrix(), o.w = w.matrix(), o.bias = bias, o.act = act, o.y = y.matrix();
    if (needs_input(act)) o.z = more_y.matrix();
    if (added) o.added = more_y.matrix();
    return o;
  }
  LinearBackward backward(Activation act, bool added, bool with_dx = true) {
    LinearBackward o;
    o.act = act, o.y = y.matrix(), o.z = more_y.matrix(), o.dy = dy.matrix(), o.x = x.matrix();
    o.w = w.matrix(), o.dbias = dbias, o.dw = {dw.data(), w.rows(), w.cols()};
    if (with_dx) o.dx = dx.matrix();
    if (added) o.added = more_x.matrix();
    return o;
  }
};

void CpuThreads::add_layers() {
  const auto name = [](const char* what, const LayerSize& s) {
    return fmt::format("{} {} x {} -> {}", what, s.batch, s.inputs, s.outputs);
  };
  const auto forward = [&](const LayerSize& s, Activation act = Activation::kRelu,
                           bool added = false, DType type = DType::kFloat32) {
    compare(name("linear_forward", s) + (added ? " added " : " ") + name_of(type) +
                (act == Activation::kGelu   ? " gelu"
                 : act == Activation::kNone ? " none"
                                            : ""),
            [&](Ops& ops) { ops.run(WorkLayer(s, type).forward(act, added)); });
  };
  for (const LayerSize& s :
       {LayerSize{8, 64, 8}, LayerSize{16, 64, 8}, LayerSize{17, 64, 8}, LayerSize{8, 63, 8},
        LayerSize{8, 64, 7}, LayerSize{8, 64, 511}, LayerSize{8, 64, 512}, LayerSize{8, 64, 768},
        LayerSize{8, 4096, 8}, LayerSize{8, 4096, 9}, LayerSize{8, 1024, 40}, LayerSize{4095, 8, 1},
        LayerSize{4096, 8, 1}, LayerSize{6144, 8, 1}, LayerSize{64, 8, 511}, LayerSize{64, 8, 512},
        LayerSize{64, 16, 512}, LayerSize{64, 24, 512}}) {
    forward(s);
  }
  forward({8, 64, 8}, Activation::kNone, true);
  forward({9, 8, 1}, Activation::kNone, true);
  forward({17, 64, 8}, Activation::kNone);
  forward({8, 64, 8}, Activation::kRelu, false, DType::kBFloat16);
  forward({64, 8, 512}, Activation::kRelu, false, DType::kBFloat16);
  forward({64, 8, 127}, Activation::kGelu);
  forward({64, 8, 128}, Activation::kGelu);
  for (const bool in_place : {false, true}) {  // what is added is not copied to its own place
    compare(fmt::format("linear_forward 64 x 8 -> 512 added, in place {}", in_place),
            [&](Ops& ops) {
              WorkLayer l({64, 8, 512}, DType::kFloat32);
              LinearForward o = l.forward(Activation::kNone, true);
              if (in_place) o.added = o.y;
              ops.run(o);
            });
    compare(fmt::format("linear_backward_input 64 x 512 -> 8 added, in place {}", in_place),
            [&](Ops& ops) {
              WorkLayer l({64, 512, 8}, DType::kFloat32);
              const Matrix added = in_place ? l.dx.matrix() : l.more_x.matrix();
              ops.run(LinearBackwardInput{l.dy.matrix(), l.w.matrix(), l.dx.matrix(), added});
            });
  }
  for (const LayerSize& s : {LayerSize{511, 3, 64}, LayerSize{512, 3, 64}, LayerSize{512, 3, 33},
                             LayerSize{512, 3, 32}, LayerSize{512, 3, 96}}) {
    compare(name("linear_backward_weight", s), [&](Ops& ops) {
      WorkLayer l(s, DType::kFloat32);
      ops.linear_backward_weight(l.dy.matrix(), l.x.matrix(), {l.dw.data(), s.outputs, s.inputs},
                                 l.dbias);
    });
  }
  for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kTanh}) {
    for (const int64_t n : {2047, 2048, 8191, 8192}) {
      compare(fmt::format("activation_backward {} 4 x {}", static_cast<int>(act), n),
              [&](Ops& ops) {
                WorkLayer l({4, 1, n}, DType::kFloat32);
                ops.activation_backward(act, l.y.matrix(), {}, l.dy.matrix());
              });
    }
  }
  const auto backward = [&](const LayerSize& s, const std::string& how = "") {
    const DType type = how == "bf16" ? DType::kBFloat16 : DType::kFloat32;
    const Activation act = how == "tanh" ? Activation::kTanh : Activation::kRelu;
    const auto layer = [&](WorkLayer& l) {
      return l.backward(act, how == "added", how != "without dx");
    };
    compare(name("linear_backward", s) + " " + how, [&](Ops& ops) {
      WorkLayer l(s, type);
      ops.run(layer(l));
    });
    compare(name("linear_backward_update", s) + " " + how, [&](Ops& ops) {
      WorkLayer l(s, type);
      std::vector<float> values(l.dw.size()), m(values.size()), v(values.size(), 1), bm(l.bias);
      std::vector<float> bv(l.bias.size(), 1);
      std::vector<BFloat16> copy(how == "copy" || how == "bf16" ? values.size() : 0);
      // Without a copy the layer multiplies by the weights that it updates.
      const View<float> w =
          copy.empty() ? View<float>(l.w.floats().data, std::ssize(values)) : View<float>(values);
      OptimizerStep step = step_of(how == "lamb" ? OptimizerRule::kLamb : OptimizerRule::kAdam);
      const float skip = 1;
      if (how == "skip") step.skip_update = &skip;
      ops.linear_backward_update(step, layer(l), {w, m, v, copy}, {l.bias, bm, bv, {}});
    });
  };
  for (const LayerSize& s :
       {LayerSize{128, 8, 8}, LayerSize{129, 8, 8}, LayerSize{128, 8, 7}, LayerSize{128, 8, 255},
        LayerSize{128, 8, 256}, LayerSize{128, 8, 384}, LayerSize{128, 256, 8}}) {
    backward(s);
  }
  for (const char* how : {"bf16", "added", "copy", "lamb", "skip", "tanh", "without dx"}) {
    backward({16, 64, 256}, how);
  }
  compare("linear_backward with gaps in dw", [&](Ops& ops) {
    WorkLayer l({8, 4, 8}, DType::kFloat32);
    LinearBackward o = l.backward(Activation::kNone, false);
    std::vector<float> dw(8 * 6);
    o.dw = {dw.data(), 8, 4, 6};
    ops.run(o);
  });
}

void CpuThreads::add_interactions() {
  for (const int64_t samples : {2047, 2048, 3072}) {
    compare(fmt::format("dot of {} x 4 x 16", samples), [&](Ops& ops) {
      Drawn x(samples, 16), e(samples, 48), z(samples, 22), dx(samples, 16), de(samples, 48);
      ops.dot_forward(x.matrix(), e.matrix(), z.matrix());
      ops.dot_backward(x.matrix(), e.matrix(), z.matrix(), dx.matrix(), de.matrix());
    });
  }
  compare("dot of 2 x 20 x 1024", [&](Ops& ops) {
    Drawn x(2, 1024), e(2, 19 * 1024), z(2, 1024 + 190), dx(2, 1024), de(2, 19 * 1024);
    ops.dot_forward(x.matrix(), e.matrix(), z.matrix());
    ops.dot_backward(x.matrix(), e.matrix(), z.matrix(), dx.matrix(), de.matrix());
  });
  at_limits("pooling by 3 of 8 x", {kGrain / 4, 3 * kGrain / 8}, [](Ops& ops, int64_t n) {
    Drawn e(8, n), y(8, (n + 2) / 3);
    ops.average_pool_forward(e.matrix(), 3, y.matrix());
    ops.average_pool_backward(y.matrix(), 3, e.matrix());
  });
  at_limits("cross 4 x", {kGrain / 2, 3 * kGrain / 4}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), t(4, n), y(4, n);
    ops.cross_forward(x.matrix(), t.matrix(), y.matrix());
    ops.cross_backward(x.matrix(), t.matrix(), y.matrix());
  });
  at_limits("two cross layers 4 x", {kGrain / 4, 3 * kGrain / 8}, [](Ops& ops, int64_t n) {
    Drawn x(4, n), t(8, n), dy(4, n), dz(4, n), du(4, n), sum(4, n);
    ops.cross_input_backward(x.matrix(), t.matrix(), dy.matrix(), dz.matrix(), du.matrix(),
                             sum.matrix());
  });
  at_limits("fm of 2 x 4 with rows of 13, batch", {2521, 3781}, [](Ops& ops, int64_t n) {
    Drawn x(n, 4), e(n, 8), z(n, 13), dx(n, 4), de(n, 8);
    ops.run(FmForward{x.matrix(), e.matrix(), z.matrix()});
    ops.run(FmBackward{x.matrix(), e.matrix(), z.matrix(), dx.matrix(), de.matrix()});
  });
  at_limits("bce_with_logits of", {1025, 2049, 3073}, [](Ops& ops, int64_t n) {
    Drawn logits(n, 1), d(n, 1);
    const std::vector<float> labels(static_cast<size_t>(n));
    std::vector<double> loss(1);
    ops.bce_with_logits(logits.matrix(), {labels, {}}, 1, loss, d.matrix());
  });
  at_limits("sigmoid of", {2048, 3072}, [](Ops& ops, int64_t n) {
    Drawn logits(n, 1);
    std::vector<float> p(static_cast<size_t>(n));
    ops.sigmoid(logits.matrix(), p);
  });
}

/// `unique` rows with one id each. If `longest` is above 1, the first row has so many.
struct WorkBags {
  Bags bags;
  RunSpace space{0};
  Table table;
  Cells pooled;
  IdGroup group;
  BagGradient gradient;

  explicit WorkBags(int64_t unique, int64_t longest = 1, int64_t width = 8, int64_t others = 1)
      : table(unique, width, DType::kFloat32, 1), pooled(Drawn(unique, width)) {
    for (int64_t r = 0; r < unique; ++r) {
      for (int64_t k = 0; k < (r == 0 ? longest : others); ++k) bags.ids.push_back(r);
      bags.offsets.push_back(bags.nnz());
    }
    space = RunSpace(bags.nnz());
    group = bags.group();
    gradient = {pooled.floats(), nullptr};
  }
  WorkBags(const WorkBags&) = delete;
  void sort() {
    Machine().reference()->group_rows({&group, 1}, table.weights.rows(), space.runs());
  }
  UpdatedShard shard(OptimizerRule rule) {
    return {table.rows(rule), {&group, 1}, {&gradient, 1}, space.runs()};
  }
};

void CpuThreads::add_lookups() {
  at_limits("embedding_bag_forward of", {1366, 2048}, [](Ops& ops, int64_t n) {
    WorkBags of(n);
    const BagGroup groups[] = {of.bags.lookup(of.table.rows(), of.pooled.floats()), {}};
    ops.embedding_bag_forward(groups);
  });
  const auto backward = [](Ops& ops, int64_t unique, int64_t longest, int64_t others = 1) {
    WorkBags of(unique, longest, 8, others);
    of.sort();
    Drawn grads(unique, 8);
    ops.embedding_bag_backward(of.space.runs(), {&of.gradient, 1}, grads.floats());
  };
  at_limits("embedding_bag_backward of", {683, 1024},
            [&](Ops& ops, int64_t n) { backward(ops, n, 1); });
  for (const int64_t longest : {1024, 1025, 2048, 2049, 4095, 4096, 6144}) {
    compare(fmt::format("embedding_bag_backward of one row {} times", longest),
            [&](Ops& ops) { backward(ops, 1, longest); });
    compare(fmt::format("embedding_bag_backward of 4096 rows, one {} times", longest),
            [&](Ops& ops) { backward(ops, 4096, longest); });
  }
  for (const int64_t longest : {1024, 1025}) {  // longer runs are summed in chunks
    compare(fmt::format("embedding_bag_backward of 4096 rows twice, one {} times", longest),
            [&](Ops& ops) { backward(ops, 4096, longest, 2); });
  }
  for (const int64_t others : {1023, 1024}) {  // one long run among those of at most one chunk
    compare(fmt::format("embedding_bag_backward of 20 rows {} times, one 1025 times", others),
            [&](Ops& ops) { backward(ops, 20, 1025, others); });
  }
  at_limits("row_square_sums of", {kGrain / 4, 3 * kGrain / 8}, [](Ops& ops, int64_t n) {
    Drawn grads(n, 8);
    std::vector<float> sums(static_cast<size_t>(n));
    ops.row_square_sums(std::vector<int64_t>{n}, grads.floats(), sums);
  });
  at_limits("sum_table_gradients of", {683, 1024}, [](Ops& ops, int64_t n) {
    WorkBags of(n);
    of.sort();
    Drawn rows(n, 8);
    std::vector<float> touched(static_cast<size_t>(n));
    const UpdatedShard from = of.shard(OptimizerRule::kSgd);
    const TableGradients to{rows.floats(), touched};
    ops.sum_table_gradients({&from, 1}, {&to, 1});
  });
}

void CpuThreads::add_groups() {
  const auto group = [](Ops& ops, int64_t ids, int64_t rows) {
    WorkBags of(ids, 1, 0);
    ops.group_rows({&of.group, 1}, rows, of.space.runs());
  };
  at_limits("group_rows of", {512, 4096, 6144, 8192},
            [&](Ops& ops, int64_t n) { group(ops, n, 1 << 20); });
  for (const int64_t bits : {9, 12, 13, 16, 17, 22, 23, 31, 32, 33}) {
    for (const int64_t rows : {int64_t{1} << bits, (int64_t{1} << bits) + 1}) {
      for (const int64_t ids : {500, 5000, 9000}) {
        if (ids > rows) continue;
        compare(fmt::format("group_rows of {} in {}", ids, rows),
                [&](Ops& ops) { group(ops, ids, rows); });
      }
    }
  }
  const auto shards = [](Ops& ops, size_t count, int64_t ids) {
    std::deque<WorkBags> all;
    std::vector<UpdatedShard> list;
    for (size_t i = 0; i < count; ++i) {
      list.push_back(all.emplace_back(ids + 8 * (i == 1), 1, 0).shard(OptimizerRule::kSgd));
    }
    ops.group_rows_of(list, [] {});
  };
  for (const size_t count : {1, 5, 6, 7}) {
    for (const int64_t ids : {10, 682, 683, 1024, 20000}) {
      compare(fmt::format("group_rows of {} in each of {} shards", ids, count),
              [&](Ops& ops) { shards(ops, count, ids); });
    }
  }
}

void CpuThreads::add_updates() {
  at_limits("sparse_update of", {kGrain / 4, 3 * kGrain / 8}, [](Ops& ops, int64_t n) {
    WorkBags of(n);
    const std::vector<int64_t>& rows = of.bags.ids;
    ops.sparse_update(step_of(OptimizerRule::kAdam), of.table.rows(OptimizerRule::kAdam), rows,
                      std::vector<int64_t>{n}, of.pooled.floats(), {}, 8);
  });
  at_limits("update_tables of", {kGrain / 4, 3 * kGrain / 8}, [](Ops& ops, int64_t n) {
    WorkBags of(n + 5);
    std::vector<float> touched(static_cast<size_t>(n + 5), 1);
    for (size_t i = 0; i < 5; ++i) touched[3 * i] = 0;
    const TableUpdate update{of.table.rows(OptimizerRule::kAdam), {of.pooled.floats(), touched}};
    ops.update_tables(step_of(OptimizerRule::kAdam), {&update, 1});
  });
  const auto shards = [](Ops& ops, std::vector<std::pair<int64_t, int64_t>> rows, bool skip) {
    std::deque<WorkBags> all;
    std::vector<UpdatedShard> list;
    OptimizerStep step = step_of(OptimizerRule::kAdagrad);
    const float skips = 1;
    if (skip) step.skip_update = &skips;
    for (const auto& [unique, longest] : rows) {
      list.push_back(all.emplace_back(unique, longest).shard(step.rule));
      all.back().sort();
    }
    if (list.size() == 1) {
      ops.embedding_bag_update(step, list[0].table, list[0].runs, list[0].gradients);
    }
    ops.embedding_bag_updates(step, list, [] {});
  };
  at_limits("embedding_bag_update of", {683, 1024}, [&](Ops& ops, int64_t n) {
    shards(ops, {{n, 1}}, false);
  });
  at_limits("embedding_bag_updates of 2 shards of", {342, 512}, [&](Ops& ops, int64_t n) {
    shards(ops, {{n, 1}, {n, 1}}, false);
  });
  compare("embedding_bag_updates of shards with long runs", [&](Ops& ops) {
    shards(ops, {{9, 1}, {7, 1024}, {0, 1}, {5, 1025}, {3, 9000}}, false);
  });
  compare("embedding_bag_updates that are skipped", [&](Ops& ops) {
    shards(ops, {{4096, 1}, {4096, 1}}, true);
  });
  at_limits("dense_update of", {2 * kGrain, 3 * kGrain}, [](Ops& ops, int64_t n) {
    std::vector<float> w = drawn_values(n), g = drawn_values(n);
    ops.dense_update(step_of(OptimizerRule::kSgd), w, g, {}, {}, {});
  });
  at_limits("clip_norm of", {2 * kGrain, 3 * kGrain, 11 * 4096 + 1}, [](Ops& ops, int64_t n) {
    std::vector<float> g = drawn_values(n);
    ops.clip_norm(g, 5);
  });
  at_limits("lamb of", {4097, 7 * 4096 + 1, 2 * kGrain, 11 * 4096 + 1}, [](Ops& ops, int64_t n) {
    std::vector<float> w = drawn_values(n), g = drawn_values(n), m = drawn_values(n);
    std::vector<float> v(w.size(), 1);
    ops.dense_update(step_of(OptimizerRule::kLamb), w, g, m, v, {});
  });
}

}  // namespace
}  // namespace dlrm
