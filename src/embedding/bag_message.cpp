#include "bag_message.h"

#include <algorithm>
#include <cstring>

#include "dlrm/wire/message_bytes.h"

namespace dlrm {
namespace {

/// Number of groups whose lengths are sent.
int64_t lists_in(View<const GroupHeader> headers) {
  return std::count_if(headers.begin(), headers.end(),
                       [](const GroupHeader& h) { return h.length < 0; });
}

template <class Id, class T>
void read_all(const GroupSpan& span, int64_t samples, bool skips_empty_bags, BagCursor<T>& cursor) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  for (int32_t k = 0; k < span.count; ++k) cursor.ids[k] = static_cast<T>(ids[k]);
  cursor.ids += span.count;
  T end = *cursor.offsets;
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t length = span.length < 0 ? span.lengths[i] : span.length;
    end += length;
    cursor.offsets[1] = end;  // if this bag is left out, the next bag overwrites it
    cursor.offsets += !skips_empty_bags || length > 0;
  }
}

template <class Id>
void read_some(const GroupSpan& span, int64_t samples, Range rows, BagCursor<int64_t>& cursor) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  int64_t end = *cursor.offsets;
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t length = span.length < 0 ? span.lengths[i] : span.length;
    for (int32_t k = 0; k < length; ++k) {
      const int64_t id = *ids++;
      if (id < rows.begin || id >= rows.end) continue;
      *cursor.ids++ = id - rows.begin;
      ++end;
    }
    *++cursor.offsets = end;
  }
}

template <class Id>
int64_t count_some(const GroupSpan& span, Range rows) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  return std::count_if(ids, ids + span.count,
                       [&](int64_t id) { return id >= rows.begin && id < rows.end; });
}

}  // namespace

int64_t message_bytes(View<const GroupHeader> headers, int64_t samples, int64_t id_bytes) {
  int64_t ids = 0;
  for (const GroupHeader& header : headers) ids += header.count;
  return id_message_bytes(static_cast<int64_t>(headers.size()), lists_in(headers), samples, ids,
                          id_bytes);
}

void locate_groups(char* message, View<const GroupHeader> headers, int64_t samples,
                   int64_t id_bytes, std::vector<GroupSpan>& spans) {
  if (samples == 0) {
    spans.resize(spans.size() + headers.size());
    return;
  }
  const auto groups = static_cast<int64_t>(headers.size());
  auto* lengths = reinterpret_cast<int32_t*>(message + headers.size_bytes());
  char* ids = message + id_message_bytes(groups, lists_in(headers), samples, 0, id_bytes);
  for (const GroupHeader& header : headers) {
    spans.push_back({header.length, header.count, lengths, ids});
    if (header.length < 0) lengths += samples;
    ids += header.count * id_bytes;
  }
}

View<const GroupHeader> headers_of(const char* message, int64_t groups) {
  return {reinterpret_cast<const GroupHeader*>(message), static_cast<size_t>(groups)};
}

void write_bags(const GroupSpan& span, int64_t id_bytes, const int64_t* ids, const int64_t* offsets,
                int64_t samples) {
  const int64_t* first = ids + offsets[0];
  if (id_bytes == 8) {
    std::copy(first, first + span.count, reinterpret_cast<int64_t*>(span.ids));
  } else {
    auto* out = reinterpret_cast<int32_t*>(span.ids);
    for (int32_t i = 0; i < span.count; ++i) out[i] = static_cast<int32_t>(first[i]);
  }
  write_lengths(span, offsets, samples);
}

void write_lengths(const GroupSpan& span, const int64_t* offsets, int64_t samples) {
  if (span.length >= 0) return;
  for (int64_t i = 0; i < samples; ++i) {
    span.lengths[i] = static_cast<int32_t>(offsets[i + 1] - offsets[i]);
  }
}

template <class T>
void read_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples, bool skips_empty_bags,
               BagCursor<T>& cursor) {
  id_bytes == 8 ? read_all<int64_t>(span, samples, skips_empty_bags, cursor)
                : read_all<int32_t>(span, samples, skips_empty_bags, cursor);
}
template void read_bags(const GroupSpan&, int64_t, int64_t, bool, BagCursor<int32_t>&);
template void read_bags(const GroupSpan&, int64_t, int64_t, bool, BagCursor<int64_t>&);

int32_t* list_non_empty(const GroupSpan& span, int64_t samples, int32_t* to) {
  for (int64_t i = 0; i < samples; ++i) {
    *to = static_cast<int32_t>(i);
    to += (span.length < 0 ? span.lengths[i] : span.length) > 0;
  }
  return to;
}

void read_bags_within(const GroupSpan& span, int64_t id_bytes, int64_t samples, Range rows,
                      BagCursor<int64_t>& cursor) {
  id_bytes == 8 ? read_some<int64_t>(span, samples, rows, cursor)
                : read_some<int32_t>(span, samples, rows, cursor);
}

int64_t count_within(const GroupSpan& span, int64_t id_bytes, Range rows) {
  return id_bytes == 8 ? count_some<int64_t>(span, rows) : count_some<int32_t>(span, rows);
}

}  // namespace dlrm
