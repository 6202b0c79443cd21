#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// A message with one rank's bags of several groups. A group is a feature, or a feature on a slice.
///
///   headers  {length, count} int32 per group: `length` ids in every bag, or -1; `count` ids in
///            total
///   lengths  int32 per sample, for each group whose length is -1
///   ids      group-major, then sample; int32 if every sharded table has at most 2^31 rows,
///            otherwise int64; they start at a multiple of 8 bytes
///
/// The message is padded to a multiple of 8 bytes: id_message_bytes in wire/message_bytes.h. A rank
/// without samples sends nothing.
struct GroupHeader {
  int32_t length = 0;
  int32_t count = 0;
};

/// Bytes of a message of these groups.
int64_t message_bytes(View<const GroupHeader> headers, int64_t samples, int64_t id_bytes);

/// One group's part of a message.
struct GroupSpan {
  int32_t length = 0;
  int32_t count = 0;
  int32_t* lengths = nullptr;  ///< [samples] if length is -1
  char* ids = nullptr;
};

/// Locates the groups of a message that has these headers. Appends to `spans`.
void locate_groups(char* message, View<const GroupHeader> headers, int64_t samples,
                   int64_t id_bytes, std::vector<GroupSpan>& spans);
/// Returns the headers of a received message.
View<const GroupHeader> headers_of(const char* message, int64_t groups);

/// Writes the lengths of bags if they are sent.
void write_lengths(const GroupSpan& span, const int64_t* offsets, int64_t samples);
/// Writes whole bags: their lengths and ids.
void write_bags(const GroupSpan& span, int64_t id_bytes, const int64_t* ids, const int64_t* offsets,
                int64_t samples);

/// The position at which the next rank's bags are appended. T is int32_t or int64_t.
template <class T>
struct BagCursor {
  T* ids = nullptr;      ///< next id
  T* offsets = nullptr;  ///< the end of the last bag; the end of the next bag is written after it
};

/// Appends the bags of `span`, or only the non-empty ones.
template <class T>
void read_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples, bool skips_empty_bags,
               BagCursor<T>& cursor);
/// Writes the numbers of the samples whose bags in `span` are not empty. Returns the end of the
/// list.
int32_t* list_non_empty(const GroupSpan& span, int64_t samples, int32_t* to);
/// Appends the bags of `span` with only the ids in `rows`. Ids are then counted from rows.begin.
void read_bags_within(const GroupSpan& span, int64_t id_bytes, int64_t samples, Range rows,
                      BagCursor<int64_t>& cursor);
/// Number of ids in `rows`.
int64_t count_within(const GroupSpan& span, int64_t id_bytes, Range rows);

}  // namespace dlrm
