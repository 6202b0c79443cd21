#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"

#include "bag_message.h"
#include "bag_scan.h"
#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// Brings ids to the owners of their rows, some batches ahead. A batch goes through two exchanges,
/// each on a communicator of its own so that batches in flight meet in the same order on every
/// rank: sizes (one int64 a pair of ranks), then messages. Both advance in poll(). All of it is
/// work of the host; a device gets lists by a copy on a stream of the router's own, and makes ids
/// and offsets of them (RoutedBatch::unpack).
class Router {
 public:
  /// At most `slots` batches in flight.
  Router(Context& context, const EmbeddingLayout& layout, int slots, int threads);
  virtual ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// Checks and takes in the local bags of the next batch, and starts on their way. Nothing is
  /// changed where it throws.
  void start(const LocalBags& bags);
  void poll();
  /// Waits until the oldest batch has arrived; on a device the context's stream does.
  RoutedBatch& oldest();
  /// Ends the oldest batch: of use until what the context's stream holds now is done.
  void pop();
  int in_flight() const { return count_; }
  bool full() const { return count_ == static_cast<int>(slots_.size()); }
  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  enum class Stage : uint8_t { kSizes, kMessages, kArrived };
  /// One batch on its way. Grows and is used again.
  struct Transfer {
    explicit Transfer(Device& device) : batch(device) {}
    RoutedBatch batch;
    Stage stage = Stage::kArrived;
    std::vector<char> send, receive;
    char* message = nullptr;  ///< where the messages of all ranks come, if not in `receive`
    std::vector<int64_t> send_sizes, receive_sizes;  ///< bytes, by rank
    ExchangeLayout sizes_layout, layout;
    Pending pending;
  };

  /// Takes ids into the batch, or into send and send_sizes, and looks through all of them.
  virtual void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
                      Transfer& transfer) = 0;
  virtual Pending start_sizes(Transfer& transfer) = 0;
  /// Makes room in `receive` for receive_sizes and starts the messages.
  virtual Pending start_messages(Transfer& transfer) = 0;
  /// Puts the batch's groups together from `receive`.
  virtual void assemble(Transfer& transfer) = 0;

  /// Samples of rank `source` in the transfer's batch.
  int64_t samples_of(const Transfer& transfer, int source) const;
  /// Threads worth starting for so many ids.
  int threads_for(size_t ids) const { return ids < kIdsAThread ? 1 : threads_; }
  /// Offsets back to back; returns the total.
  static int64_t offsets_of(const std::vector<int64_t>& bytes, std::vector<int64_t>& offsets);
  static void grow(std::vector<char>& buffer, int64_t bytes) {
    if (static_cast<int64_t>(buffer.size()) < bytes) buffer.resize(static_cast<size_t>(bytes));
  }

  const EmbeddingLayout& layout_;
  const int rank_;
  const int world_;
  const int threads_;
  const int64_t id_bytes_;
  std::unique_ptr<Communicator> sizes_comm_, messages_comm_;
  int64_t bytes_sent_ = 0;

 private:
  static constexpr size_t kIdsAThread = 8192;

  Transfer& slot(int i) { return slots_[static_cast<size_t>(first_ + i) % slots_.size()]; }
  void begin_messages(Transfer& transfer);
  void arrive(Transfer& transfer);

  Stream& stream_;
  std::unique_ptr<Stream> copies_;  ///< lists go to the device on it, ahead of the step
  std::vector<BagScan> scans_;
  std::deque<Transfer> slots_;
  int first_ = 0;
  int count_ = 0;
};

/// As wire_id_bytes of the largest sharded table.
int64_t id_bytes_of(const EmbeddingLayout& layout);

/// One rank owns all rows uncut: ids stay where they are, whatever the mode.
std::unique_ptr<Router> make_local_router(Context& context, const EmbeddingLayout& layout,
                                          int slots, int threads);
/// *exact*: ids are bucketed by owner on the host; each owner gets the ids of its rows alone.
std::unique_ptr<Router> make_exact_router(Context& context, const EmbeddingLayout& layout,
                                          int slots, int threads);
/// *fixed*: every rank gets every sharded feature's ids and keeps those of its rows, on a device by
/// its own work, so that the host knows but how many arrived.
std::unique_ptr<Router> make_fixed_router(Context& context, const EmbeddingLayout& layout,
                                          int slots, int threads);

}  // namespace dlrm
