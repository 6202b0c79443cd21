#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dlrm/comm/context.h"

#include "bag_message.h"
#include "bag_scan.h"
#include "embedding/ring.h"
#include "embedding/tables/layout.h"
#include "embedding/tiers/batch_placement.h"
#include "list_capacities.h"
#include "packed_ids.h"
#include "routed_batch.h"

namespace dlrm {

/// Checks ids and sends them to the owners of their rows, some batches ahead. If rows are on
/// several ranks, a batch needs two exchanges: sizes (one int64 for each pair of ranks), then
/// messages. Each kind has its own communicator, so that all ranks start the batches' exchanges in
/// the same order. poll() advances both. All of this runs on the host, except that devices may
/// exchange the messages. The router has its own stream, which copies staged arrays to a device.
class Router {
 public:
  /// At most `capacity` batches may be in flight. `placement` is null if no rank caches rows.
  /// `devices`: the communicator of devices that exchange the messages, or null. All ranks start
  /// its calls in one order, so a batch's messages start when the next one is routed, or awaited.
  Router(Context& context, const EmbeddingLayout& layout, int capacity, int threads,
         RowPlacement* placement, Communicator* devices = nullptr);
  virtual ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// From now on the sizes of batches on a device recur: lists of ids and vectors get capacities,
  /// which grow if a batch does not fit. Only sizes of make_fixed_router() still depend on the ids.
  /// No batch is in flight. All ranks make this call or none.
  virtual void keep_sizes() { kept_ids_.start(); }
  /// Checks the local bags of the next batch and starts to send them. If it throws, nothing has
  /// changed.
  /// `packed`: null, or what pack() has made of them.
  void route(const LocalBags& bags, PackedIds* packed = nullptr);
  /// See ShardedEmbeddings::pack().
  virtual void pack(const LocalBags&, std::shared_ptr<PackedIds>&) const {}
  void poll();
  /// Returns the oldest batch with all its ids. Blocks the host until they arrive. Makes the
  /// context's stream wait for their copy.
  RoutedBatch& await_oldest();
  /// Returns the oldest batch. Call await_oldest() before.
  RoutedBatch& oldest() { return transfers_[0].batch; }
  /// Waits until the rows of the oldest batch are in fast memory. Throws on every rank if they do
  /// not fit: usage_error before the first step, also for other batches of the first window and for
  /// those whose rows were counted, otherwise run_error.
  void await_rows();
  /// Ends the oldest batch. Its memory is reused once the context's stream has done the work it
  /// holds now. `updated`: its rows have changed.
  void pop(bool updated);
  int in_flight() const { return transfers_.size(); }
  bool full() const { return transfers_.full(); }
  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  enum class Stage : uint8_t {
    kSizes,
    kMessages,
    kPlacing,   ///< cached rows get slots
    kAgreeing,  ///< ranks tell each other whether the rows fit
    kArrived
  };
  /// A batch in flight.
  struct Transfer {
    explicit Transfer(Device& device) : batch(device) {}
    RoutedBatch batch;
    int64_t content = 0;  ///< of the bags that were written to `batch` and `send`, see LocalBags
    Stage stage = Stage::kArrived;
    std::vector<char> send, receive;
    std::vector<int64_t> send_sizes, receive_sizes;  ///< bytes, by rank, unless devices exchange
    ExchangeLayout sizes_layout, layout;
    BatchPlacement::Batch placed;
    Pending pending;
  };

  /// Reserves memory for the bags that this rank keeps. Sets the destinations of ids that are
  /// copied unchanged. packed() may hold the bags.
  virtual void reserve(const LocalBags& bags, const std::vector<BagScan>& scans, Transfer& transfer,
                       std::vector<IdDestination>& destinations) = 0;
  /// Writes the messages and send_sizes. All ids have been checked. Neither is done for content
  /// that `transfer` has from an earlier batch.
  virtual void encode(const LocalBags& bags, const std::vector<BagScan>& scans,
                      Transfer& transfer) = 0;
  virtual Pending start_sizes(Transfer& transfer) = 0;
  /// Reserves memory for messages of receive_sizes and starts their exchange.
  virtual Pending start_messages(Transfer& transfer) = 0;
  /// Makes the owner's groups from the received messages.
  virtual void assemble(Transfer& transfer) = 0;

  /// During route().
  PackedIds* packed() const { return packed_; }
  /// The stream that copies staged arrays.
  Stream& copies() { return *copies_; }
  int rank() const { return messages_comm_->rank(); }
  int world() const { return messages_comm_->size(); }
  /// Samples of rank `source` in the transfer's batch.
  int64_t samples_of(const Transfer& transfer, int source) const {
    return part_of(transfer.batch.global_size, source, world()).size();
  }
  /// The number of threads that is worth starting for this many ids.
  int threads_for(size_t ids) const { return ids < kIdsPerThread ? 1 : threads_; }

  const EmbeddingLayout& layout_;
  const int64_t id_bytes_;
  bool keeps_content_;  ///< a batch is not written again where it was written before
  std::unique_ptr<Communicator> sizes_comm_, messages_comm_;
  int64_t bytes_sent_ = 0;

 private:
  static constexpr size_t kIdsPerThread = 8192;

  /// Checks the ids, and writes them to `transfer`.
  void write(const LocalBags& bags, Transfer& transfer);
  void find_capacities(int64_t samples);
  void begin_messages(Transfer& transfer);
  void finish_sizes(Transfer& transfer);
  void finish_messages(Transfer& transfer);
  void begin_agreeing(Transfer& transfer);
  void arrive(Transfer& transfer);
  /// Brings a batch to kPlacing or kArrived.
  void finish_exchange(Transfer& transfer);
  /// Brings a batch to kArrived.
  void finish(Transfer& transfer);

  const int threads_;
  const bool on_devices_;
  std::optional<BatchPlacement> placement_;  ///< of cached rows
  Stream& stream_;
  std::unique_ptr<Stream> copies_;  ///< copies staged arrays to the device
  std::vector<BagScan> scans_;
  PackedIds* packed_ = nullptr;
  ListCapacities kept_ids_;  ///< by feature
  std::vector<IdDestination> destinations_;
  std::vector<int64_t> rows_;  ///< working memory of list_orders()
  Ring<Transfer> transfers_;
};

/// Sets the offsets of consecutive blocks. Returns their total size.
int64_t offsets_of(const std::vector<int64_t>& bytes, std::vector<int64_t>& offsets);
inline void grow(std::vector<char>& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.size()) < bytes) buffer.resize(static_cast<size_t>(bytes));
}

/// For one rank that owns all rows uncut. Ids are not sent, in either mode.
std::unique_ptr<Router> make_local_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement);
/// *exact*: the host buckets ids by owner. Each owner receives only the ids of its rows.
std::unique_ptr<Router> make_exact_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement);
/// *fixed*: every rank receives every sharded feature's ids and keeps those of its rows.
std::unique_ptr<Router> make_fixed_router(Context& context, const EmbeddingLayout& layout,
                                          int capacity, int threads, RowPlacement* placement);
/// In either mode, if every bag is returned and the host neither caches nor orders rows: devices
/// send every sharded feature's ids to each other and keep those of their rows (FilterIds). Hosts
/// only count them.
std::unique_ptr<Router> make_device_router(Context& context, const EmbeddingLayout& layout,
                                           int capacity, int threads, RowPlacement* placement);

}  // namespace dlrm
