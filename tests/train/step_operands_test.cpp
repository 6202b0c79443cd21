// The operands of each operation of a training step: shapes, strides, types, lengths and scalars,
// compared with a file. A result does not depend on each of them: an operand may be larger than
// needed, a check may cover fewer ids, and a capacity may be too small for other batches. Whoever
// changes one on purpose writes the file anew with DLRM_UPDATE_COUNTS=1.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "noted_ops.h"
#include "pinned_text.h"
#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

/// Says an operand without its numbers, which the host may be unable to read.
class Description {
 public:
  template <class Operation>
  static std::string of(Operation o) {
    Description description;
    description.say("{}", Operation::kName);
    EachOperand each{[&](const char* name, Role, const auto& operand, const Tolerance& tolerance) {
      description.say("; {} ", name);
      description.add(operand);
      if (tolerance.terms > 0) description.say(" of {} terms", tolerance.terms);
    }};
    o.operands(each);
    return description.text_;
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    text_ += fmt::format(text, std::forward<Args>(args)...);
  }
  static const char* given(const void* p) { return p ? "given" : "none"; }

  void add(const Matrix& m) {
    if (!m.data) return say("none");
    say("{}x{}/{} {}", m.rows, m.cols, m.stride, name_of(m.type));
  }
  template <class T>
  void add(const MatrixView<T>& m) {
    m.data ? say("{}x{}/{}", m.rows, m.cols, m.stride) : say("none");
  }
  /// A list is said entry by entry, an array by its length.
  template <class T>
  void add(View<T> v) {
    using Entry = std::remove_const_t<T>;
    if constexpr (std::is_arithmetic_v<Entry> || std::is_same_v<Entry, BFloat16> ||
                  std::is_same_v<Entry, Occurrence>) {
      say("[{}]", v.size());
    } else {
      for (const Entry& entry : v) say("\n      "), add(entry);
    }
  }
  void add(const OptimizerStep& s) {
    say("{} lr {:g} eps {:g} betas {:g} {:g} {:g} l {:g} {:g} decay {:g} corrections {:g} {:g} "
        "step {} skip {} not finite {} hyperparams {}",
        traits_of(s.rule).name, s.lr, s.eps, s.beta1, s.beta2, s.beta, s.l1, s.l2, s.weight_decay,
        s.correction1, s.correction2, s.step, given(s.skip_update), given(s.not_finite),
        given(s.device_hyperparams));
  }
  void add(const RowTable& t) {
    say("table {}x{}/{} {} states {} {} /{} key {:x} first {} {} rows {}{}", t.rows, t.width,
        t.stride, name_of(t.type), given(t.state1), given(t.state2), t.state_stride, t.rounding_key,
        t.first_row, t.first_column, given(t.row_of), t.on_host ? " host" : "");
  }
  void add(const IdGroup& g) {
    say("{} bags, {} ids, offsets {}", g.bags, g.capacity, given(g.offsets));
  }
  void add(const BagGroup& g) {
    add(g.table);
    say(", {} bags, {} ids, scale {}, ", g.bags, g.capacity, given(g.scale));
    add(g.pooled);
  }
  void add(const BagGradient& g) {
    say("gradient ");
    add(g.pooled);
    say(" scale {}", given(g.scale));
  }
  void add(const SegmentedRows& runs) {
    say("runs [{}] [{}] [{}] [{}]", runs.rows.size(), runs.starts.size(), runs.occurrences.size(),
        runs.count.size());
  }
  void add(const ShardUpdate& s) {
    add(s.table);
    for (const IdGroup& g : s.groups) say(", "), add(g);
    for (const BagGradient& g : s.gradients) say(", "), add(g);
    say(", ");
    add(s.runs);
  }
  void add(const TableGradients& g) {
    add(g.rows);
    say(" touched [{}]", g.touched.size());
  }
  void add(const TableUpdate& u) {
    add(u.table);
    say(", ");
    add(u.gradients);
  }
  void add(const IdCheck& c) {
    say("{} bags, {} ids, offsets {}, lengths {} {}, rows {} from {}, feature {}, sample {} {}{}",
        c.bags, c.capacity, given(c.offsets), given(c.lengths), c.length, c.rows, c.first_row,
        c.feature, c.first_sample, given(c.samples), c.narrow ? " narrow" : "");
  }
  void add(const PackedList& l) { say("{} from {} step {}", l.count, given(l.from), l.step); }
  void add(const IdPart& p) {
    say("{} bags, lengths {} {}{}", p.bags, given(p.lengths), p.length, p.narrow ? " narrow" : "");
  }
  void add(const IdFilter& f) {
    say("rows {} from {}", f.rows, f.first_row);
    for (const IdPart& part : f.parts) say(", "), add(part);
  }
  void add(const BlockCopy& b) {
    say("{}x{} /{} {} to /{} {} scale {} rows {} {}{}", b.rows, b.cols, b.src_stride,
        name_of(b.src_type), b.dst_stride, name_of(b.dst_type), given(b.scale), given(b.src_rows),
        given(b.dst_rows), b.accumulate ? " accumulate" : "");
  }
  void add(const DenseTensor& t) {
    say("[{}] [{}] [{}] [{}]", t.values.size(), t.state1.size(), t.state2.size(), t.copy.size());
  }

  std::string text_;
};

/// Notes operations while it is asked to.
class Notes final : public NotedOps<Notes> {
 public:
  using NotedOps::NotedOps;
  std::string text;
  bool noting = false;

 private:
  friend NotedOps;
  template <class Operation>
  void note(const Operation& o) {
    if (noting) text += "    " + Description::of(o) + "\n";
  }
};

class StepOperands : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  }

  /// Notes the third step, whose batch is a partial one.
  void note(const std::string& name, const RunConfig& config, int ranks) {
    std::vector<std::string> parts(static_cast<size_t>(ranks));
    run_on_threads(ranks, [&](Communicator& comm) {
      TestRank rank(comm, config);
      Notes ops(std::move(rank.ops));
      Trainer trainer(rank.context, ops, config, make_plan(config, ranks), true);
      constexpr int kSteps = 3;
      int routed = 0;
      for (int step = 0; step < kSteps; ++step) {
        ops.noting = step + 1 == kSteps;
        for (; routed <= step + config.batches_ahead() && routed < kSteps; ++routed) {
          trainer.route(odd_batch(config, routed, comm.rank(), ranks));
        }
        trainer.step(step, false);
      }
      parts[static_cast<size_t>(comm.rank())] = ops.text;
    });
    text_ += name + "\n";
    for (int r = 0; r < ranks; ++r) {
      text_ += fmt::format("  rank {}\n{}", r, parts[static_cast<size_t>(r)]);
    }
  }

  void expect_those_of(const std::string& name) const {
    expect_text_of_file(text_, std::string(DLRM_SOURCE) + "/tests/train/" + name);
  }

 private:
  std::string text_;
};

TEST_F(StepOperands, OfACpu) {
  RunConfig config = adagrad_model(Strategy::kRow, DeviceKind::kCpu);
  config.train.dense_optimizer.type = OptimizerRule::kAdam;
  note("row", config, 2);
  note("auto", adagrad_model(Strategy::kAuto, DeviceKind::kCpu), 2);
  config = adagrad_model(Strategy::kColumn, DeviceKind::kCpu);
  config.routing = {RoutingMode::kFixed, 2};
  note("column, fixed routing", config, 2);
  config = adagrad_model(Strategy::kRow, DeviceKind::kCpu);
  config.model.interaction = ConcatConfig();
  note("concat", config, 1);
  config.model.interaction = CrossConfig{2, 3};
  note("cross", config, 1);
  config = odd_model_of_ids();
  config.model.interaction = ConcatConfig();
  note("concat of ids", config, 1);
  expect_those_of("step_operands_cpu.txt");
}

TEST_F(StepOperands, OfAGpu) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  note("row", adagrad_model(Strategy::kRow, DeviceKind::kCuda), 2);
  note("auto", adagrad_model(Strategy::kAuto, DeviceKind::kCuda), 2);
  RunConfig config = adagrad_model(Strategy::kGrid, DeviceKind::kCuda);
  config.routing = {RoutingMode::kFixed, 2};
  config.train.sparse_optimizer.type = OptimizerRule::kAdam;
  note("grid, fixed routing", config, 2);
  expect_those_of("step_operands_gpu.txt");
}

}  // namespace
}  // namespace dlrm
