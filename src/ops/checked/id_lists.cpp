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

/// A list of ids to check, in the host's memory.
struct HostCheck {
  HostCheck(HostImage& host, const IdCheck& list)
      : offsets(host.list(list.offsets, list.bags + 1)),
        samples(host.list(list.samples, list.bags)),
        lengths(host.list(list.lengths, list.bags)),
        view(list) {
    bytes.resize(static_cast<size_t>((list.offsets ? offsets.back() : list.capacity) *
                                     (list.narrow ? 4 : 8)));
    if (!bytes.empty()) host.bytes(bytes.data(), list.ids, bytes.size());
    view.ids = bytes.data();
    if (list.offsets) view.offsets = offsets.data();
    if (list.samples) view.samples = samples.data();
    if (list.lengths) view.lengths = lengths.data();
  }
  HostCheck(HostCheck&&) = default;

  std::vector<int64_t> values() const {
    std::vector<int64_t> all;
    for (size_t at = 0; at < bytes.size(); at += view.narrow ? 4 : 8) {
      all.push_back(view.narrow ? *reinterpret_cast<const int32_t*>(bytes.data() + at)
                                : *reinterpret_cast<const int64_t*>(bytes.data() + at));
    }
    return all;
  }

  std::vector<int64_t> offsets;
  std::vector<int32_t> samples, lengths;
  std::vector<char> bytes;
  IdCheck view;
};

}  // namespace

void CheckedOps::check(const CheckIds& o) {
  const auto& [lists, flag, where] = o;
  std::vector<HostCheck> copies;
  std::vector<IdCheck> again;
  for (const IdCheck& list : lists) {
    if (list.bags == 0) continue;
    copies.emplace_back(host_, list);
    again.push_back(copies.back().view);
  }
  std::vector<float> want_flag = host_.of(flag);
  std::vector<int64_t> want_where = host_.of(where);
  reference_.check_ids(again, want_flag, want_where);
  chosen_->run(o);
  const Subject s = subject("check_ids", fmt::format("of {} lists", lists.size()));
  size_t i = 0;
  for (const IdCheck& list : lists) {
    if (list.bags == 0) continue;
    expect_same(s, "id", HostCheck(host_, list).values(), copies[i].values());
    ++i;
  }
  expect_same(s, "report", host_.of(where), want_where);
  if (host_.of(flag) != want_flag) disagree(s, "flag", host_.of(flag)[0], want_flag[0]);
}

void CheckedOps::check(const Unpack& o) {
  chosen_->run(o);
  for (const PackedList& list : o.lists) {
    const std::vector<int32_t> from = host_.list(list.from, list.count);
    std::vector<int64_t> to(static_cast<size_t>(list.count));
    PackedList again = list;
    again.from = list.from ? from.data() : nullptr;
    again.to = to.data();
    reference_.unpack({&again, 1});
    expect_same(subject("unpack", fmt::format("of {}", list.count)), "element",
                host_.list(list.to, list.count), to);
  }
}

void CheckedOps::check(const FilterIds& o) {
  chosen_->run(o);
  for (const IdFilter& filter : o.filters) {
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
