#include "checked/checked_ops.h"

namespace dlrm::checked {
namespace {

void expect_same(const Subject& s, const char* what, const std::vector<int64_t>& got,
                 const std::vector<int64_t>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] == expected[i]) continue;
    disagree(s, fmt::format("{} {}", what, i), static_cast<double>(got[i]),
             static_cast<double>(expected[i]));
  }
}

/// One rank's part of a feature's ids in the host's memory.
struct HostPart {
  HostPart(HostImage& host, const IdPart& part)
      : lengths(host.list(part.lengths, part.bags)), view(part) {
    int64_t count = part.lengths ? 0 : part.bags * part.length;
    for (const int32_t length : lengths) count += length;
    bytes.resize(static_cast<size_t>(count * (part.narrow ? 4 : 8)));
    if (!bytes.empty()) host.bytes(bytes.data(), part.ids, bytes.size());
    view.ids = bytes.data();
    if (part.lengths) view.lengths = lengths.data();
  }
  HostPart(HostPart&&) = default;

  std::vector<int32_t> lengths;
  std::vector<char> bytes;
  IdPart view;
};

}  // namespace

void CheckedOps::check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) {
  std::vector<std::vector<int64_t>> ids, offsets;
  std::vector<IdCheck> again;
  for (const IdCheck& list : lists) {
    if (list.bags == 0) continue;
    offsets.push_back(host_.list(list.offsets, list.bags + 1));
    ids.push_back(host_.list(list.ids, offsets.back().back()));
    again.push_back(list);
    again.back().ids = ids.back().data();
    again.back().offsets = offsets.back().data();
  }
  std::vector<float> want_flag = host_.of(flag);
  std::vector<int64_t> want_where = host_.of(where);
  reference_.check_ids(again, want_flag, want_where);
  chosen_->check_ids(lists, flag, where);
  const Subject s = subject("check_ids", fmt::format("of {} lists", lists.size()));
  size_t i = 0;
  for (const IdCheck& list : lists) {
    if (list.bags == 0) continue;
    expect_same(s, "id", host_.list(list.ids, static_cast<int64_t>(ids[i].size())), ids[i]);
    ++i;
  }
  expect_same(s, "report", host_.of(where), want_where);
  if (host_.of(flag) != want_flag) disagree(s, "flag", host_.of(flag)[0], want_flag[0]);
}

void CheckedOps::filter_ids(View<const IdFilter> filters) {
  chosen_->filter_ids(filters);
  for (const IdFilter& filter : filters) {
    std::vector<HostPart> kept;
    std::vector<IdPart> parts;
    int64_t bags = 0;
    size_t bytes = 0;
    for (const IdPart& part : filter.parts) {
      kept.emplace_back(host_, part);
      parts.push_back(kept.back().view);
      bags += part.bags;
      bytes += kept.back().bytes.size();
    }
    std::vector<int64_t> ids(bytes), offsets(static_cast<size_t>(bags) + 1);
    IdFilter again = filter;
    again.parts = parts;
    again.ids = ids.data();
    again.offsets = offsets.data();
    reference_.filter_ids({&again, 1});
    ids.resize(static_cast<size_t>(offsets.back()));
    const Subject s =
        subject("filter_ids", fmt::format("of {} bags for {} rows", bags, filter.rows));
    expect_same(s, "offset", host_.list(filter.offsets, bags + 1), offsets);
    expect_same(s, "id", host_.list(filter.ids, offsets.back()), ids);
  }
}

}  // namespace dlrm::checked
