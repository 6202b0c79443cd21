#include "bag_message.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"
#include "dlrm/wire/sample_code.h"

namespace dlrm {
namespace {

constexpr uint64_t kLargestNumber = std::numeric_limits<int32_t>::max();

int64_t number_of(const GroupHeader& header) {
  return header.lengths == BagLengths::kEqual ? header.length : header.count;
}

/// True for a group of which a message has only the header.
bool only_header(const GroupHeader& header) {
  return header.lengths == BagLengths::kCoded && header.count == 0;
}

/// The parts of a message in bytes, and the number of its groups whose lengths are listed.
struct MessageParts {
  int64_t headers = 0;
  int64_t codes = 0;
  int64_t lists = 0;
  int64_t ids = 0;
  int64_t weights = 0;

  MessageParts(View<const GroupHeader> of_groups, int64_t samples, int64_t id_bytes) {
    for (const GroupHeader& header : of_groups) {
      if (only_header(header)) {
        ++headers;
        continue;
      }
      headers += group_header_bytes(number_of(header));
      lists += header.lengths == BagLengths::kListed;
      if (header.lengths == BagLengths::kCoded) codes += SampleCode(samples, header.count).bytes();
      ids += header.count * id_bytes;
      if (header.weighted) weights += header.count * int64_t{sizeof(float)};
    }
  }
};

/// The positions of the next group in a message.
class GroupCursor {
 public:
  GroupCursor(char* message, const MessageParts& parts, int64_t samples)
      : samples_(samples),
        code_(message + parts.headers),
        lengths_(reinterpret_cast<int32_t*>(message + bytes(parts, 0, samples, 0))),
        ids_(message + bytes(parts, parts.lists, samples, 0)),
        weights_(
            reinterpret_cast<float*>(message + bytes(parts, parts.lists, samples, parts.ids))) {}

  GroupSpan next(const GroupHeader& header, size_t group, int64_t id_bytes) {
    const GroupSpan span{header, static_cast<int32_t>(group),         code_, lengths_,
                         ids_,   header.weighted ? weights_ : nullptr};
    if (header.lengths == BagLengths::kCoded) code_ += SampleCode(samples_, header.count).bytes();
    if (header.lengths == BagLengths::kListed) lengths_ += samples_;
    ids_ += header.count * id_bytes;
    if (header.weighted) weights_ += header.count;
    return span;
  }

 private:
  static int64_t bytes(const MessageParts& parts, int64_t lists, int64_t samples, int64_t ids) {
    return id_message_bytes(parts.headers + parts.codes, lists, samples, ids, 1);
  }

  const int64_t samples_;
  char* code_;
  int32_t* lengths_;
  char* ids_;
  float* weights_;
};

/// Reads the next header. Throws if it is damaged.
GroupHeader read_header(View<const char> message, size_t& at, int64_t samples) {
  uint64_t word = 0;
  uint8_t byte = 0;
  for (int shift = 0; shift == 0 || byte >= 128; shift += 7) {
    if (at == message.size() || shift > 28) throw_damaged_message();
    byte = static_cast<uint8_t>(message[at++]);
    word |= uint64_t{byte & 127u} << shift;
  }
  const uint64_t number = word >> 2;
  if (number > kLargestNumber) throw_damaged_message();
  GroupHeader header;
  switch (word & 3) {
    case 0:
      if (number * static_cast<uint64_t>(samples) > kLargestNumber) throw_damaged_message();
      header.length = static_cast<int32_t>(number);
      header.count = static_cast<int32_t>(number * static_cast<uint64_t>(samples));
      return header;
    case 1:
      return {BagLengths::kListed, 0, static_cast<int32_t>(number)};
    case 2:
      return {BagLengths::kCoded, 0, static_cast<int32_t>(number)};
    default:
      throw_damaged_message();
  }
}

bool lengths_add_up(const GroupSpan& span, int64_t samples) {
  if (span.header.lengths != BagLengths::kListed) return true;
  int64_t sum = 0;
  int32_t all = 0;
  for (int64_t i = 0; i < samples; ++i) {
    sum += span.lengths[i];
    all |= span.lengths[i];
  }
  return all >= 0 && sum == span.header.count;
}

int32_t length_of(const GroupSpan& span, int64_t sample) {
  return span.header.lengths == BagLengths::kListed ? span.lengths[sample] : span.header.length;
}

template <class Id, class T>
void copy_ids(const GroupSpan& span, T* to) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  for (int32_t k = 0; k < span.header.count; ++k) to[k] = static_cast<T>(ids[k]);
}

template <class T>
void read_ids(const GroupSpan& span, int64_t id_bytes, BagCursor<T>& cursor) {
  id_bytes == 8 ? copy_ids<int64_t>(span, cursor.ids) : copy_ids<int32_t>(span, cursor.ids);
  cursor.ids += span.header.count;
}

template <class T>
bool read_non_empty(const GroupSpan& span, int64_t samples, BagCursor<T>& cursor) {
  int32_t last = -1;
  return read_samples(span.code, samples, span.header.count, [&](int32_t sample) {
    if (sample != last) {
      ++cursor.offsets;
      if (cursor.samples) *cursor.samples++ = sample;
      last = sample;
    }
    *cursor.offsets = ++cursor.end;
  });
}

template <class T>
bool read_every(const GroupSpan& span, int64_t samples, BagCursor<T>& cursor) {
  int64_t bags = 0;
  const auto end_bags = [&](int64_t until) {
    for (; bags < until; ++bags) *++cursor.offsets = cursor.end;
  };
  const bool sound = read_samples(span.code, samples, span.header.count, [&](int32_t sample) {
    end_bags(sample);
    ++cursor.end;
  });
  end_bags(samples);
  return sound;
}

template <class Id>
void read_some(const GroupSpan& span, int64_t samples, Range rows, BagCursor<int64_t>& cursor) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t length = length_of(span, i);
    for (int32_t k = 0; k < length; ++k) {
      const int64_t id = *ids++;
      if (id < rows.begin || id >= rows.end) continue;
      *cursor.ids++ = id - rows.begin;
      ++cursor.end;
    }
    *++cursor.offsets = cursor.end;
  }
}

template <class Id>
int64_t count_some(const GroupSpan& span, Range rows) {
  const Id* ids = reinterpret_cast<const Id*>(span.ids);
  return std::count_if(ids, ids + span.header.count,
                       [&](int64_t id) { return id >= rows.begin && id < rows.end; });
}

}  // namespace

void throw_damaged_message() { throw run_error("another rank sent a damaged message of ids"); }

int64_t message_bytes(View<const GroupHeader> headers, int64_t samples, int64_t id_bytes) {
  const MessageParts parts(headers, samples, id_bytes);
  return id_message_bytes(parts.headers + parts.codes, parts.lists, samples, parts.ids, 1,
                          parts.weights);
}

void begin_message(char* message, View<const GroupHeader> headers, int64_t samples,
                   int64_t id_bytes, View<GroupSpan> spans) {
  if (samples == 0) {
    std::fill(spans.begin(), spans.end(), GroupSpan());
    return;
  }
  GroupCursor cursor(message, MessageParts(headers, samples, id_bytes), samples);
  for (size_t g = 0; g < headers.size(); ++g) {
    const GroupHeader& header = headers[g];
    auto word =
        static_cast<uint64_t>(number_of(header)) << 2 | static_cast<uint64_t>(header.lengths);
    for (; word >= 128; word >>= 7) *message++ = static_cast<char>(word | 128);
    *message++ = static_cast<char>(word);
    if (!only_header(header)) spans[g] = cursor.next(header, g, id_bytes);
  }
}

void open_message(View<char> message, int64_t groups, int64_t samples, int64_t id_bytes,
                  std::vector<GroupSpan>& spans, View<const char> weighted) {
  if (samples == 0) {
    if (!message.empty()) throw_damaged_message();
    spans.resize(spans.size() + static_cast<size_t>(groups));
    return;
  }
  std::vector<GroupHeader> headers;
  headers.reserve(static_cast<size_t>(groups));
  size_t at = 0;
  for (int64_t g = 0; g < groups; ++g) {
    headers.push_back(read_header(message, at, samples));
    headers.back().weighted = !weighted.empty() && weighted[static_cast<size_t>(g)] != 0;
  }
  if (message_bytes(headers, samples, id_bytes) != static_cast<int64_t>(message.size())) {
    throw_damaged_message();
  }
  GroupCursor cursor(message.data(), MessageParts(headers, samples, id_bytes), samples);
  for (size_t g = 0; g < headers.size(); ++g) {
    if (!only_header(headers[g])) spans.push_back(cursor.next(headers[g], g, id_bytes));
  }
}

void write_bags(const GroupSpan& span, int64_t id_bytes, const int64_t* ids, const int64_t* offsets,
                int64_t samples) {
  const int64_t* first = ids + offsets[0];
  const int32_t count = span.header.count;
  if (id_bytes == 8) {
    std::copy(first, first + count, reinterpret_cast<int64_t*>(span.ids));
  } else {
    auto* out = reinterpret_cast<int32_t*>(span.ids);
    for (int32_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(first[i]);
  }
  write_lengths(span, offsets, samples);
}

void write_lengths(const GroupSpan& span, const int64_t* offsets, int64_t samples) {
  if (span.header.lengths != BagLengths::kListed) return;
  for (int64_t i = 0; i < samples; ++i) {
    span.lengths[i] = static_cast<int32_t>(offsets[i + 1] - offsets[i]);
  }
}

template <class T>
bool read_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples, BagCursor<T>& cursor) {
  if (!lengths_add_up(span, samples)) return false;
  read_ids(span, id_bytes, cursor);
  for (int64_t i = 0; i < samples; ++i) *++cursor.offsets = cursor.end += length_of(span, i);
  return true;
}
template bool read_bags(const GroupSpan&, int64_t, int64_t, BagCursor<int32_t>&);
template bool read_bags(const GroupSpan&, int64_t, int64_t, BagCursor<int64_t>&);

template <class T>
bool read_coded_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples,
                     bool skips_empty_bags, BagCursor<T>& cursor) {
  read_ids(span, id_bytes, cursor);
  return skips_empty_bags ? read_non_empty(span, samples, cursor)
                          : read_every(span, samples, cursor);
}
template bool read_coded_bags(const GroupSpan&, int64_t, int64_t, bool, BagCursor<int32_t>&);
template bool read_coded_bags(const GroupSpan&, int64_t, int64_t, bool, BagCursor<int64_t>&);

bool read_bags_within(const GroupSpan& span, int64_t id_bytes, int64_t samples, Range rows,
                      BagCursor<int64_t>& cursor) {
  if (!lengths_add_up(span, samples)) return false;
  id_bytes == 8 ? read_some<int64_t>(span, samples, rows, cursor)
                : read_some<int32_t>(span, samples, rows, cursor);
  return true;
}

int64_t count_within(const GroupSpan& span, int64_t id_bytes, Range rows) {
  return id_bytes == 8 ? count_some<int64_t>(span, rows) : count_some<int32_t>(span, rows);
}

}  // namespace dlrm
