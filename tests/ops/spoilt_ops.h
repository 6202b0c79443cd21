#pragma once
// The reference, after which one element that an operation writes is wrong.
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "dlrm/ops/ops.h"

#include "ops/reference/elements.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {

/// An element that an operation may write.
struct Place {
  bool matters;   ///< it is a result
  bool is_float;  ///< which rounding changes
  std::function<void(bool slightly)> spoil;
};

/// Makes a value wrong by more than its magnitude. If `slightly`, by a thousandth of it.
inline double wrong_value(double value, bool slightly) {
  return std::isfinite(value) ? value + (slightly ? 1e-3 : 1) * (1 + std::abs(value)) : 0;
}

/// The elements that an operation may have written.
class Places {
 public:
  template <class Operation>
  static std::vector<Place> of(const Operation& o) {
    Places places;
    places.add(o);
    return places.all_;
  }

 private:
  template <class Operation>
  void add(Operation o) {
    EachOperand operands{[&](const char*, Role role, auto& operand, const Tolerance&) {
      if (role != Role::kIn) numbers(operand);
    }};
    o.operands(operands);
  }
  void add(const LinearBackward& o) {
    matrix(o.dy, false);  // undefined afterwards
    matrix(o.dx), matrix(o.dw), list(o.dbias);
  }
  void add(const LinearBackwardUpdate& o) {
    matrix(o.layer.dx);
    matrix(o.layer.dw, false), list(o.layer.dbias, false);
    for (const DenseTensor& t : {o.weight, o.bias}) parameter(t);
  }
  void add(const EmbeddingBagForward& o) {
    for (const BagGroup& g : o.groups) {
      if (g.bags > 0) matrix(g.pooled);
    }
  }
  void add(const MaxBagForward& o) {
    for (const BagGroup& g : o.groups) {
      if (g.bags > 0) matrix(g.pooled);
    }
  }
  void add(const GroupRows& o) { segments(o.runs); }
  void add(const GroupShardRows& o) {
    for (const UpdatedShard& s : o.shards) segments(s.runs);
  }
  void add(const EmbeddingBagBackward& o) {
    const int64_t count = o.runs.count[0];
    matrix(o.grads.row_range(0, count));
    matrix(o.grads.row_range(count, o.grads.rows - count), false);
  }
  void add(const SparseUpdate& o) {
    rows(o.step, o.table, {o.rows.begin(), o.rows.begin() + o.count[0]});
  }
  void add(const EmbeddingBagUpdate& o) {
    rows(o.step, o.table, {o.runs.rows.begin(), o.runs.rows.begin() + o.runs.count[0]});
  }
  void add(const UpdateShards& o) {
    for (const UpdatedShard& s : o.shards) {
      rows(o.step, s.table, {s.runs.rows.begin(), s.runs.rows.begin() + s.runs.count[0]});
    }
  }
  void add(const SumTableGradients& o) {
    for (const TableGradients& g : o.gradients) matrix(g.rows), list(g.touched);
  }
  void add(const UpdateTables& o) {
    for (const TableUpdate& t : o.tables) {
      std::set<int64_t> touched;
      for (size_t r = 0; r < t.gradients.touched.size(); ++r) {
        if (t.gradients.touched[r] > 0) touched.insert(static_cast<int64_t>(r));
      }
      rows(o.step, t.table, touched);
      matrix(t.gradients.rows, false);
    }
  }
  void add(const CopyBlocks& o) {
    for (const BlockCopy& b : o.blocks) {
      const int64_t count = copied_rows(b);
      if (count == 0 || b.cols == 0) continue;
      const int64_t reached = b.dst_rows ? b.dst_rows[count - 1] + 1 : count;
      matrix(Matrix(b.dst, b.dst_type, reached, b.cols, b.dst_stride));
    }
  }
  void add(const CheckIds& o) {
    for (const IdCheck& c : o.lists) {
      const int64_t ids = c.bags == 0 ? 0 : c.offsets ? c.offsets[c.bags] : c.capacity;
      if (c.narrow) list(View<int32_t>(static_cast<int32_t*>(c.ids), size_t(ids)));
      if (!c.narrow) list(View<int64_t>(static_cast<int64_t*>(c.ids), size_t(ids)));
    }
    list(o.where), list(o.flag);
  }
  void add(const Unpack& o) {
    for (const PackedList& l : o.lists) list(View<int64_t>(l.to, size_t(l.count)));
  }
  void add(const FilterIds& o) {
    for (const IdFilter& f : o.filters) {
      int64_t bags = 0, ids = 0;
      for (const IdPart& p : f.parts) {
        bags += p.bags;
        for (int64_t b = 0; b < p.bags; ++b) ids += p.lengths ? p.lengths[b] : p.length;
      }
      const View<int64_t> offsets(f.offsets, size_t(bags) + 1), kept(f.ids, size_t(ids));
      list(offsets);
      list(kept.first(size_t(offsets.back())));
      list(kept.subspan(size_t(offsets.back())), false);
    }
  }
  void add(const DenseUpdate& o) { parameter({o.w, o.s1, o.s2, o.copy}); }
  void add(const FillRows& o) {
    const RowTable& t = o.table;
    matrix(Matrix(t.weights, t.type, t.rows, t.width, t.stride));
  }

  void parameter(const DenseTensor& t) {
    list(t.values), list(t.state1), list(t.state2), list(t.copy);
  }
  void segments(const SegmentedRows& runs) {
    const auto count = static_cast<size_t>(runs.count[0]);
    const auto used = static_cast<size_t>(runs.starts[count]);
    list(runs.count);
    list(runs.starts.first(count + 1)), list(runs.starts.subspan(count + 1), false);
    list(runs.rows.first(count)), list(runs.rows.subspan(count), false);
    for (size_t i = 0; i < runs.occurrences.size(); ++i) {
      Occurrence& o = runs.occurrences[i];
      push(&o.group, i < used), push(&o.bag, i < used);
    }
  }
  void rows(const OptimizerStep& step, const RowTable& t, const std::set<int64_t>& changed) {
    const OptimizerTraits& traits = traits_of(step.rule);
    const int64_t state_width = traits.rowwise() ? 1 : t.width;
    std::vector<Matrix> arrays{Matrix(t.weights, t.type, t.rows, t.width, t.stride)};
    for (int i = 0; i < traits.state_count(); ++i) {
      arrays.push_back({{i == 0 ? t.state1 : t.state2, t.rows, state_width, t.state_stride}});
    }
    for (int64_t r = 0; r < t.rows; ++r) {
      for (const Matrix& m : arrays) {
        for (int64_t c = 0; c < m.cols; ++c) element(m, r, c, changed.count(r) > 0);
      }
    }
  }

  template <class T>
  void numbers(const T&) {}
  void numbers(const Matrix& m) { matrix(m); }
  void numbers(const MatrixView<float>& m) { matrix(m); }
  void numbers(const View<float>& v) { list(v); }
  void numbers(const View<double>& v) { list(v); }
  void numbers(const View<char>& v) { list(v); }
  template <class T>
  void list(View<T> values, bool matters = true) {
    for (T& value : values) push(&value, matters);
  }
  void matrix(const Matrix& m, bool matters = true) {
    for (int64_t r = 0; m.data && r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) element(m, r, c, matters);
    }
    if (m.data && m.rows > 1 && m.stride > m.cols) element(m, 0, m.cols, false);
  }
  void element(const Matrix& m, int64_t r, int64_t c, bool matters) {
    void* const at = m.element(r, c);
    const auto spoil = [at, type = m.type](bool slightly) {
      reference::store(at, type, 0, wrong_value(reference::load(at, type, 0), slightly));
    };
    all_.push_back({matters, m.type == DType::kFloat32, spoil});
  }
  template <class T>
  void push(T* at, bool matters) {
    const auto spoil = [at](bool slightly) {
      if constexpr (std::is_integral_v<T>) {
        ++*at;
      } else {
        const auto value = static_cast<float>(*at);
        *at = static_cast<T>(static_cast<float>(wrong_value(value, slightly)));
      }
    };
    all_.push_back({matters, std::is_same_v<T, float>, spoil});
  }

  std::vector<Place> all_;
};

/// What SpoiltOps makes wrong.
struct Spoil {
  size_t call = std::numeric_limits<size_t>::max();
  size_t place = 0;
  bool slightly = false;
};

/// The reference, after which one place of one call is wrong.
class SpoiltOps final : public reference::ReferenceOps {
 public:
  struct Call {
    std::string operation;
    std::vector<Place> places;
  };

  std::string name() const override { return "spoilt"; }
  using ReferenceOps::run;
#define DLRM_SPOILT(Operation) \
  void run(const Operation& o) override { run_and_spoil(o); }
  DLRM_OPERATIONS(DLRM_SPOILT)
  DLRM_SEQUENCES(DLRM_SPOILT)
#undef DLRM_SPOILT

  Spoil spoil;
  std::vector<Call> calls;  ///< those of the checked execution, without the places' memory

 private:
  template <class Operation>
  void run_and_spoil(const Operation& o) {
    ++depth_;
    ReferenceOps::run(o);
    if (--depth_ > 0) return;
    const size_t number = calls.size();
    calls.push_back({Operation::kName, Places::of(o)});
    if (number != spoil.call) return;
    calls.back().places[spoil.place].spoil(spoil.slightly);
  }

  int depth_ = 0;
};

}  // namespace dlrm
