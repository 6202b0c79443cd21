#include <algorithm>

#include "bags.h"

namespace dlrm {
namespace {

using IdLists = EveryExecution;

/// A check of the ids of `bags`.
IdCheck check_of(Bags& bags, int64_t rows, int64_t feature, int64_t first_sample = 0) {
  IdCheck check;
  check.ids = bags.ids.data();
  check.offsets = bags.offsets.data();
  check.bags = bags.count();
  check.capacity = bags.nnz();
  check.rows = rows;
  check.feature = feature;
  check.first_sample = first_sample;
  return check;
}

TEST_P(IdLists, GoodIdsStayAndNothingIsReported) {
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
  Bags none;
  const IdCheck lists[] = {check_of(none, 50, 3), check_of(good, 50, 4), check_of(none, 50, 5),
                           check_of(bad, 50, 9, 100000), check_of(none, 50, 6)};
  std::vector<float> flag = {0};
  std::vector<int64_t> where = {0, 0, 0};
  ops->check_ids(lists, flag, where);
  EXPECT_EQ(flag[0], 1);
  EXPECT_EQ(where, (std::vector<int64_t>{9, 100000 + bag, 50}));
  EXPECT_EQ(bad.ids, want);
}

TEST_P(IdLists, OfTwoBadIdsTheFirstIsReportedByListThenByPosition) {
  constexpr int64_t kBags = 400, kLength = 3, kCount = kBags * kLength;
  std::vector<int64_t> offsets, first_list(kCount, 4), last_list(kCount, 4);
  for (int64_t b = 0; b <= kBags; ++b) offsets.push_back(b * kLength);
  const std::vector<int32_t> lengths(kBags, kLength);
  std::vector<int32_t> narrow(kCount, 4);
  IdCheck all;
  all.bags = kBags, all.capacity = kCount, all.rows = 9;
  IdCheck lists[] = {all, all, all};
  lists[0].ids = first_list.data(), lists[0].offsets = offsets.data();
  lists[1].ids = narrow.data(), lists[1].narrow = true, lists[1].lengths = lengths.data();
  lists[2].ids = last_list.data(), lists[2].length = kLength;
  const auto set = [&](size_t list, size_t position, int32_t id) {
    if (list == 1) narrow[position] = id;
    if (list != 1) (list == 0 ? first_list : last_list)[position] = id;
  };
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t list = 0; list < 3; ++list) {
    lists[list].feature = static_cast<int64_t>(list) + 10;
    lists[list].first_sample = static_cast<int64_t>(list) * 1000;
    for (const size_t position : {0, 300, 1024, 1199}) places.emplace_back(list, position);
  }
  for (size_t first = 0; first < places.size(); ++first) {
    for (size_t second = first + 1; second < places.size(); ++second) {
      const auto& [list, position] = places[first];
      set(list, position, 50);
      set(places[second].first, places[second].second, -6);
      std::vector<float> flag = {0};
      std::vector<int64_t> where = {0, 0, 0};
      ops->check_ids(lists, flag, where);
      EXPECT_EQ(flag[0], 1);
      EXPECT_EQ(where,
                (std::vector<int64_t>{
                    lists[list].feature,
                    lists[list].first_sample + static_cast<int64_t>(position) / kLength, 50}))
          << first << " and " << second;
      EXPECT_EQ(std::count(first_list.begin(), first_list.end(), 0) +
                    std::count(narrow.begin(), narrow.end(), 0) +
                    std::count(last_list.begin(), last_list.end(), 0),
                2);
      set(list, position, 4);
      set(places[second].first, places[second].second, 4);
    }
  }
}

TEST_P(IdLists, PackedListsAreUnpackedElementByElement) {
  std::vector<int32_t> from(5000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int32_t>(7919 * i) - 1000;
  std::vector<int64_t> copies(from.size(), -1), multiples(1030, -1), nothing;
  const PackedList lists[] = {{from.data(), copies.data(), 5000, 0},
                              {nullptr, nothing.data(), 0, 3},
                              {nullptr, multiples.data(), 1030, int64_t{1} << 33}};
  ops->unpack(lists);
  EXPECT_EQ(copies, std::vector<int64_t>(from.begin(), from.end()));
  for (size_t i = 0; i < multiples.size(); ++i) {
    ASSERT_EQ(multiples[i], static_cast<int64_t>(i) << 33) << i;
  }
}

/// The parts of one feature that ranks send: bags of different lengths, or of one length.
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

INSTANTIATE_TEST_SUITE_P(Cpu, IdLists, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
