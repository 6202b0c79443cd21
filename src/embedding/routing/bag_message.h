#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"
#include "dlrm/wire/message_bytes.h"

namespace dlrm {

/// A message with one rank's bags of several groups. A group is a feature, or a feature on a slice.
///
///   headers  4 · number + BagLengths per group, seven bits in each byte, the lowest first. All
///            bytes but the last have bit 7. See group_header_bytes in wire/message_bytes.h.
///   codes    SampleCode of each group whose lengths are coded
///   lengths  int32 per sample, for each group whose lengths are listed
///   ids      group-major, then sample; int32 if every sharded table has at most 2^31 rows,
///            otherwise int64
///   weights  float of each id, for each group whose ids have weights
///
/// Lengths, ids and weights start at multiples of 8 bytes: id_message_bytes in
/// wire/message_bytes.h. A rank without samples sends nothing.
struct GroupHeader {
  BagLengths lengths = BagLengths::kEqual;
  int32_t length = 0;     ///< of every bag, if that is equal
  int32_t count = 0;      ///< of ids
  bool weighted = false;  ///< ids have weights; not in the message, since all ranks know it
};

/// Bytes of a message of these groups.
int64_t message_bytes(View<const GroupHeader> headers, int64_t samples, int64_t id_bytes);

/// One group's part of a message.
struct GroupSpan {
  GroupHeader header;
  int32_t group = 0;           ///< number in the message
  char* code = nullptr;        ///< if lengths are coded
  int32_t* lengths = nullptr;  ///< [samples] if they are listed
  char* ids = nullptr;
  float* weights = nullptr;  ///< [count] if ids have weights
};

/// Writes the headers of a message of message_bytes(). Sets `spans`, by group, for the caller to
/// fill. Those of groups that have a code and no ids are not set.
void begin_message(char* message, View<const GroupHeader> headers, int64_t samples,
                   int64_t id_bytes, View<GroupSpan> spans);
/// Appends the groups of a received message to `spans`, without groups that have a code and no ids.
/// `weighted`: whether the ids of each group have weights; empty if none have.
/// Throws run_error if the message has another size than its headers say. Listed lengths and codes
/// are checked when they are read.
void open_message(View<char> message, int64_t groups, int64_t samples, int64_t id_bytes,
                  std::vector<GroupSpan>& spans, View<const char> weighted = {});
/// Throws run_error.
[[noreturn]] void throw_damaged_message();

/// Writes the lengths of bags if they are listed.
void write_lengths(const GroupSpan& span, const int64_t* offsets, int64_t samples);
/// Writes whole bags, whose lengths are not coded: their lengths and ids.
void write_bags(const GroupSpan& span, int64_t id_bytes, const int64_t* ids, const int64_t* offsets,
                int64_t samples);

/// The position at which the next rank's bags are appended. T is int32_t or int64_t.
template <class T>
struct BagCursor {
  T* ids = nullptr;            ///< next id
  T* offsets = nullptr;        ///< the end of the last bag goes here; that of the next, after it
  int32_t* samples = nullptr;  ///< if not null, the sample of the next non-empty bag goes here
  T end = 0;                   ///< of the last bag
};

/// Appends the bags of `span`, whose lengths are not coded. Returns false if listed lengths do not
/// add up.
template <class T>
[[nodiscard]] bool read_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples,
                             BagCursor<T>& cursor);
/// Appends the bags of `span`, whose lengths are coded, or only the non-empty ones. Returns false
/// if the code is damaged.
template <class T>
[[nodiscard]] bool read_coded_bags(const GroupSpan& span, int64_t id_bytes, int64_t samples,
                                   bool skips_empty_bags, BagCursor<T>& cursor);
/// Appends the bags of `span`, whose lengths are not coded, with only the ids in `rows`. Ids are
/// then counted from rows.begin. Returns false if listed lengths do not add up.
[[nodiscard]] bool read_bags_within(const GroupSpan& span, int64_t id_bytes, int64_t samples,
                                    Range rows, BagCursor<int64_t>& cursor);
/// Appends `count` bags without ids.
template <class T>
void add_empty_bags(int64_t count, BagCursor<T>& cursor) {
  for (int64_t i = 0; i < count; ++i) *++cursor.offsets = cursor.end;
}
/// Number of ids in `rows`.
int64_t count_within(const GroupSpan& span, int64_t id_bytes, Range rows);

}  // namespace dlrm
