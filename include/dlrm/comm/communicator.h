#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/dtype.h"
#include "dlrm/core/error.h"
#include "dlrm/core/view.h"

namespace dlrm {

class Device;
class Stream;

namespace comm {
class CallLog;
class ExchangeTable;
class NodeLayout;
class ProgressEngine;
}  // namespace comm

/// A started call. Movable. An empty one counts as done.
///
/// The destructor waits for a call that is not done. During stack unwinding it waits for at most
/// two seconds, because other ranks may never start the call.
class Pending {
 public:
  /// Implemented by each kind of call.
  class State {
   public:
    virtual ~State() = default;
    /// Makes progress without blocking. Returns true once the call is done.
    virtual bool poll() = 0;
    /// Called between two polls of a waiting caller, after `polls` polls without success. Yields
    /// the core if the wait is long.
    virtual void back_off(int64_t polls);
    /// Returns true if an earlier call of this rank was abandoned: this one may never complete.
    virtual bool abandoned() const { return false; }
    /// Called if the call is destroyed before it is done.
    virtual void abandon() {}
    /// Makes `stream` wait for the call without blocking the host. Returns false if the call does
    /// not support that.
    virtual bool enqueue_wait(Stream& stream);
  };

  Pending() = default;
  explicit Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other);
  ~Pending();

  /// Makes progress without blocking. Returns true once the call is done. Throws the error of the
  /// call: PeerLost if another rank failed.
  bool poll();
  /// Polls until the call is done. Throws as poll() does.
  void wait();
  /// Work enqueued on `stream` after this runs after the call. A device communicator does not
  /// block the host, unless Communicator::blocks_host(). A host communicator polls until done.
  void wait(Stream& stream);
  bool done() const { return state_ == nullptr; }

 private:
  void end_quietly() noexcept;

  std::unique_ptr<State> state_;
};

/// Thrown by a collective if another rank failed or vanished. That rank reports its own error; this
/// one is not printed.
class PeerLost : public Error {
 public:
  PeerLost(ExitCode code, int rank);
  /// The rank that failed.
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// One rank's blocks in an all-to-all. Each vector has one entry per rank.
struct ExchangeLayout {
  std::vector<int64_t> send_bytes, send_offsets;        ///< block for each rank
  std::vector<int64_t> receive_bytes, receive_offsets;  ///< block from each rank

  /// Blocks back to back in rank order.
  static ExchangeLayout packed(std::vector<int64_t> send_bytes, std::vector<int64_t> receive_bytes);
  int64_t send_total() const;     ///< bytes
  int64_t receive_total() const;  ///< bytes
};

/// One exchange of byte blocks among all ranks. Host collectives consist of these, except
/// sums in shared memory.
struct Exchange {
  const char* name = "";  ///< of the collective; a string literal
  uint64_t sequence = 0;  ///< from Communicator::reserve(): equal on all ranks
  const void* send = nullptr;
  void* receive = nullptr;
  ExchangeLayout layout = {};
  /// The exchange completes on no rank before all ranks have started it, even without bytes.
  bool is_barrier = false;
  /// Each rank sends one block, the same one to every rank. A communicator may then send it once to
  /// each node. All ranks set this alike. It takes two sequence numbers.
  bool is_gather = false;
  /// Device communicators: the exchange runs after the work that this stream holds now.
  Stream* stream = nullptr;
};

/// Bytes of one rank's blocks that crossed from node to node.
struct NodeTraffic {
  int64_t sent = 0;
  int64_t received = 0;
};

/// A sum over ranks of device memory.
struct Reduction {
  enum class Element : uint8_t { kFloat, kDouble, kInt64 };

  const char* name = "";       ///< of the collective; a string literal
  const void* data = nullptr;  ///< [count]
  void* out = nullptr;         ///< [count]; may equal `data`
  int64_t count = 0;
  Element element = Element::kFloat;
  DType wire = DType::kFloat32;
  Stream* stream = nullptr;  ///< as in Exchange
};

/// Collective calls among ranks.
///
/// Ordering: every rank starts the same calls on a communicator in the same order. Several calls
/// may be in flight. Ranks may wait for them in different orders: polling one call makes progress
/// on all calls of this rank, including those of duplicates. On device communicators, all ranks
/// also start the calls of a communicator and of its duplicates in one common order.
///
/// Buffers: host memory, or device memory if on_device(). They must stay untouched until the call
/// is done. Counts may be zero and may differ between ranks.
///
/// Sums: host communicators add in rank order, so that every implementation gives the same bits.
///
/// Threads: one thread at a time may use a communicator. Another thread may use a duplicate.
///
/// Errors: a call throws PeerLost if another rank failed, and run_error if the byte counts of two
/// ranks do not match. Ranks in different calls may wait for each other; World's watchdog reports
/// that. A communicator must outlive its calls.
class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns a communicator of the same ranks with its own sequence of calls. Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// Names the transport: "nccl 2.27.7", "shared memory", "mpi", "staged", "alone".
  virtual std::string describe() const { return "host"; }
  /// Returns a device that allocates host memory which ranks of the same node can read in place, or
  /// `device` if there is none. Use it for large buffers that are exchanged. Free the memory before
  /// the world ends.
  virtual Device& shared_memory(Device& device) { return device; }
  /// Peak bytes that this rank allocated in such memory.
  virtual int64_t shared_memory_peak() const { return 0; }
  /// Returns the node of each rank, [size()]. Nodes are numbered by their lowest ranks.
  std::vector<int> nodes() const;
  /// What host calls of this rank have exchanged with other nodes since the start, on all
  /// communicators of its world.
  NodeTraffic node_traffic() const;
  /// True if buffers are device memory. Then only calls with a `stream` parameter are allowed, and
  /// the barrier. They run after the work that the stream holds now; with nullptr, at once.
  virtual bool on_device() const { return false; }
  /// True if Pending::wait(Stream&) may block the host. If false, a device communicator's calls can
  /// be captured in a graph.
  virtual bool blocks_host() const { return true; }
  /// True if this rank must keep polling while it waits, because calls of other ranks depend on it.
  bool needs_progress() const { return size() > 1; }
  /// Moves the messages of all host calls of this rank that are in flight, without blocking.
  void make_progress();
  /// Throws if another rank, or the transport, is known to have failed. Does nothing on MPI, where
  /// mpirun ends the ranks.
  virtual void check_alive() {}
  /// Calls `drop_graphs` before this communicator and its duplicates end, or abort their calls
  /// because one failed, as long as the result lives. It destroys all graphs that hold calls of
  /// them, and ends a capture that does: NCCL waits for those. It must not throw. Later calls of
  /// a communicator whose calls were aborted throw.
  virtual std::shared_ptr<void> before_end(std::function<void()>) { return nullptr; }

  // Implemented by each communicator.

  /// Starts an exchange. A rank's block for itself is copied, unless source and destination are the
  /// same. Send blocks may overlap one another.
  virtual Pending start_exchange(Exchange exchange) = 0;
  /// Starts a sum of device memory. Device communicators only.
  virtual Pending start_reduction(Reduction reduction);

  // Collectives, built from the above.

  /// Sends layout.send_bytes[q] bytes at send + layout.send_offsets[q] to each rank q, and receives
  /// likewise. Each rank passes its own layout.
  Pending start_alltoallv(const void* send, void* receive, const ExchangeLayout& layout,
                          Stream* stream = nullptr);
  /// Copies bytes[q] bytes of each rank q to receive + offsets[q] on every rank. In place if send
  /// == receive + offsets[rank()].
  ///
  /// @param bytes, offsets  [size()]
  Pending start_allgatherv(const void* send, void* receive, View<const int64_t> bytes,
                           View<const int64_t> offsets, Stream* stream = nullptr);
  /// Copies `bytes` bytes of rank `root` to `data` on every rank.
  Pending start_broadcast(void* data, int64_t bytes, int root, Stream* stream = nullptr);
  /// Done once every rank has started it.
  Pending start_barrier();

  void alltoallv(const void* send, void* receive, const ExchangeLayout& layout);
  void broadcast(void* data, int64_t bytes, int root);
  void barrier();

  /// Replaces data[i] by its sum over ranks. T: float, double, int64_t.
  ///
  /// @param wire  type that values travel as: fp32 means T itself. With bf16 (float only), values
  ///              are rounded, added in fp32, and the sum is rounded again: all ranks get the same
  ///              values. A single rank rounds nothing.
  template <class T>
  Pending start_allreduce(View<T> data, DType wire = DType::kFloat32, Stream* stream = nullptr);
  template <class T>
  void allreduce(View<T> data, DType wire = DType::kFloat32) {
    start_allreduce<T>(data, wire).wait();
  }
  /// Replaces data[i] by its maximum over ranks.
  void allreduce_max(View<int64_t> data);

  /// Returns the values of all ranks, concatenated in rank order. Their number may differ between
  /// ranks.
  ///
  /// @param counts  optional; receives the number of values of each rank, [size()]
  template <class T>
  std::vector<T> allgatherv(View<const T> mine, std::vector<int64_t>* counts = nullptr) {
    std::vector<int64_t> bytes, offsets;
    std::vector<char> all =
        allgather_bytes(mine.data(), static_cast<int64_t>(mine.size_bytes()), bytes);
    std::vector<T> result(all.size() / sizeof(T));
    if (!all.empty()) std::memcpy(result.data(), all.data(), all.size());
    if (counts) {
      counts->clear();
      for (const int64_t b : bytes) counts->push_back(b / static_cast<int64_t>(sizeof(T)));
    }
    return result;
  }
  /// Returns the values of all ranks on rank 0, concatenated in rank order, and none on others.
  ///
  /// @param counts  [size()] the number of values of each rank
  template <class T>
  std::vector<T> gatherv(View<const T> mine, View<const int64_t> counts) {
    std::vector<int64_t> send(counts.size(), 0), receive(counts.size(), 0);
    send[0] = static_cast<int64_t>(mine.size_bytes());
    int64_t total = 0;
    for (size_t r = 0; rank() == 0 && r < counts.size(); ++r) {
      receive[r] = counts[r] * static_cast<int64_t>(sizeof(T));
      total += counts[r];
    }
    std::vector<T> all(static_cast<size_t>(total));
    alltoallv(mine.data(), all.data(), ExchangeLayout::packed(send, receive));
    return all;
  }
  /// Returns one value from each rank, [size()].
  template <class T>
  std::vector<T> allgather(const T& mine) {
    return allgatherv<T>(View<const T>(&mine, 1));
  }

  // For the implementation of collectives.

  /// Returns the first of `exchanges` consecutive sequence numbers, and tells the watchdog that
  /// this rank enters the collective `name`. Called when a collective starts, even if its exchanges
  /// start later.
  uint64_t reserve(const char* name, int64_t bytes, int exchanges = 1);
  const std::shared_ptr<comm::ProgressEngine>& engine() const { return engine_; }
  /// Null: all ranks are on one node.
  virtual const comm::NodeLayout* node_layout() const { return nullptr; }

 protected:
  explicit Communicator(std::shared_ptr<comm::ProgressEngine> engine);

 private:
  std::vector<char> allgather_bytes(const void* mine, int64_t mine_bytes,
                                    std::vector<int64_t>& bytes);
  /// Returns null unless all ranks share memory.
  virtual comm::ExchangeTable* shared_table() { return nullptr; }

  std::shared_ptr<comm::ProgressEngine> engine_;
  std::unique_ptr<comm::CallLog> call_log_;
  uint64_t next_sequence_ = 0;
};

/// Returns a communicator of this process alone.
std::unique_ptr<Communicator> make_self_comm();

}  // namespace dlrm
