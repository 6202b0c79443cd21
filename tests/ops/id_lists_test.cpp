#include <algorithm>

#include "bags.h"

namespace dlrm {
namespace {

using IdLists = EveryExecution;

/// Bags whose ids are checked.
IdCheck check_of(Bags& bags, int64_t rows, int64_t feature, int64_t first_sample = 0) {
  return {bags.ids.data(), bags.offsets.data(), bags.count(), bags.nnz(), rows,
          feature,         first_sample};
}

TEST_P(IdLists, GoodIdsAreLeftAndNothingIsReported) {
  Bags bags[] = {Bags::random(900, 50, 3, 1), Bags::random(0, 50, 3, 2), Bags::random(1, 7, 2, 3)};
  const Bags before[] = {bags[0], bags[1], bags[2]};
  const IdCheck lists[] = {check_of(bags[0], 50, 1), check_of(bags[1], 50, 2),
                           check_of(bags[2], 7, 3)};
  std::vector<float> flag = {0};
  std::vector<int64_t> where = {-1, -2, -3};
  ops->check_ids(lists, flag, where);
  EXPECT_EQ(flag[0], 0);
  EXPECT_EQ(where, (std::vector<int64_t>{-1, -2, -3}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(bags[i].ids, before[i].ids);
  ops->check_ids({}, flag, where);
  EXPECT_EQ(flag[0], 0);
}

TEST_P(IdLists, TheFirstBadIdIsReportedAndAllBecomeZero) {
  Bags good = Bags::random(30, 50, 2, 1), bad = Bags::random(4000, 50, 2, 2);
  std::vector<int64_t> want = bad.ids;
  for (const auto& [at, id] : {std::pair<size_t, int64_t>{7000, -5}, {3001, 50}, {7002, 1 << 30}}) {
    bad.ids[at] = id;
    want[at] = 0;
  }
  int64_t bag = 0;
  while (bad.offsets[static_cast<size_t>(bag) + 1] <= 3001) ++bag;
  const IdCheck lists[] = {check_of(good, 50, 4), check_of(bad, 50, 9, 100000)};
  std::vector<float> flag = {0};
  std::vector<int64_t> where = {0, 0, 0};
  ops->check_ids(lists, flag, where);
  EXPECT_EQ(flag[0], 1);
  EXPECT_EQ(where, (std::vector<int64_t>{9, 100000 + bag, 50}));
  EXPECT_EQ(bad.ids, want);
}

TEST_P(IdLists, ALaterBadIdDoesNotReplaceTheReport) {
  Bags bags = Bags::random(10, 5, 2, 1);
  bags.ids[0] = 77;
  const IdCheck lists[] = {check_of(bags, 5, 2)};
  std::vector<float> flag = {1};
  std::vector<int64_t> where = {6, 7, 8};
  ops->check_ids(lists, flag, where);
  EXPECT_EQ(where, (std::vector<int64_t>{6, 7, 8}));
  EXPECT_EQ(bags.ids[0], 0);
}

/// The parts that ranks send of one feature: bags of their own lengths, or of one length.
struct Sent {
  std::vector<std::vector<int64_t>> wide;
  std::vector<std::vector<int32_t>> narrow, lengths;
  std::vector<IdPart> parts;
  int64_t bags = 0, ids = 0;

  Sent(std::vector<int64_t> bags_of, int64_t rows, bool is_narrow, int32_t length) {
    wide.resize(bags_of.size()), narrow.resize(bags_of.size()), lengths.resize(bags_of.size());
    std::mt19937_64 generator(17);
    for (size_t p = 0; p < bags_of.size(); ++p) {
      for (int64_t b = 0; b < bags_of[p]; ++b) {
        lengths[p].push_back(length >= 0 ? length : static_cast<int32_t>(generator() % 7));
        for (int32_t k = 0; k < lengths[p].back(); ++k) {
          wide[p].push_back(static_cast<int64_t>(generator() % static_cast<uint64_t>(rows)));
        }
      }
      narrow[p].assign(wide[p].begin(), wide[p].end());
      IdPart part;
      part.ids = is_narrow ? static_cast<const void*>(narrow[p].data()) : wide[p].data();
      part.lengths = length >= 0 ? nullptr : lengths[p].data();
      part.bags = bags_of[p];
      part.length = std::max(length, 0);
      part.narrow = is_narrow;
      parts.push_back(part);
      bags += bags_of[p];
      ids += static_cast<int64_t>(wide[p].size());
    }
  }
};

TEST_P(IdLists, EachShardKeepsTheIdsOfItsRowsInTheirOrder) {
  const Sent sent[] = {Sent({70, 0, 333, 1}, 40, true, -1), Sent({}, 40, false, 2),
                       Sent({50, 40}, 40, false, 3), Sent({0, 9}, 40, true, 0)};
  std::vector<std::vector<int64_t>> ids, offsets;
  std::vector<IdFilter> filters;
  for (const Sent& s : sent) {
    for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 13}, {13, 0}, {13, 27}}) {
      ids.emplace_back(static_cast<size_t>(s.ids)), offsets.emplace_back(s.bags + 1, -1);
      filters.push_back({s.parts, first, rows, nullptr, nullptr});
    }
  }
  for (size_t f = 0; f < filters.size(); ++f) {
    filters[f].ids = ids[f].data();
    filters[f].offsets = offsets[f].data();
  }
  ops->filter_ids(filters);
  for (size_t f = 0; f < filters.size(); ++f) {
    const Sent& s = sent[f / 3];
    std::vector<int64_t> want, want_offsets = {0};
    for (size_t p = 0; p < s.parts.size(); ++p) {
      auto id = s.wide[p].begin();
      for (const int32_t length : s.lengths[p]) {
        for (int32_t k = 0; k < length; ++k, ++id) {
          const int64_t row = *id - filters[f].first_row;
          if (row >= 0 && row < filters[f].rows) want.push_back(row);
        }
        want_offsets.push_back(static_cast<int64_t>(want.size()));
      }
    }
    ids[f].resize(want.size());
    EXPECT_EQ(ids[f], want) << f;
    EXPECT_EQ(offsets[f], want_offsets) << f;
  }
}

TEST_P(IdLists, PassTheCheckBesideTheReference) {
  auto checked = make_checked_ops(machine.run_as(GetParam()), *machine.device, *machine.stream);
  Bags bags = Bags::random(100, 5, 2, 1);
  bags.ids[3] = 5;
  const IdCheck lists[] = {check_of(bags, 5, 2)};
  std::vector<float> flag = {0};
  std::vector<int64_t> where = {0, 0, 0};
  EXPECT_NO_THROW(checked->check_ids(lists, flag, where));
  const Sent sent({70, 3}, 40, true, -1);
  std::vector<int64_t> ids(static_cast<size_t>(sent.ids)), offsets(74);
  const IdFilter filters[] = {{sent.parts, 10, 20, ids.data(), offsets.data()}};
  EXPECT_NO_THROW(checked->filter_ids(filters));
}

INSTANTIATE_TEST_SUITE_P(Cpu, IdLists, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
