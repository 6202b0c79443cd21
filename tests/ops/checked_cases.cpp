#include "checked_cases.h"

#include <array>

#include "bags.h"

namespace dlrm {
namespace {

using Cases = std::vector<CheckedCase>;

constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu,    Activation::kGelu,
                                       Activation::kSilu, Activation::kSigmoid, Activation::kTanh};
constexpr const char* kActivationNames[] = {"none", "relu", "gelu", "silu", "sigmoid", "tanh"};

const char* name_of_activation(Activation act) {
  return kActivationNames[static_cast<size_t>(act)];
}

/// Multiples of 1/32 from -2 to 2, which every type holds.
std::vector<float> values(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> all(count);
  for (float& value : all) value = (static_cast<float>(generator() % 129) - 64) / 32;
  return all;
}
std::vector<float> positive(size_t count, unsigned seed) {
  std::vector<float> all = values(count, seed);
  for (float& value : all) value = std::abs(value) + 0.25f;
  return all;
}
Cells cells(int64_t rows, int64_t cols, unsigned seed, DType type = DType::kFloat32) {
  Cells all(rows, cols, type);
  const std::vector<float> from = values(static_cast<size_t>(rows * cols), seed);
  for (int64_t i = 0; i < rows * cols; ++i) {
    all.set(i / cols, i % cols, from[static_cast<size_t>(i)]);
  }
  return all;
}
/// 6 rows of 3 columns with both states.
Table table(DType type, unsigned seed) {
  Table t(6, 3, type, seed);
  t.weights = cells(6, 3, seed, type);
  for (Cells* state : {&t.state1, &t.state2}) {
    const std::vector<float> from = positive(18, ++seed);
    for (int64_t i = 0; i < 18; ++i) state->set(i / 3, i % 3, from[static_cast<size_t>(i)]);
  }
  return t;
}

enum class Added { kNone, kApart, kInPlace };
constexpr Added kEveryAdded[] = {Added::kNone, Added::kApart, Added::kInPlace};
std::string with(Added added) {
  return added == Added::kNone ? "" : added == Added::kApart ? " added" : " added in place";
}

void add_forward(Cases& all, DType type, Activation act, Added added, bool with_bias) {
  const std::string name =
      fmt::format("linear_forward {} {}{}{}", name_of(type), name_of_activation(act), with(added),
                  with_bias ? "" : " without bias");
  all.push_back({name, [=](Ops& ops) {
                   Cells x = cells(3, 5, 1, type), w = cells(4, 5, 2, type);
                   Cells y = cells(3, 4, 3, type), z(3, 4, type), more = cells(3, 4, 4, type);
                   const std::vector<float> bias = values(4, 5);
                   LinearForward o;
                   o.x = x.matrix(), o.w = w.matrix(), o.y = y.matrix(), o.act = act;
                   if (needs_input(act)) o.z = z.matrix();
                   if (with_bias) o.bias = bias;
                   if (added != Added::kNone)
                     o.added = added == Added::kApart ? more.matrix() : o.y;
                   ops.run(o);
                 }});
}

/// Operands of the backward of a layer.
struct LayerOperands {
  Cells x, w, y, z, dy, dx, more;
  std::vector<float> dw = std::vector<float>(20), dbias = std::vector<float>(4);

  explicit LayerOperands(DType type)
      : x(cells(3, 5, 1, type)),
        w(cells(4, 5, 2, type)),
        y(cells(3, 4, 3, type)),
        z(cells(3, 4, 4, type)),
        dy(cells(3, 4, 5, type)),
        dx(cells(3, 5, 6, type)),
        more(cells(3, 5, 7, type)) {
    for (int64_t i = 0; i < 12; ++i) {  // outputs of every activation
      y.set(i / 4, i % 4, std::max(0.0f, y.at(i / 4, i % 4) / 2.5f));
    }
  }
  LinearBackward layer(Activation act, Added added, bool with_dx, bool with_bias) {
    LinearBackward l;
    l.act = act, l.dy = dy.matrix(), l.x = x.matrix(), l.w = w.matrix();
    if (act != Activation::kNone) l.y = y.matrix();
    if (needs_input(act)) l.z = z.matrix();
    l.dw = {dw.data(), 4, 5};
    if (with_bias) l.dbias = dbias;
    if (with_dx) l.dx = dx.matrix();
    if (added != Added::kNone) l.added = added == Added::kApart ? more.matrix() : l.dx;
    return l;
  }
};

void add_backward(Cases& all, DType type, Activation act, Added added, bool with_dx,
                  bool with_bias) {
  const std::string what =
      fmt::format("{} {}{}{}{}", name_of(type), name_of_activation(act), with(added),
                  with_dx ? "" : " without dx", with_bias ? "" : " without bias");
  all.push_back({"linear_backward " + what, [=](Ops& ops) {
                   LayerOperands of(type);
                   ops.run(of.layer(act, added, with_dx, with_bias));
                 }});
  all.push_back(
      {"linear_backward_update " + what, [=](Ops& ops) {
         LayerOperands of(type);
         std::vector<float> w = values(20, 2), s1 = positive(20, 8), s2 = positive(20, 9);
         std::vector<float> bias = values(4, 10), b1 = positive(4, 11), b2 = positive(4, 12);
         std::vector<BFloat16> copy(w.begin(), w.end());
         LinearBackward layer = of.layer(act, added, with_dx, with_bias);
         if (type == DType::kFloat32) layer.w = Matrix(w.data(), type, 4, 5);
         if (type == DType::kBFloat16) layer.w = Matrix(copy.data(), type, 4, 5);
         DenseTensor weight{w, s1, s2, {}}, of_bias;
         if (type == DType::kBFloat16) weight.copy = copy;
         if (with_bias) of_bias = {bias, b1, b2, {}};
         ops.linear_backward_update(step_of(OptimizerRule::kAdam), layer, weight, of_bias);
       }});
}

void add_layer_norms(Cases& all, DType type) {
  for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    all.push_back({fmt::format("layer_norm_forward {} {}", name_of(type), name_of_activation(act)),
                   [=](Ops& ops) {
                     Cells x = cells(3, 5, 1, type), y(3, 5, type), z(3, 5, type);
                     const std::vector<float> scale = positive(5, 2), shift = values(5, 3);
                     std::vector<float> means(3), inverse(3);
                     ops.run(LayerNormForward{x.matrix(), scale, shift, act, y.matrix(),
                                              needs_input(act) ? z.matrix() : Matrix(), means,
                                              inverse});
                   }});
  }
  all.push_back(
      {fmt::format("layer_norm_backward {}", name_of(type)), [=](Ops& ops) {
         Cells x = cells(3, 5, 1, type), dz = cells(3, 5, 4, type);
         const std::vector<float> scale = positive(5, 2), means = values(3, 5);
         const std::vector<float> inverse = positive(3, 6);
         std::vector<float> dscale(5), dshift(5);
         ops.run(LayerNormBackward{x.matrix(), scale, means, inverse, dz.matrix(), dscale, dshift});
       }});
}

void add_mixtures(Cases& all, DType type) {
  const MixtureShape shape{2, 3, 4, 5};
  all.push_back(
      {fmt::format("mix_forward {}", name_of(type)), [=](Ops& ops) {
         Cells logits = cells(3, 6, 1, type), x = cells(3, 15, 2, type);
         Cells shares(3, 6), y = cells(3, 10, 3, type);
         ops.run(MixForward{shape, logits.matrix(), x.matrix(), shares.floats(), y.matrix()});
       }});
  all.push_back({fmt::format("mix_backward {}", name_of(type)), [=](Ops& ops) {
                   Cells shares = cells(3, 6, 1), x = cells(3, 15, 2, type);
                   Cells dy = cells(3, 10, 3, type), dlogits(3, 6, type);
                   Cells dx = cells(3, 15, 4, type);
                   ops.run(MixBackward{shape, shares.floats(), x.matrix(), dy.matrix(),
                                       dlogits.matrix(), dx.matrix()});
                 }});
}

void add_layers(Cases& all) {
  for (const DType type : kTypes) {
    add_layer_norms(all, type);
    add_mixtures(all, type);
    for (const bool replayed : {false, true}) {
      all.push_back(
          {fmt::format("dropout {}{}", name_of(type), replayed ? " replayed" : ""), [=](Ops& ops) {
             Cells x = cells(3, 5, 1, type), y(3, 5, type);
             const std::vector<uint32_t> step{9};
             DropoutPlace place{7, 2};
             if (replayed) place.device_step = step;
             ops.dropout(11, 0.25, place, x.matrix(), y.matrix());
           }});
    }
    for (const Activation act : kActivations) {
      add_forward(all, type, act, Added::kNone, true);
      add_backward(all, type, act, Added::kNone, true, true);
      all.push_back(
          {fmt::format("activation_backward {} {}", name_of(type), name_of_activation(act)),
           [=](Ops& ops) {
             LayerOperands of(type);
             ops.activation_backward(act, of.y.matrix(), of.z.matrix(), of.dy.matrix());
           }});
    }
    add_forward(all, type, Activation::kNone, Added::kNone, false);
    for (const Added added : {Added::kApart, Added::kInPlace}) {
      add_forward(all, type, Activation::kNone, added, true);
      add_backward(all, type, Activation::kRelu, added, true, true);
    }
    add_backward(all, type, Activation::kRelu, Added::kNone, false, false);
    for (const Added added : kEveryAdded) {
      all.push_back(
          {fmt::format("linear_backward_input {}{}", name_of(type), with(added)), [=](Ops& ops) {
             LayerOperands of(type);
             const LinearBackward l = of.layer(Activation::kNone, added, true, false);
             ops.run(LinearBackwardInput{l.dy, l.w, l.dx, l.added});
           }});
    }
    for (const bool with_bias : {true, false}) {
      all.push_back({fmt::format("linear_backward_weight {}{}", name_of(type),
                                 with_bias ? "" : " without bias"),
                     [=](Ops& ops) {
                       LayerOperands of(type);
                       const LinearBackward l =
                           of.layer(Activation::kNone, Added::kNone, false, with_bias);
                       ops.linear_backward_weight(l.dy, l.x, l.dw, l.dbias);
                     }});
    }
  }
}

void add_interactions(Cases& all) {
  for (const DType type : kTypes) {
    const auto add = [&](const char* name, std::function<void(Ops&)> run) {
      all.push_back({fmt::format("{} {}", name, name_of(type)), std::move(run)});
    };
    const auto of = [=](int64_t cols, unsigned seed) { return cells(2, cols, seed, type); };
    add("dot_forward", [=](Ops& ops) {
      Cells x = of(4, 1), e = of(8, 2), z = of(7, 3);
      ops.dot_forward(x.matrix(), e.matrix(), z.matrix());
    });
    add("dot_backward", [=](Ops& ops) {
      Cells x = of(4, 1), e = of(8, 2), dz = of(7, 3), dx = of(4, 4), de = of(8, 5);
      ops.dot_backward(x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix());
    });
    add("average_pool_forward", [=](Ops& ops) {
      Cells e = of(8, 1), y = of(3, 2);
      ops.average_pool_forward(e.matrix(), 3, y.matrix());
    });
    add("average_pool_backward", [=](Ops& ops) {
      Cells dy = of(3, 1), de = of(8, 2);
      ops.average_pool_backward(dy.matrix(), 3, de.matrix());
    });
    add("cross_forward", [=](Ops& ops) {
      Cells x0 = of(4, 1), t = of(4, 2), y = of(4, 3);
      ops.cross_forward(x0.matrix(), t.matrix(), y.matrix());
    });
    add("cross_backward", [=](Ops& ops) {
      Cells x0 = of(4, 1), dy = of(4, 2), du = of(4, 3);
      ops.cross_backward(x0.matrix(), dy.matrix(), du.matrix());
    });
    for (const int64_t layers : {1, 3}) {
      add(layers == 1 ? "cross_input_backward of 1" : "cross_input_backward of 3", [=](Ops& ops) {
        Cells x0 = of(4, 1), t = cells(2 * layers, 4, 2, type), dz = of(4, 4);
        Cells dy = cells(4, 4, 3, type), du = of(4, 5), sum = of(4, 6);
        ops.cross_input_backward(x0.matrix(), t.matrix(), layers > 1 ? dy.matrix() : Matrix(),
                                 dz.matrix(), du.matrix(), sum.matrix());
      });
    }
    add("fm_forward", [=](Ops& ops) {
      Cells x = of(4, 1), e = of(8, 2), z = of(13, 3);
      ops.run(FmForward{x.matrix(), e.matrix(), z.matrix()});
    });
    for (const bool with_dx : {true, false}) {
      add(with_dx ? "fm_backward" : "fm_backward without dx", [=](Ops& ops) {
        Cells x = of(4, 1), e = of(8, 2), dz = of(13, 3), dx = of(4, 4), de = of(8, 5);
        ops.run(FmBackward{x.matrix(), e.matrix(), dz.matrix(), with_dx ? dx.matrix() : Matrix(),
                           de.matrix()});
      });
    }
    for (const bool weighted : {false, true}) {
      add(weighted ? "bce_with_logits weighted" : "bce_with_logits", [=](Ops& ops) {
        Cells logits = cells(5, 1, 1, type), dlogits = cells(5, 1, 2, type);
        const std::vector<float> labels = {0, 1, 0.25f, 1, 0}, weights = {1, 0.5f, 2, 0, 3};
        std::vector<double> loss = {7};
        const Targets targets{labels, weighted ? View<const float>(weights) : View<const float>()};
        ops.bce_with_logits(logits.matrix(), targets, weighted ? -0.5f : 0.25f, loss,
                            dlogits.matrix());
      });
    }
    add("sigmoid", [=](Ops& ops) {
      Cells logits = cells(5, 1, 1, type);
      std::vector<float> p(5, 7);
      ops.sigmoid(logits.matrix(), p);
    });
  }
}

/// Bags of two features of one shard. The ids of the second start behind others.
struct TwoFeatures {
  std::vector<int64_t> ids[2] = {{5, 1, 5, 0, 5, 4}, {-1, 99, 5, 2, 1}};
  std::vector<int64_t> offsets[2] = {{0, 3, 3, 6}, {2, 4, 5}};
  std::vector<float> scale = {0.5f, -3};
  Cells pooled[2];
  RunSpace space{11};  // more than the 9 ids
  IdGroup groups[2];
  BagGradient gradients[2];

  explicit TwoFeatures(DType type) : pooled{cells(3, 3, 20, type), cells(2, 3, 21, type)} {
    for (size_t i = 0; i < 2; ++i) {
      groups[i] = {ids[i].data(), offsets[i].data(), i == 0 ? 3 : 2, 6};
      gradients[i] = {pooled[i].matrix(), i == 0 ? nullptr : scale.data()};
    }
  }
  void group() { Machine().reference()->group_rows(groups, 6, space.runs()); }
  UpdatedShard shard(const RowTable& of) { return {of, groups, gradients, space.runs()}; }
};

/// The bags of two features over `rows`, and between them a group without bags.
std::array<BagGroup, 3> two_lookups(TwoFeatures& of, Table& rows, bool scaled) {
  std::array<BagGroup, 3> groups;
  for (size_t i = 0; i < 2; ++i) {
    const IdGroup& ids = of.groups[i];
    const float* const scale = scaled ? of.gradients[i].scale : nullptr;
    groups[2 * i] = {rows.rows(), ids.ids, ids.offsets, ids.bags, scale, of.pooled[i].matrix()};
  }
  groups[1].table = rows.rows();
  return groups;
}

void add_lookups(Cases& all) {
  for (const DType type : kTypes) {
    for (const DType of_pooled : kTypes) {
      const std::string types = fmt::format("{} to {}", name_of(type), name_of(of_pooled));
      all.push_back({"embedding_bag_forward " + types, [=](Ops& ops) {
                       TwoFeatures of(of_pooled);
                       Table rows = table(type, 1);
                       ops.embedding_bag_forward(two_lookups(of, rows, true));
                     }});
      all.push_back({"max_bag_forward " + types, [=](Ops& ops) {
                       TwoFeatures of(of_pooled);
                       Table rows = table(type, 1);
                       ops.max_bag_forward(two_lookups(of, rows, false));
                     }});
      all.push_back({fmt::format("max_bag_backward {} to {}", name_of(type), name_of(of_pooled)),
                     [=](Ops& ops) {
                       TwoFeatures of(of_pooled);
                       Table rows = table(type, 1);
                       for (size_t i = 0; i < 2; ++i) {
                         Cells gradients = cells(7, 3, 25, of_pooled);  // more than the ids
                         ops.max_bag_backward(rows.rows(), of.groups[i], of.pooled[i].matrix(),
                                              gradients.matrix());
                       }
                     }});
    }
    all.push_back({fmt::format("embedding_bag_backward {}", name_of(type)), [=](Ops& ops) {
                     TwoFeatures of(type);
                     of.group();
                     Cells grads = cells(11, 3, 22);
                     ops.embedding_bag_backward(of.space.runs(), of.gradients, grads.floats());
                   }});
    all.push_back({fmt::format("sum_table_gradients {}", name_of(type)), [=](Ops& ops) {
                     TwoFeatures of[2] = {TwoFeatures(type), TwoFeatures(type)};
                     of[1].ids[0][1] = 3;
                     Cells rows[2] = {cells(6, 3, 23), cells(6, 3, 24)};
                     std::vector<float> touched[2] = {std::vector<float>(6), std::vector<float>(6)};
                     std::vector<UpdatedShard> from;
                     std::vector<TableGradients> to;
                     for (size_t i = 0; i < 2; ++i) {
                       of[i].group();
                       from.push_back(of[i].shard({}));
                       to.push_back({rows[i].floats(), touched[i]});
                     }
                     ops.sum_table_gradients(from, to);
                   }});
  }
  all.push_back({"separate_ids", [](Ops& ops) {
                   TwoFeatures of(DType::kFloat32);
                   std::vector<int64_t> offsets(7, -1);
                   for (const IdGroup& ids : of.groups) ops.separate_ids(ids, offsets);
                 }});
  all.push_back({"group_rows", [](Ops& ops) {
                   TwoFeatures of(DType::kFloat32);
                   ops.group_rows(of.groups, 6, of.space.runs());
                 }});
  all.push_back({"group_rows of shards", [](Ops& ops) {
                   TwoFeatures of[2] = {TwoFeatures(DType::kFloat32), TwoFeatures(DType::kFloat32)};
                   of[1].ids[0][1] = 3;
                   RowTable six;
                   six.rows = 6;
                   const UpdatedShard shards[] = {of[0].shard(six), of[1].shard(six)};
                   ops.group_rows_of(shards, [] {});
                 }});
  all.push_back({"row_square_sums", [](Ops& ops) {
                   Cells grads = cells(5, 3, 1);
                   std::vector<float> sums = values(5, 2);
                   const std::vector<int64_t> count = {3};
                   ops.row_square_sums(count, grads.floats(), sums);
                 }});
}

void add_updates(Cases& all) {
  for (const OptimizerStep& step : every_rule(kSparse)) {
    for (const DType type : kTypes) {
      const std::string what = fmt::format(" {} {}", traits_of(step.rule).name, name_of(type));
      const auto of_table = [=](Table& t) {
        RowTable of = t.rows(step.rule);
        of.rounding_key = 11, of.first_row = 7, of.first_column = 2;
        return of;
      };
      for (const bool with_sums : {false, true}) {
        if (with_sums && !traits_of(step.rule).rowwise()) continue;
        all.push_back({"sparse_update" + what + (with_sums ? " with sums" : ""), [=](Ops& ops) {
                         Table t = table(type, 1);
                         RowTable rows = of_table(t);
                         const std::vector<int64_t> row_of = {40, 41, 42, 99, 44, 45};
                         if (with_sums) rows.row_of = row_of.data();
                         Cells grads = cells(5, 3, 4);
                         const std::vector<int64_t> listed = {0, 3, 5, 1}, count = {3};
                         const std::vector<float> sums = {2, 0.5f, 3, 7};
                         ops.sparse_update(
                             step, rows, listed, count, grads.floats(),
                             with_sums ? View<const float>(sums) : View<const float>(), 12);
                       }});
      }
      all.push_back({"embedding_bag_update" + what, [=](Ops& ops) {
                       TwoFeatures of(type);
                       of.group();
                       Table t = table(type, 1);
                       ops.embedding_bag_update(step, of_table(t), of.space.runs(), of.gradients);
                     }});
      all.push_back({"update_tables" + what, [=](Ops& ops) {
                       Table tables[2] = {table(type, 1), table(type, 5)};
                       Cells grads[2] = {cells(6, 3, 9), cells(6, 3, 10)};
                       std::vector<float> touched[2] = {{1, 0, 0, 2, 0.5f, 0}, {0, 0, 0, 0, 0, 1}};
                       std::vector<TableUpdate> updates;
                       for (size_t i = 0; i < 2; ++i) {
                         updates.push_back({of_table(tables[i]), {grads[i].floats(), touched[i]}});
                       }
                       ops.update_tables(step, updates);
                     }});
    }
  }
  all.push_back({"embedding_bag_updates of shards", [](Ops& ops) {
                   const OptimizerStep step = step_of(OptimizerRule::kAdam);
                   TwoFeatures of[2] = {TwoFeatures(DType::kFloat32), TwoFeatures(DType::kFloat32)};
                   of[1].ids[0][1] = 3;
                   Table tables[2] = {table(DType::kFloat32, 1), table(DType::kFloat32, 5)};
                   std::vector<UpdatedShard> shards;
                   for (size_t i = 0; i < 2; ++i) {
                     of[i].group();
                     shards.push_back(of[i].shard(tables[i].rows(step.rule)));
                   }
                   ops.embedding_bag_updates(step, shards, [] {});
                 }});
}

void add_parameters(Cases& all) {
  for (const OptimizerStep& rule : every_rule(kDense)) {
    for (const bool skips : {false, true}) {
      all.push_back(
          {fmt::format("dense_update {}{}", traits_of(rule.rule).name, skips ? " skipped" : ""),
           [=](Ops& ops) {
             std::vector<float> w = values(5, 1), g = values(5, 2), s1 = positive(5, 3),
                                s2 = positive(5, 4);
             std::vector<BFloat16> copy(5, BFloat16(7.0f));
             const int states = traits_of(rule.rule).state_count();
             if (states < 1) s1.clear();
             if (states < 2) s2.clear();
             const float skip = 1;
             OptimizerStep step = rule;
             if (skips) step.skip_update = &skip;
             ops.dense_update(step, w, g, s1, s2, copy);
           }});
    }
  }
  for (const double most : {1.0, 100.0}) {
    all.push_back({fmt::format("clip_norm {}", most), [=](Ops& ops) {
                     std::vector<float> g = values(5, 1);
                     ops.clip_norm(g, most);
                   }});
  }
  for (const DType type : kTypes) {
    for (const InitType init : kInitTypes) {
      all.push_back(
          {fmt::format("fill_rows {} {}", static_cast<int>(init), name_of(type)), [=](Ops& ops) {
             Table t = table(type, 1);
             ops.fill_rows(3, 5, 2, {init, 0.5f}, t.rows());
           }});
    }
  }
}

}  // namespace

void add_movements(std::vector<CheckedCase>& all);  // checked_movements.cpp

std::vector<CheckedCase> checked_cases() {
  Cases all;
  add_layers(all), add_interactions(all), add_lookups(all), add_updates(all), add_parameters(all);
  add_movements(all);
  return all;
}

}  // namespace dlrm
