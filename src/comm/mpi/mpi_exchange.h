#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/comm/communicator.h"

#include "comm/calls/call.h"
#include "comm/shared/exchange_table.h"
#include "comm/world/node_layout.h"
#include "mpi_messages.h"

namespace dlrm::comm {

/// One exchange among MPI ranks. Ranks of the same node read each other's memory if there is a
/// table. MPI messages carry the blocks of other nodes, and large blocks outside shared memory.
class MpiExchange final : public Call {
 public:
  /// @param nodes  null: all ranks are on one node
  /// @param table  null: no shared memory
  MpiExchange(std::shared_ptr<ProgressEngine> engine, MPI_Comm comm, int rank, int largest_tag,
              const NodeLayout* nodes, ExchangeTable* table, Exchange exchange);
  ~MpiExchange() override;
  void start();

 private:
  /// The blocks for ranks of this node.
  struct LocalBlocks {
    int readers = 0;
    int64_t begin = 0, end = 0;  ///< range of the send buffer that they cover
    int64_t largest = 0;         ///< bytes
  };

  static constexpr int64_t kMaxCopyBytes = int64_t{4} << 20;  ///< for each reader
  static constexpr int64_t kStepsToCheck = 8192;  ///< without success: some milliseconds
  static constexpr int64_t kReceived = -1;        ///< in place of the expected bytes

  bool step() override;
  bool read_descriptors();
  bool read_block_of(int q);
  void count_node_traffic();
  LocalBlocks local_blocks() const;
  void publish_local_blocks();
  ArenaAddress share(const LocalBlocks& blocks);
  void require_length(int q, int64_t bytes) const;

  /// True if a block of that many bytes is transferred.
  bool is_transferred(int64_t bytes) const { return bytes > 0 || exchange_.is_barrier; }
  bool is_local(int q) const { return table_ && table_->is_local(q); }
  int ranks() const { return static_cast<int>(exchange_.layout.send_bytes.size()); }
  int64_t send_bytes(int q) const { return exchange_.layout.send_bytes[static_cast<size_t>(q)]; }
  int64_t send_offset(int q) const { return exchange_.layout.send_offsets[static_cast<size_t>(q)]; }
  int64_t& expected(int q) { return exchange_.layout.receive_bytes[static_cast<size_t>(q)]; }
  int64_t expected(int q) const { return exchange_.layout.receive_bytes[static_cast<size_t>(q)]; }
  char* receive_block(int q) const {
    return static_cast<char*>(exchange_.receive) +
           exchange_.layout.receive_offsets[static_cast<size_t>(q)];
  }
  const char* send_data() const { return static_cast<const char*>(exchange_.send); }
  void start_receive(int q) {
    messages_.receive(q, receive_block(q), expected(q), exchange_.is_barrier);
  }
  void start_send(int q) {
    messages_.send(q, send_data() + send_offset(q), send_bytes(q), exchange_.is_barrier);
  }

  const int rank_;
  const NodeLayout* const nodes_;
  ExchangeTable* const table_;
  Exchange exchange_;
  const uint32_t kind_;
  MpiMessages messages_;
  int64_t idle_steps_ = 0;
  int unread_ = 0;                            ///< ranks of this node whose block has not been read
  ExchangeDescriptor* descriptor_ = nullptr;  ///< if other ranks read this rank's buffer or copy
  BlockPool<Arena>::Block copy_;              ///< of the send buffer, in shared memory
};

}  // namespace dlrm::comm
