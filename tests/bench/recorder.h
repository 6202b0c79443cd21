#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "noted_ops.h"

namespace dlrm::bench {

/// What the numbers of an operand are like before a call.
inline std::string kind_of(const Matrix& m) {
  bool zero = true, below = false, large = false;
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      const void* p = m.element(r, c);
      const float v = m.type == DType::kFloat32
                          ? *static_cast<const float*>(p)
                          : static_cast<float>(*static_cast<const BFloat16*>(p));
      zero &= v == 0, below |= v < 0, large |= !(std::abs(v) <= 1);
    }
  }
  return zero ? " zeros" : large ? " large" : below ? " in [-1, 1]" : " in [0, 1]";
}

/// Operations that note calls with their operands. Of equal calls between two that fill memory
/// it notes the first.
class Recorder final : public NotedOps<Recorder> {
 public:
  using NotedOps::NotedOps;

  std::vector<std::string> calls;

 private:
  friend NotedOps;

  template <class Operation>
  void note(Operation o) {
    places_.clear();
    call_ = Operation::kName;
    kinds_ = false;
    EachOperand same{[this](const char* name, Role, const auto& operand, const Tolerance&) {
      call_ += fmt::format("; {} ", name);
      add(operand);
    }};
    o.operands(same);
    more(o);
    if (std::is_same_v<Operation, FillUniform>) seen_.clear();
    if (!seen_.insert(call_).second || (call_ == last_ && seen_.size() == 1)) return;
    last_ = call_;
    places_.clear();
    call_ = Operation::kName;
    kinds_ = true;
    o.operands(same);
    more(o);
    calls.push_back(call_);
  }
  template <class Operation>
  void more(const Operation&) {}
  void more(const LinearForward& o) {
    call_ += fmt::format("; activation {}", static_cast<int>(o.act));
  }
  void more(const LinearBackward& o) {
    call_ += fmt::format("; activation {}", static_cast<int>(o.act));
  }
  void more(const BceWithLogits& o) { call_ += fmt::format("; scale {:g}", o.scale); }
  void more(const AveragePoolForward& o) { call_ += fmt::format("; window {}", o.window); }
  void more(const AveragePoolBackward& o) { call_ += fmt::format("; window {}", o.window); }
  void more(const FillUniform& o) {
    call_ += fmt::format("; {} {} {} {:g}", o.key, o.first_row, o.first_column, o.bound);
  }

  /// Names the first pointer of a call a, the second b, and so on. A pointer into memory whose
  /// start has a name is that name and the distance.
  std::string place(const void* p, int64_t bytes) {
    if (!p) return "null";
    const char* at = static_cast<const char*>(p);
    for (auto& [begin, known] : places_) {
      if (at >= begin && at < begin + known.second) {
        known.second = std::max(known.second, at - begin + bytes);
        return at == begin ? std::string(1, known.first)
                           : fmt::format("{}+{}", known.first, at - begin);
      }
    }
    const char name = static_cast<char>('a' + places_.size() % 26);
    places_[at] = {name, bytes};
    return std::string(1, name);
  }
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    call_ += fmt::format(text, std::forward<Args>(args)...);
  }

  void add(const Matrix& m) {
    if (!m.data) return say("none");
    const int64_t reach =
        ((m.rows - 1) * m.stride + m.cols) * static_cast<int64_t>(size_of(m.type));
    say("{} {}x{}/{} {}{}", place(m.data, reach), m.rows, m.cols, m.stride, name_of(m.type),
        kinds_ ? kind_of(m) : "");
  }
  template <class T>
  void add(const MatrixView<T>& m) {
    add(Matrix(const_cast<float*>(m.data), DType::kFloat32, m.rows, m.cols, m.stride));
  }
  template <class T>
  void add(View<T> v) {
    say("{} [{}]", place(v.data(), static_cast<int64_t>(v.size_bytes())), v.size());
    if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
      const Matrix m(const_cast<float*>(v.data()), DType::kFloat32, 1,
                     static_cast<int64_t>(v.size()));
      if (kinds_ && !v.empty()) call_ += kind_of(m);
    }
  }
  void add(const OptimizerStep& s) {
    say("{} lr {:g} eps {:g} beta {:g} {:g}", traits_of(s.rule).name, s.lr, s.eps, s.beta1,
        s.beta2);
  }
  void add(const RowTable& t) {
    add(Matrix(t.weights, t.type, t.rows, t.width, t.stride));
    const int64_t state = t.rows * t.state_stride * 4;
    if (t.state1) say(" state {}/{}", place(t.state1, state), t.state_stride);
  }
  void add(const IdGroup& g) { add_ids(g.ids, g.offsets, g.bags, g.capacity); }
  void add_ids(const int64_t* ids, const int64_t* offsets, int64_t bags, int64_t capacity) {
    // One sum for the ids, and one that depends on their order.
    int64_t sum = 0, weighted = 0;
    for (int64_t i = 0; i < offsets[bags]; ++i) sum += ids[i], weighted += (i + 1) * ids[i];
    const std::string at = place(ids, offsets[bags] * 8), by = place(offsets, (bags + 1) * 8);
    say("ids {}{} offsets {} to {} of {} bags{}", at, capacity == offsets[bags] ? "" : " wrong", by,
        offsets[bags], bags, kinds_ ? fmt::format(" sums {} {}", sum, weighted) : "");
  }
  void add(View<const BagGroup> groups) {
    for (const BagGroup& g : groups) {
      call_ += "\n    ";
      add(g.table);
      call_ += ", ";
      add_ids(g.ids, g.offsets, g.bags, g.capacity);
      call_ += ", pooled ";
      add(g.pooled);
    }
  }
  void add(View<const ShardUpdate> shards) {
    for (const ShardUpdate& s : shards) {
      call_ += "\n    ";
      add(s.table);
      for (const IdGroup& g : s.groups) call_ += ", ", add(g);
      for (const BagGradient& g : s.gradients) call_ += ", ", add(g.pooled);
      call_ += ", runs";
      for (const View<int64_t>& v : {s.runs.rows, s.runs.starts, s.runs.count})
        call_ += " ", add(v);
      call_ += " ", add(s.runs.occurrences);
    }
  }
  void add(View<const BlockCopy> blocks) {
    for (const BlockCopy& b : blocks) {
      call_ += "\n    ";
      add(Matrix(const_cast<void*>(b.src), b.src_type, b.rows, b.cols, b.src_stride));
      call_ += " to ";
      add(Matrix(b.dst, b.dst_type, b.rows, b.cols, b.dst_stride));
    }
  }
  template <class T>
  void add(const T&) {
    call_ += "?";
  }

  bool kinds_ = false;
  std::string call_, last_;
  std::set<std::string> seen_;
  std::map<const char*, std::pair<char, int64_t>> places_;
};

}  // namespace dlrm::bench
