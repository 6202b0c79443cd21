// Which kernels and libraries an emulated GPU uses for calls whose options are set in every
// combination, compared with a file like that of chosen_kernels_test.cpp.
#if defined(DLRM_SIMT)
#include <algorithm>

#include "dlrm/ops/slot_copies.h"

#include "kernels/rank_sum.h"
#include "noted_kernels.h"
#include "pinned_text.h"

namespace dlrm {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr std::pair<Activation, const char*> kActivations[] = {
    {Activation::kNone, "none"}, {Activation::kRelu, "relu"},       {Activation::kGelu, "gelu"},
    {Activation::kSilu, "silu"}, {Activation::kSigmoid, "sigmoid"}, {Activation::kTanh, "tanh"}};

class ChosenCalls : public NotedKernels {
 protected:
  using Matrices = std::vector<Matrix>;

  /// "aligned", "unaligned": a library takes a bias or a mask only if it is aligned.
  static constexpr const char* kGiven[] = {"no", "aligned", "unaligned"};

  View<const float> floats(int64_t count, size_t given) {
    if (given == 0) return {};
    return {reinterpret_cast<const float*>(zeros(4 * count, given == 2 ? 4 : 0)),
            static_cast<size_t>(count)};
  }

  void add_forwards() {
    for (const DType type : kTypes) {
      for (const auto& [act, name] : kActivations) {
        for (const size_t bias : {0, 1, 2}) {
          for (const int64_t inputs : {0, 24}) {
            add_forward(
                fmt::format("{} {} inputs, {}, {} bias", name_of(type), inputs, name, kGiven[bias]),
                type, act, bias, inputs);
          }
        }
      }
      for (const size_t bias : {0, 1, 2}) {
        for (const int64_t outputs : {1, 16}) {
          LinearForward l;
          l.x = matrix(type, 40, 24), l.w = matrix(type, outputs, 24);
          l.y = matrix(type, 40, outputs), l.added = matrix(type, 40, outputs);
          l.bias = floats(outputs, bias);
          note(fmt::format("forward {} {} outputs, added, {} bias", name_of(type), outputs,
                           kGiven[bias]),
               [&] { ops_->run(l); });
        }
      }
    }
  }
  void add_forward(const std::string& name, DType type, Activation act, size_t bias,
                   int64_t inputs) {
    for (const bool rounded : {false, true}) {
      for (const size_t mask : {0, 1, 2}) {
        if (rounded && (type == DType::kFloat32 || bias == 0)) continue;
        if (mask > 0 && act != Activation::kRelu) continue;
        LinearForward l;
        l.act = act;
        l.x = matrix(type, 40, inputs), l.w = matrix(type, 16, inputs);
        l.y = matrix(type, 40, 16), l.z = matrix(type, 40, 16);
        l.bias = floats(16, bias);
        if (rounded) l.rounded_bias = view<const BFloat16>(16);
        ReluMask bits{zeros(40 * 16, mask == 2 ? 1 : 0), 128, true};
        if (mask > 0) l.mask = &bits;
        note(fmt::format("forward {}{}, {} mask", name, rounded ? ", rounded" : "", kGiven[mask]),
             [&] { ops_->run(l); });
        if (mask > 0) text_ += fmt::format("  written {}\n", bits.written);
      }
    }
    if (inputs > 0 || bias == 0 || act != Activation::kGelu) return;
    add_flaws("forward of " + name, {{40, 16, type}, {40, 16, type}}, [&](const Matrices& m) {
      const Matrix none(nullptr, type, 40, 0);
      ops_->linear_forward(none, Matrix(nullptr, type, 16, 0), floats(16, bias), act, m[0], m[1]);
      stream->synchronize();
    });
  }

  void add_below() {
    for (const DType type : kTypes) {
      for (const auto& [act, name] : kActivations) {
        for (const int64_t outputs : {0, 1, 8}) {
          for (const bool added : {false, true}) {
            for (const size_t mask : {0, 1, 2}) {  // none, not written, written
              for (const bool sums : {false, true}) {
                if (mask > 0 && (act != Activation::kRelu || outputs == 0)) continue;
                LayerBelow below;
                const ReluMask bits{zeros(40 * 16), 128, mask == 2};
                below.act = act, below.mask = mask > 0 ? &bits : nullptr;
                below.y = matrix(type, 40, 16), below.z = matrix(type, 40, 16);
                if (sums) below.dbias = view<float>(16);
                LinearBackward l;
                const Matrix dw = matrix(DType::kFloat32, outputs, 16);
                l.dy = matrix(type, 40, outputs), l.x = below.y, l.w = matrix(type, outputs, 16);
                l.dx = matrix(type, 40, 16), l.dw = dw.f32(), l.below = &below;
                if (added) l.added = matrix(type, 40, 16);
                note(fmt::format("backward {} {} outputs onto {}, mask {}{}{}", name_of(type),
                                 outputs, name, mask, sums ? ", sums" : "", added ? ", added" : ""),
                     [&] { ops_->run(l); });
                if (sums) text_ += fmt::format("  has sums {}\n", below.has_dbias);
              }
            }
          }
        }
      }
    }
  }

  /// Tensor cores read inputs 16 bytes at a time. A copy of an input repays itself if the other
  /// side is large, and is not needed for exact products in fp32.
  void add_products() {
    CudaOpsOptions no_tf32;
    no_tf32.tf32 = false;
    const auto exact = make_cuda_ops(*device, *stream, no_tf32);
    const auto second = exact->make_for_stream(*stream);
    for (const char* options : {"exact", "exact, too", "tf32"}) {
      const std::string of = options;
      Ops& ops = of == "tf32" ? *ops_ : of == "exact" ? *exact : *second;
      for (const DType type : kTypes) {
        for (const int64_t other : {63, 64}) {
          for (const int64_t spare : {0, 1}) {
            const Matrix x = matrix(type, other, 24, spare), w = matrix(type, other, 24, 1 - spare);
            const Matrix y = matrix(type, other, other);
            note(fmt::format("product {} {} of {}, spare {}", name_of(type), of, other, spare),
                 [&] { ops.linear_forward(x, w, {}, Activation::kNone, y, {}); });
          }
        }
      }
    }
  }

  static BlockCopy copy_of(const Matrix& src, const Matrix& dst) {
    BlockCopy b;
    b.src = src.data, b.src_type = src.type, b.src_stride = src.stride;
    b.dst = dst.data, b.dst_type = dst.type, b.dst_stride = dst.stride;
    b.rows = dst.rows, b.cols = dst.cols;
    return b;
  }
  void add_copies() {
    const DType all[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
    for (const DType from : all) {
      for (const DType to : all) {
        add_flaws(fmt::format("copy to {}", name_of(to)), {{300, 64, from}, {300, 64, to}},
                  [&](const Matrices& m) {
                    const BlockCopy b = copy_of(m[0], m[1]);
                    ops_->copy_blocks({&b, 1});
                  });
      }
    }
    for (const DType type : kTypes) {
      const Field f{300, 64, type};
      add_flaws("convert to fp16", {f, {300, 64, DType::kFloat16}},
                [&](const Matrices& m) { ops_->convert(m[0], m[1]); });
      add_flaws("add to bf16", {f, {300, 64, DType::kBFloat16}},
                [&](const Matrices& m) { ops_->add(m[0], m[1]); });
      add_flaws("sum of three", {f, f, f, f}, [&](const Matrices& m) {
        std::vector<BlockCopy> list;
        for (size_t i = 0; i < 3; ++i) list.push_back(copy_of(m[i], m[3]));
        list[1].accumulate = list[2].accumulate = true;
        ops_->copy_blocks(list);
      });
      for (const int64_t cols : {1, 4, 64, 1030}) {
        std::vector<int32_t> rows(40);
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = i < 30 ? static_cast<int32_t>(i) : -1;
        const Matrix whole = matrix(type, 70, cols), some = matrix(type, 40, cols),
                     sum = matrix(type, 70, cols);
        std::vector<BlockCopy> list{copy_of(whole, sum)};
        list.resize(9, copy_of(some, sum));
        for (size_t i = 1; i < 9; ++i) {
          list[i].rows = 40, list[i].dst_rows = kept(rows), list[i].dst_height = 70;
          list[i].accumulate = true;
        }
        note(fmt::format("sum of lists {} of {} columns", name_of(type), cols),
             [&] { ops_->copy_blocks(list); });
      }
    }
  }

  void add_ids() {
    for (const int64_t n : {1, 32, 33, 255, 256, 257, 1024, 1025, 5000}) {
      std::vector<int64_t> offsets;
      for (int64_t b = 0; b <= n; ++b) offsets.push_back(b);
      for (const bool bad : {false, true}) {
        std::vector<int64_t> ids(static_cast<size_t>(n));
        ids.back() = bad ? 9 : 0;
        IdCheck check;
        check.ids = kept(ids), check.offsets = kept(offsets);
        check.bags = check.capacity = n, check.rows = 5;
        const auto flag = view<float>(1);
        const auto where = view<int64_t>(3);
        note(fmt::format("check {}{}", n, bad ? ", one of them bad" : ""), [&] {
          ops_->check_ids({&check, 1}, flag, where);
        });
      }
      const PackedList packed{nullptr, view<int64_t>(n).data(), n, 3};
      note(fmt::format("unpack {}", n), [&] { ops_->unpack({&packed, 1}); });
      IdPart part;
      part.ids = zeros(8 * 2 * n), part.bags = n, part.length = 2;
      const IdFilter filter{
          {&part, 1}, 0, 5, view<int64_t>(2 * n).data(), view<int64_t>(n + 1).data()};
      note(fmt::format("filter {}", n), [&] { ops_->filter_ids({&filter, 1}); });
    }
    const IdFilter nothing{{}, 0, 5, nullptr, view<int64_t>(1).data()};
    note("filter nothing", [&] { ops_->filter_ids({&nothing, 1}); });
    // Keys have 32 bits while they suffice.
    for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{1} << 31, (int64_t{1} << 32) - 1,
                               int64_t{1} << 32, int64_t{1} << 40}) {
      const std::vector<int64_t> ids(600), offsets{0, 600};
      const IdGroup of{kept(ids), kept(offsets), 1, 600};
      const SegmentedRows runs{view<int64_t>(600), view<int64_t>(601), view<Occurrence>(600),
                               view<int64_t>(1)};
      std::vector<Array<char>> operands;
      operands.swap(memory_);
      const size_t before = device->bytes_in_use();
      const auto fresh = make_cuda_ops(*device, *stream, CudaOpsOptions());
      note(fmt::format("sort by {} rows", rows), [&] { fresh->group_rows({&of, 1}, rows, runs); });
      text_ += fmt::format("  scratch {}\n", device->bytes_in_use() - before);
    }
  }

  void add_rows() {
    for (const DType type : kTypes) {
      for (const OptimizerRule rule :
           {OptimizerRule::kSgd, OptimizerRule::kRowwiseAdagrad, OptimizerRule::kAdagrad,
            OptimizerRule::kAdam, OptimizerRule::kFtrl}) {
        for (const int64_t width : {1, 4, 6, 16, 128, 132, 260}) {
          for (const size_t flawed : {0, 1, 2, 3, 4}) {  // which array is not aligned
            if (flawed == 0 || width == 16 || width == 132) add_rows_of(type, rule, width, flawed);
          }
        }
      }
    }
  }
  void add_rows_of(DType type, OptimizerRule rule, int64_t width, size_t flawed) {
    constexpr int64_t kRows = 70;
    OptimizerStep step;
    step.rule = rule;
    const auto fill = [&](int64_t bytes, size_t number) {
      return zeros(bytes, number == flawed ? 4 : 0);
    };
    RowTable t;
    t.type = type, t.rows = kRows, t.width = t.stride = t.state_stride = width;
    t.weights = zeros(kRows * width * static_cast<int64_t>(size_of(type)), flawed == 1 ? 2 : 0);
    if (type == DType::kFloat32) t.weights = fill(kRows * width * 4, 1);
    const int states = traits_of(rule).state_count();
    if (states > 0) t.state1 = reinterpret_cast<float*>(fill(kRows * width * 4, 2));
    if (states > 1) t.state2 = reinterpret_cast<float*>(fill(kRows * width * 4, 3));
    std::vector<int64_t> rows, starts{0};
    std::vector<Occurrence> occurrences;
    for (int64_t r = 0; r < kRows; ++r) {
      rows.push_back(r);
      for (int64_t i = 0; i <= r % 7; ++i) occurrences.push_back({0, static_cast<int32_t>(i)});
      starts.push_back(static_cast<int64_t>(occurrences.size()));
    }
    const auto ids = static_cast<int64_t>(occurrences.size());
    const SegmentedRows runs{{kept(rows), kRows},
                             {kept(starts), kRows + 1},
                             {kept(occurrences), static_cast<size_t>(ids)},
                             {kept(std::vector<int64_t>{kRows}), 1}};
    const auto* grads = reinterpret_cast<float*>(fill(kRows * width * 4, 4));
    const Matrix gradient(const_cast<float*>(grads), DType::kFloat32, kRows, width);
    const BagGradient of{gradient, nullptr};
    const std::string name = fmt::format("{} {} of {} columns, {} unaligned", name_of(type),
                                         traits_of(rule).name, width, flawed);
    std::vector<Array<char>> operands;
    operands.swap(memory_);
    note("update " + name, [&] { ops_->embedding_bag_update(step, t, runs, {&of, 1}); });
    const int64_t full = width;
    note("sparse " + name,
         [&] { ops_->sparse_update(step, t, runs.rows, runs.count, gradient.f32(), {}, full); });
    std::vector<float> touched(kRows);
    for (size_t r = 0; r < touched.size(); r += 3) touched[r] = 1;
    const TableUpdate whole{t, {gradient.f32(), {kept(touched), kRows}}};
    note("whole " + name, [&] { ops_->update_tables(step, {&whole, 1}); });
    if (rule != OptimizerRule::kSgd || type != DType::kFloat32) return;
    note("squares " + name, [&] {
      ops_->row_square_sums(runs.count, gradient.f32(), view<float>(kRows));
      stream->synchronize();
    });
    const ShardUpdate shard{t, {}, {&of, 1}, runs};
    const TableGradients to{{static_cast<float*>(t.weights), kRows, width}, view<float>(kRows)};
    note("sums " + name, [&] { ops_->sum_table_gradients({&shard, 1}, {&to, 1}); });
  }

  /// Rows of the host's memory are processed on a stream of their own, beside those of the device.
  void add_memories() {
    for (unsigned which = 1; which < 16; ++which) {
      std::vector<BagGroup> groups;
      std::vector<ShardUpdate> updates;
      std::vector<BagGradient> gradients;
      gradients.reserve(4);
      std::string name;
      std::vector<int64_t> rows, offsets;
      std::vector<Occurrence> occurrences;
      for (int32_t i = 0; i <= 100; ++i) offsets.push_back(i);
      for (int32_t i = 0; i < 100; ++i) rows.push_back(i), occurrences.push_back({0, i});
      for (unsigned k = 0; k < 4; ++k) {
        if ((which >> k & 1) == 0) continue;
        const DType type = kTypes[k % 2];
        RowTable t;
        t.weights = zeros(100 * 8 * 4), t.rows = 100, t.width = t.stride = 8, t.on_host = k >= 2;
        name += fmt::format(" {} {},", t.on_host ? "host" : "device", name_of(type));
        BagGroup group;
        group.table = t, group.ids = kept(rows), group.offsets = kept(offsets);
        group.bags = group.capacity = 100, group.pooled = matrix(type, 100, 8);
        groups.push_back(group);
        gradients.push_back({group.pooled, nullptr});
        updates.push_back({t,
                           {},
                           {&gradients.back(), 1},
                           {{kept(rows), 100},
                            {kept(offsets), 101},
                            {kept(occurrences), 100},
                            {kept(std::vector<int64_t>{100}), 1}}});
      }
      std::vector<Array<char>> operands;
      operands.swap(memory_);
      // A first call uploads lists, unless equal ones were there.
      ops_->embedding_bag_forward(groups);
      ops_->embedding_bag_updates({}, updates, [] {});
      note(
          "lookup" + name, [&] { ops_->embedding_bag_forward(groups); }, true);
      note(
          "update" + name, [&] { ops_->embedding_bag_updates({}, updates, [] {}); }, true);
    }
  }

  void add_others() {
    for (const int64_t n : {1, 4, 1023, 1024, 1025, 3000}) {
      const Matrix logits = matrix(DType::kBFloat16, n, 1), d = matrix(DType::kBFloat16, n, 1);
      const Targets targets{view<const float>(n), {}};
      note(fmt::format("loss of {}", n), [&] {
        ops_->bce_with_logits(logits, targets, 1, {view<double>(1)}, d);
        stream->synchronize();
      });
      for (const int64_t window : {1, 2, 7}) {
        const int64_t outputs = (n + window - 1) / window;
        const Matrix e = matrix(DType::kFloat32, 3, n), y = matrix(DType::kFloat32, 3, outputs);
        note(fmt::format("pool {} by {}", n, window), [&] {
          ops_->average_pool_forward(e, window, y);
          ops_->average_pool_backward(y, window, e);
        });
      }
      for (const int64_t column : {0, 3}) {
        RowTable t;
        t.weights = zeros(3 * n * 4), t.rows = 3, t.width = t.stride = n;
        note(fmt::format("draw {} from column {}", n, column),
             [&] { ops_->fill_uniform(1, 0, column, 1, t); });
      }
      const auto* parts = reinterpret_cast<uint16_t*>(zeros(6 * n));
      auto* sums = reinterpret_cast<uint16_t*>(zeros(2 * n));
      note(fmt::format("sum {} of ranks", n),
           [&] { kernels::sum_of_ranks(parts, 3, n, sums, native()); });
      OptimizerStep step;
      step.rule = OptimizerRule::kLamb;
      const auto w = view<float>(n), g = view<float>(n), s1 = view<float>(n), s2 = view<float>(n);
      note(fmt::format("lamb {}", n), [&] { ops_->dense_update(step, w, g, s1, s2, {}); });
    }
  }
};

TEST_F(ChosenCalls, AreThoseOfTheFile) {
  add_forwards();
  add_below();
  add_products();
  add_copies();
  add_ids();
  add_rows();
  add_memories();
  add_others();
  expect_text_of_file(text_, DLRM_SOURCE "/tests/ops/chosen_calls.txt");
}

/// Arrays of every size of unit, copied with and without numbers of records, then fewer of them.
using SlotCopiesTest = OnGpu;

TEST_F(SlotCopiesTest, TakeEachArrayAtItsPlaceInARecord) {
  constexpr int64_t kSlots = 300, kRecords = 500, kStride = 144;
  const int64_t strides[] = {2, 4, 8, 16, 48};
  const auto copies = make_slot_copies(*device, *stream);
  std::vector<int32_t> slots;
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 257; ++i) {
    slots.push_back(static_cast<int32_t>((i * 7 + 3) % kSlots));
    numbers.push_back((i * 11 + 5) % kRecords);
  }
  const auto bytes = [](int64_t count, int64_t seed) {
    std::vector<char> all(static_cast<size_t>(count));
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<char>((i * 31 + static_cast<size_t>(seed) * 57 + i / 251) % 256);
    }
    return all;
  };
  const auto slot_array = upload(slots);
  const auto number_array = upload(numbers);
  for (const bool numbered : {true, false}) {
    for (const size_t fewest : {0, 3}) {  // a call with fewer arrays follows
      for (const size_t count : {size_t{257}, size_t{2}, size_t{0}}) {
        for (const bool to_slots : {true, false}) {
          std::vector<char> records = bytes(kRecords * kStride, 1);
          const auto record_array = upload(records);
          std::vector<std::vector<char>> values;
          std::vector<Array<char>> arrays;
          std::vector<SlotArray> of;
          for (size_t a = fewest; a < 5; ++a) {
            values.push_back(bytes(kSlots * strides[a], static_cast<int64_t>(a) + 2));
            arrays.push_back(upload(values.back()));
            of.push_back({arrays.back().data(), strides[a], static_cast<int64_t>(a) * 16});
          }
          SlotBlock block{const_cast<char*>(record_array.data()), slot_array.data(),
                          static_cast<int64_t>(count), kStride,
                          numbered ? number_array.data() : nullptr};
          to_slots ? copies->to_slots(of, block) : copies->from_slots(of, block);
          for (size_t i = 0; i < count; ++i) {
            const auto number =
                static_cast<int64_t>(numbered ? numbers[i] : static_cast<int64_t>(i));
            for (size_t a = 0; a < of.size(); ++a) {
              char* slot = values[a].data() + slots[i] * of[a].stride;
              char* record = records.data() + number * kStride + of[a].at;
              std::copy_n(to_slots ? record : slot, of[a].stride, to_slots ? slot : record);
            }
          }
          EXPECT_EQ(download(record_array.data(), records.size()), records);
          for (size_t a = 0; a < of.size(); ++a) {
            EXPECT_EQ(download(arrays[a].data(), values[a].size()), values[a]) << a;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
