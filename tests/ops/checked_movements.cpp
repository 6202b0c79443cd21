// Cases of copies, conversions and lists of ids.
#include "checked_cases.h"
#include "fixture.h"

namespace dlrm {

void add_movements(std::vector<CheckedCase>& all);

namespace {

/// 1, 1.5, 2 ... with alternating signs.
std::vector<float> stairs(size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i)
    all[i] = (i % 2 == 0 ? 0.5f : -0.5f) * static_cast<float>(i + 2);
  return all;
}
Cells stairs(int64_t rows, int64_t cols, DType type) {
  Cells all(rows, cols, type);
  const std::vector<float> from = stairs(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows * cols; ++i) {
    all.set(i / cols, i % cols, from[static_cast<size_t>(i)]);
  }
  return all;
}

BlockCopy block_between(Cells& from, Cells& to) {
  BlockCopy b;
  b.src = from.matrix().data, b.src_type = from.type(), b.src_stride = from.stride();
  b.dst = to.matrix().data, b.dst_type = to.type(), b.dst_stride = to.stride();
  b.rows = from.rows(), b.cols = from.cols();
  return b;
}

void add_copies(std::vector<CheckedCase>& all) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool accumulate : {false, true}) {
      all.push_back({fmt::format("copy_blocks to {}{}", name_of(type), accumulate ? " added" : ""),
                     [=](Ops& ops) {
                       Cells from = stairs(3, 4, DType::kFloat32), to = stairs(3, 4, type);
                       const std::vector<float> scale = {2, 0.1f, -1};
                       BlockCopy b = block_between(from, to);
                       b.scale = scale.data(), b.accumulate = accumulate;
                       ops.copy_blocks({&b, 1});
                     }});
    }
  }
  all.push_back(
      {"copy_blocks of listed rows", [](Ops& ops) {
         Cells from = stairs(5, 3, DType::kFloat32), to = stairs(6, 3, DType::kFloat32);
         const std::vector<int32_t> sources = {4, 0, 2, -1, -1}, targets = {1, 2, 4, 5, -1};
         BlockCopy b = block_between(from, to);
         b.src_rows = sources.data(), b.dst_rows = targets.data();
         ops.copy_blocks({&b, 1});
       }});
  all.push_back({"copy_blocks that overlap", [](Ops& ops) {
                   Cells from = stairs(3, 4, DType::kFloat32), to = stairs(4, 9, DType::kFloat32);
                   from.set(1, 1, INFINITY);  // the error of sums depends on the largest number
                   Cells apart = stairs(3, 4, DType::kFloat32);
                   apart.set(2, 3, -90);
                   // The third begins where the second ends, the last lies before all others.
                   BlockCopy blocks[] = {block_between(from, to), block_between(apart, to),
                                         block_between(from, to), block_between(from, to),
                                         block_between(from, to)};
                   const auto at = [&](int64_t r, int64_t c) { return to.matrix().element(r, c); };
                   blocks[0].dst = at(0, 4), blocks[1].dst = at(1, 4), blocks[2].dst = at(3, 8);
                   blocks[2].rows = 1, blocks[2].cols = 1, blocks[3].rows = 0;
                   blocks[4].rows = 1, blocks[4].cols = 2;
                   blocks[1].accumulate = blocks[2].accumulate = true;
                   ops.copy_blocks(blocks);
                 }});
  for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const DType to : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      all.push_back({fmt::format("convert {} to {}", name_of(from), name_of(to)), [=](Ops& ops) {
                       Cells x = stairs(3, 4, from), y = stairs(3, 4, to);
                       ops.convert(x.matrix(), y.matrix());
                     }});
    }
  }
  all.push_back({"convert equal rows", [](Ops& ops) {
                   std::vector<float> row = {1, 2, 3};
                   Cells to = stairs(4, 3, DType::kFloat32);
                   ops.convert(Matrix(row.data(), DType::kFloat32, 4, 3, 0), to.matrix());
                 }});
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    all.push_back({fmt::format("add {}", name_of(type)), [=](Ops& ops) {
                     Cells x = stairs(3, 4, type), y = stairs(3, 4, type);
                     ops.add(x.matrix(), y.matrix());
                   }});
    all.push_back({fmt::format("add_row_sums {}", name_of(type)), [=](Ops& ops) {
                     Cells x = stairs(3, 4, type), y = stairs(3, 1, type);
                     ops.run(AddRowSums{x.matrix(), y.matrix()});
                   }});
    all.push_back({fmt::format("repeat_column {}", name_of(type)), [=](Ops& ops) {
                     Cells x = stairs(3, 1, type), y = stairs(3, 4, type);
                     ops.run(RepeatColumn{x.matrix(), y.matrix()});
                   }});
    for (const bool finite : {false, true}) {
      all.push_back({fmt::format("find_non_finite {}{}", name_of(type), finite ? " none" : ""),
                     [=](Ops& ops) {
                       Cells x = stairs(3, 4, type);
                       if (!finite) x.set(1, 2, NAN);
                       std::vector<float> bad = {0};
                       ops.find_non_finite(x.matrix(), bad);
                     }});
    }
  }
  all.push_back({"fill_zero", [](Ops& ops) {
                   std::vector<float> data = stairs(3);
                   ops.fill_zero(data.data(), 11);
                 }});
}

void add_id_lists(std::vector<CheckedCase>& all) {
  all.push_back({"unpack", [](Ops& ops) {
                   const std::vector<int32_t> packed = {4, -5, 6};
                   std::vector<int64_t> unpacked(3, 7), multiples(4, 7);
                   const PackedList lists[] = {{packed.data(), unpacked.data(), 3, 0},
                                               {nullptr, multiples.data(), 4, 7}};
                   ops.unpack(lists);
                 }});
  all.push_back({"filter_ids", [](Ops& ops) {
                   std::vector<int64_t> wide = {3, 9, 4, 5}, ids(12, -1), offsets(10, -1);
                   std::vector<int32_t> narrow = {9, 1, 5, 3}, lengths = {1, 0, 3};
                   IdPart parts[4];
                   parts[0].ids = wide.data(), parts[0].bags = 2, parts[0].length = 2;
                   parts[1].ids = narrow.data(), parts[1].narrow = true, parts[1].bags = 3;
                   parts[1].lengths = lengths.data();
                   parts[3].ids = narrow.data(), parts[3].narrow = true, parts[3].bags = 4;
                   parts[3].length = 1;
                   std::vector<int64_t> more(4, -1), begins(3, -1);
                   const IdFilter filters[] = {{parts, 3, 3, ids.data(), offsets.data()},
                                               {{parts, 1}, 9, 1, more.data(), begins.data()}};
                   ops.filter_ids(filters);
                 }});
  for (const bool reported : {false, true}) {
    all.push_back({reported ? "check_ids after a report" : "check_ids", [=](Ops& ops) {
                     // Bags at offsets, of given lengths, and of one length.
                     std::vector<int64_t> wide = {99, 3, 5, 0, -1, 4}, offsets = {1, 3, 3, 6};
                     std::vector<int32_t> narrow = {1, 4, 5, 0}, even = {2, -1, 3, 9};
                     const std::vector<int32_t> samples = {7, 2, 11}, lengths = {3, 1};
                     IdCheck lists[4];
                     for (IdCheck& list : lists) list.rows = 5, list.capacity = 4;
                     lists[0].feature = 8, lists[0].first_sample = 100, lists[0].first_row = 1000;
                     lists[0].ids = wide.data(), lists[0].offsets = offsets.data();
                     lists[0].samples = samples.data(), lists[0].bags = 3, lists[0].capacity = 9;
                     lists[2].ids = narrow.data(), lists[2].lengths = lengths.data();
                     lists[2].bags = 2, lists[2].narrow = true;
                     lists[3].ids = even.data(), lists[3].length = 2, lists[3].bags = 2;
                     lists[3].narrow = true;
                     std::vector<float> flag = {reported ? 1.0f : 0.0f};
                     std::vector<int64_t> where = {70, 71, 72};
                     ops.check_ids(lists, flag, where);
                   }});
  }
}

}  // namespace

void add_movements(std::vector<CheckedCase>& all) {
  add_copies(all);
  add_id_lists(all);
}

}  // namespace dlrm
