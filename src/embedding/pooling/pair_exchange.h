#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"

namespace dlrm {

/// All-gathers pairs of a row and its gradient for several tables. A rank's message holds the rows
/// of every table (int64), then the gradients of every table (fp32), padded to 8 bytes. Counts of
/// rows are exchanged first. The host reads counts and rows in the device's memory.
class PairExchange {
 public:
  /// `widths` of the tables.
  PairExchange(Context& context, std::vector<int64_t> widths);

  /// A table's pairs in a message.
  struct Pairs {
    int64_t* rows = nullptr;
    float* gradients = nullptr;
    int64_t count = 0;
  };
  /// Starts the exchange of counts, by table. The caller fills mine() before the next call.
  void start(const std::vector<int64_t>& counts);
  Pairs mine(size_t table) { return pairs_of(mine_.data(), 0, table); }
  void poll();
  void finish();
  /// Valid after finish().
  Pairs of_rank(size_t rank, size_t table) {
    return pairs_of(all_.data() + messages_.offsets[rank], rank + 1, table);
  }
  size_t world() const { return messages_.bytes.size(); }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// Blocks of an all-gather, by rank.
  struct Blocks {
    std::vector<int64_t> bytes, offsets;
  };

  /// The rows and floats of a message before a table's.
  struct Place {
    int64_t rows = 0, floats = 0;
  };

  const int64_t* counts_of(size_t rank) const { return counts_.data() + rank * widths_.size(); }
  int64_t place_message(size_t message, const int64_t* counts);
  Pairs pairs_of(char* data, size_t message, size_t table) const;
  void start_messages();

  const std::vector<int64_t> widths_;
  std::unique_ptr<Communicator> comm_;
  Array<char> mine_, all_;
  std::vector<int64_t> my_counts_, counts_;  ///< rows: mine by table; all by rank, then table
  std::vector<Place> places_;  ///< [tables + 1] of each message: mine, then those of all ranks
  Blocks sizes_, messages_;
  bool counting_ = false;  ///< pending_ gathers the counts
  Pending pending_;
  int64_t bytes_sent_ = 0;
};

}  // namespace dlrm
