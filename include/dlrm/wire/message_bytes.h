#pragma once
#include <bit>
#include <cstdint>

/// Sizes of the messages between ranks. The code that writes a message and the plan that estimates
/// it use the same function.
namespace dlrm {

/// Bytes of a message's size, which is sent ahead of the message to each other rank.
inline constexpr int64_t kSizeBytes = 8;

/// Bytes of an id if the largest sharded table has so many rows: 4 up to 2^31 rows, then 8.
int64_t wire_id_bytes(int64_t largest_rows);

/// How a message gives the lengths of a group's bags.
enum class BagLengths : uint8_t {
  kEqual,   ///< the header holds the length of every bag
  kListed,  ///< int32 for each sample
  kCoded    ///< the samples of the ids, see SampleCode
};

/// Bytes of a group's header: 1 to 5. `number` is the length of every bag with kEqual, otherwise
/// the number of ids.
inline int64_t group_header_bytes(int64_t number) {
  // Two bits say how the lengths are given, and each byte holds seven bits.
  return (std::bit_width(static_cast<uint64_t>(number) << 2 | 3) + 6) / 7;
}

/// A rank's message of bags to an owner: the headers and codes of all groups, 4 bytes per sample
/// for each group whose lengths are listed, the ids, and the weights that some of them have. Each
/// of the four is padded to 8 bytes. 0 without samples.
///
/// A group is a feature on some rows; column shards of the same rows share it. With *fixed* routing
/// one message of all sharded features, with uncut rows, goes to every rank.
int64_t id_message_bytes(int64_t head_bytes, int64_t length_lists, int64_t samples, int64_t ids,
                         int64_t id_bytes, int64_t weight_bytes = 0);

/// A rank's block of ids that devices exchange (embedding/id_blocks.h): each feature's ids start at
/// a multiple of so many bytes. Hosts tell each other so many int64 for each feature, and one for
/// each piece of its rows if they are cut.
inline constexpr int64_t kIdBlockAlign = 16;
inline constexpr int64_t kIdBlockSizes = 3;

inline int64_t aligned_id_block(int64_t bytes) {
  return (bytes + kIdBlockAlign - 1) / kIdBlockAlign * kIdBlockAlign;
}

/// A rank's message of unique rows and their gradients to each other rank: 8 bytes per table for
/// its count, 8 per row and 4 per float, padded to 8.
int64_t pairs_message_bytes(int64_t tables, int64_t rows, int64_t floats);

/// An allreduce sends whole vectors to all ranks if a rank sends no more than this in all: one
/// exchange instead of two.
inline constexpr int64_t kOneExchangeBytes = 16384;

/// Bytes that `rank` sends in an allreduce of `floats` floats. In two exchanges it sends each other
/// rank's part of the vector, then its own summed part to each.
int64_t allreduce_sent_bytes(int64_t floats, int rank, int world);

}  // namespace dlrm
