#pragma once
// The reference, after which one element that an operation writes is wrong.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "dlrm/ops/ops.h"

#include "ops/reference/elements.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {

/// An element that an operation may write.
struct Place {
  enum class Kind : uint8_t { kFloat, kDouble, kHalf, kInteger, kNarrow, kByte };
  std::string array;
  std::string element;  ///< as errors name it; empty if its value does not matter
  void* at = nullptr;
  Kind kind = Kind::kFloat;
  DType type = DType::kFloat32;

  double value() const {
    switch (kind) {
      case Kind::kDouble:
        return *static_cast<double*>(at);
      case Kind::kInteger:
        return static_cast<double>(*static_cast<int64_t*>(at));
      case Kind::kNarrow:
        return *static_cast<int32_t*>(at);
      case Kind::kByte:
        return *static_cast<char*>(at);
      default:
        return reference::load(at, type, 0);
    }
  }
  /// Makes the value wrong by more than its magnitude. If `slightly`, by a thousandth of it.
  void spoil(bool slightly) const {
    switch (kind) {
      case Kind::kInteger:
        return set(*static_cast<int64_t*>(at) + 1);
      case Kind::kNarrow:
        return set(*static_cast<int32_t*>(at) + 1);
      case Kind::kByte:
        return set(static_cast<char>(*static_cast<char*>(at) + 1));
      default:
        break;
    }
    const double by = (slightly ? 1e-3 : 1) * (1 + std::abs(value()));
    const double wrong = std::isfinite(value()) ? value() + by : 0;
    if (kind == Kind::kDouble) return set(wrong);
    reference::store(at, type, 0, wrong);
  }

 private:
  template <class T>
  void set(T value) const {
    std::memcpy(at, &value, sizeof(value));
  }
};

/// The elements that an operation may have written, named as errors of the checked execution.
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
    EachOperand operands{[&](const char* name, Role role, auto& operand, const Tolerance&) {
      if (role != Role::kIn) numbers(name, operand);
    }};
    o.operands(operands);
  }
  void add(const LinearBackward& o) {
    matrix("", o.dy);  // undefined afterwards
    gradients(o);
  }
  void add(const LinearBackwardUpdate& o) {
    numbers("dx", o.layer.dx);
    matrix("", o.layer.dw), numbers("", o.layer.dbias);
    for (const DenseTensor& t : {o.weight, o.bias}) parameter(t);
  }
  void gradients(const LinearBackward& o) {
    numbers("dx", o.dx), numbers("dw", o.dw), numbers("dbias", o.dbias);
  }
  void add(const EmbeddingBagForward& o) {
    for (const BagGroup& g : o.groups) {
      if (g.bags > 0) matrix("pooled", g.pooled);
    }
  }
  void add(const GroupRows& o) { segments(o.runs); }
  void add(const GroupShardRows& o) {
    for (const UpdatedShard& s : o.shards) segments(s.runs);
  }
  void add(const EmbeddingBagBackward& o) {
    const int64_t count = o.runs.count[0];
    matrix("gradient", o.grads.row_range(0, count));
    matrix("", o.grads.row_range(count, o.grads.rows - count));
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
    for (const TableGradients& g : o.gradients) {
      matrix("gradient", g.rows);
      list("flag of row {}", g.touched);
    }
  }
  void add(const UpdateTables& o) {
    for (const TableUpdate& t : o.tables) {
      std::set<int64_t> touched;
      for (size_t r = 0; r < t.gradients.touched.size(); ++r) {
        if (t.gradients.touched[r] > 0) touched.insert(static_cast<int64_t>(r));
      }
      rows(o.step, t.table, touched);
      matrix("", t.gradients.rows);
    }
  }
  void add(const CopyBlocks& o) {
    std::set<void*> known;  // errors name the first block
    for (const BlockCopy& b : o.blocks) {
      const int64_t count = copied_rows(b);
      if (count == 0 || b.cols == 0) continue;
      const int64_t reached = b.dst_rows ? b.dst_rows[count - 1] + 1 : count;
      const Matrix to(b.dst, b.dst_type, reached, b.cols, b.dst_stride);
      for (int64_t r = 0; r < to.rows; ++r) {
        for (int64_t c = 0; c < to.cols; ++c) {
          if (known.insert(to.element(r, c)).second) element("dst", to, r, c);
        }
      }
    }
  }
  void add(const CheckIds& o) {
    for (const IdCheck& c : o.lists) {
      const int64_t ids = c.bags == 0 ? 0 : c.offsets ? c.offsets[c.bags] : c.capacity;
      if (c.narrow) list("id {}", View<int32_t>(static_cast<int32_t*>(c.ids), size_t(ids)));
      if (!c.narrow) list("id {}", View<int64_t>(static_cast<int64_t*>(c.ids), size_t(ids)));
    }
    list("report {}", o.where);
    list("flag", o.flag);
  }
  void add(const Unpack& o) {
    for (const PackedList& l : o.lists) list("element {}", View<int64_t>(l.to, size_t(l.count)));
  }
  void add(const FilterIds& o) {
    for (const IdFilter& f : o.filters) {
      int64_t bags = 0, ids = 0;
      for (const IdPart& p : f.parts) {
        bags += p.bags;
        for (int64_t b = 0; b < p.bags; ++b) ids += p.lengths ? p.lengths[b] : p.length;
      }
      const View<int64_t> offsets(f.offsets, size_t(bags) + 1), kept(f.ids, size_t(ids));
      list("offset {}", offsets);
      list("id {}", kept.first(size_t(offsets.back())));
      list("", kept.subspan(size_t(offsets.back())));
    }
  }
  void add(const DenseUpdate& o) { parameter({o.w, o.s1, o.s2, o.copy}); }
  void add(const FillUniform& o) {
    const RowTable& t = o.table;
    matrix(" ", Matrix(t.weights, t.type, t.rows, t.width, t.stride));
  }

  void parameter(const DenseTensor& t) {
    numbers("weight", t.values), numbers("state 1", t.state1), numbers("state 2", t.state2);
    list("bf16 copy {}", t.copy);
  }
  void segments(const SegmentedRows& runs) {
    const auto count = static_cast<size_t>(runs.count[0]);
    const auto used = static_cast<size_t>(runs.starts[count]);
    list("count {}", runs.count);
    list("start {}", runs.starts.first(count + 1)), list("", runs.starts.subspan(count + 1));
    list("row {}", runs.rows.first(count)), list("", runs.rows.subspan(count));
    for (size_t i = 0; i < runs.occurrences.size(); ++i) {
      Occurrence& o = runs.occurrences[i];
      const auto named = [&](const char* what) {
        return i < used ? fmt::format("{} of occurrence {}", what, i) : "";
      };
      push("group", named("group"), &o.group), push("bag", named("bag"), &o.bag);
    }
  }
  void rows(const OptimizerStep& step, const RowTable& t, const std::set<int64_t>& changed) {
    const OptimizerTraits& traits = traits_of(step.rule);
    const Matrix weights(t.weights, t.type, t.rows, t.width, t.stride);
    const int64_t state_width = traits.rowwise() ? 1 : t.width;
    for (int64_t r = 0; r < t.rows; ++r) {
      const auto array = [&](const char* name) { return changed.count(r) > 0 ? name : ""; };
      for (int64_t c = 0; c < t.width; ++c) element(array("weight"), weights, r, c);
      for (int i = 0; i < traits.state_count(); ++i) {
        const Matrix state({i == 0 ? t.state1 : t.state2, t.rows, state_width, t.state_stride});
        for (int64_t c = 0; c < state_width; ++c) {
          element(array(i == 0 ? "state 1" : "state 2"), state, r, c);
        }
      }
    }
  }

  template <class T>
  void numbers(const char*, const T&) {}
  void numbers(const char* name, const Matrix& m) { matrix(name, m); }
  void numbers(const char* name, const MatrixView<float>& m) { matrix(name, m); }
  void numbers(const char* name, const View<float>& v) { row(name, v); }
  void numbers(const char* name, const View<double>& v) { row(name, v); }
  void numbers(const char* name, const View<char>& v) { row(name, v); }
  template <class T>
  void row(const std::string& name, View<T> values) {
    list(name.empty() ? name : name + " (0, {})", values);
  }
  template <class T>
  void list(const std::string& name, View<T> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      push(name.substr(0, name.find_first_of("({") - 1), fmt::format(fmt::runtime(name), i),
           &values[i]);
    }
  }
  void matrix(const std::string& name, const Matrix& m) {
    for (int64_t r = 0; m.data && r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) element(name, m, r, c);
    }
    if (m.data && m.rows > 1 && m.stride > m.cols) element("", m, 0, m.cols);
  }
  void element(const std::string& name, const Matrix& m, int64_t r, int64_t c) {
    const std::string text = name == " "    ? fmt::format("({}, {})", r, c)
                             : name.empty() ? ""
                                            : fmt::format("{} ({}, {})", name, r, c);
    const bool full = m.type == DType::kFloat32;
    all_.push_back(
        {name, text, m.element(r, c), full ? Place::Kind::kFloat : Place::Kind::kHalf, m.type});
  }
  void push(const std::string& array, const std::string& text, float* at) {
    all_.push_back({array, text, at, Place::Kind::kFloat});
  }
  void push(const std::string& array, const std::string& text, double* at) {
    all_.push_back({array, text, at, Place::Kind::kDouble});
  }
  void push(const std::string& array, const std::string& text, BFloat16* at) {
    all_.push_back({array, text, at, Place::Kind::kHalf, DType::kBFloat16});
  }
  void push(const std::string& array, const std::string& text, int64_t* at) {
    all_.push_back({array, text, at, Place::Kind::kInteger});
  }
  void push(const std::string& array, const std::string& text, int32_t* at) {
    all_.push_back({array, text, at, Place::Kind::kNarrow});
  }
  void push(const std::string& array, const std::string& text, char* at) {
    all_.push_back({array, text, at, Place::Kind::kByte});
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
