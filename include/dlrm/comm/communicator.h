#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/dtype.h"
#include "dlrm/core/error.h"
#include "dlrm/core/view.h"

namespace dlrm {

class Stream;

/// Something started that is not done yet. Movable. Destroying one that was not waited for waits;
/// in an owner that an exception destroys, for two seconds at most, as peers may never start the
/// call.
class Pending {
 public:
  /// What a communicator keeps of a started call.
  class State {
   public:
    virtual ~State() = default;
    /// Moves the call on without blocking; true once it is done (buffers are the caller's again).
    virtual bool poll() = 0;
    /// Between two polls of a waiting caller, `polls` of which found nothing: leaves the core to
    /// others sooner or later.
    virtual void relax(int64_t polls);
    /// Whether calls beside this one were given up: nobody waits for this one either.
    virtual bool abandoned() const { return false; }
    /// The call is destroyed undone, and so are those beside it.
    virtual void abandon() {}
    /// True where a device goes on by itself: `stream` was ordered after the call, and the host
    /// need not wait. Host communicators leave it at false.
    virtual bool order(Stream& stream);
  };

  Pending() = default;
  explicit Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other);
  ~Pending();

  /// True once done. Throws what the call ended with: PeerLost when another rank failed.
  bool poll();
  /// Polls until done. The only place where a host communicator waits.
  void wait();
  /// What `stream` is given from now on finds the call done. Polls until done on a host
  /// communicator; a device one orders the stream and does not block the host.
  void wait(Stream& stream);
  bool done() const { return state_ == nullptr; }

 private:
  void end_quietly() noexcept;

  std::unique_ptr<State> state_;
};

/// Thrown out of a collective on every other rank when one rank reported a failure or vanished. The
/// error itself is reported by the rank that had it; this one is not printed.
class PeerLost : public Error {
 public:
  PeerLost(ExitCode code, int rank);
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Byte counts and offsets of one rank's part in an all-to-all: to and from each rank, [size].
struct ExchangeLayout {
  std::vector<int64_t> send_bytes, send_offsets;
  std::vector<int64_t> receive_bytes, receive_offsets;

  /// Layout with offsets that follow from the counts, blocks back to back in rank order.
  static ExchangeLayout packed(std::vector<int64_t> send_bytes, std::vector<int64_t> receive_bytes);
  int64_t send_total() const;
  int64_t receive_total() const;
};

/// One exchange of byte blocks among all ranks: what every collective is made of.
struct Exchange {
  const char* name = "";  ///< of the collective it is part of; a literal
  uint64_t sequence = 0;  ///< from Communicator::reserve: the same call has the same on each rank
  const void* send = nullptr;
  void* receive = nullptr;
  ExchangeLayout layout = {};
  /// True: blocks of no bytes are waited for too, so that nobody leaves before all have entered.
  bool rendezvous = false;
  /// Device communicators: the exchange starts after what this stream holds now.
  Stream* stream = nullptr;
};

/// A sum over ranks that a device communicator is asked for.
struct Reduction {
  enum class Element : uint8_t { kFloat, kDouble, kInt64 };

  const char* name = "";  ///< of the collective; a literal
  bool scatter = false;   ///< part_of(count, rank, size) alone arrives in `out`; else all of it
  const void* data = nullptr;
  void* out = nullptr;  ///< may be `data`, or with `scatter` the rank's own part of it
  int64_t count = 0;
  Element element = Element::kFloat;
  DType wire = DType::kFloat32;
  Stream* stream = nullptr;  ///< as in Exchange
};

class Activity;
class Board;
class Device;
class ProgressEngine;

/// Collective calls among ranks, over host memory unless on_device(). Every rank makes the same
/// calls on a communicator in the same order; several may be in flight at once. Buffers belong to a
/// started call until it is done. Counts may differ between ranks and be zero. Reductions add in
/// rank order, whatever the implementation, so that they agree bitwise. One thread at a time uses a
/// communicator; its duplicates may be used by others. Polling any call moves all of this rank's
/// calls on, those of duplicates too, so that ranks may wait for several calls in different orders.
/// A communicator outlives its calls.
class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Another communicator of the same ranks whose calls never mix with this one's. Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// What moves its bytes: "nccl 2.27.7", "shared memory", "mpi", "staged", "alone".
  virtual std::string describe() const { return "host"; }
  /// Allocates host memory that ranks of the same machine read where it lies, if they can (else
  /// that of `device`): best for large buffers that are exchanged. To be freed before the world
  /// ends.
  virtual Device& shared_memory(Device& device) { return device; }
  /// The most bytes that this rank had in such memory so far.
  virtual int64_t shared_memory_peak() const { return 0; }
  /// Whether buffers are device memory. The calls below that take a `stream` serve such buffers:
  /// they start after what it holds now (nullptr: at once); the others are for host memory alone.
  /// Ranks start a device communicator's calls, those of its duplicates included, in one order. A
  /// call over one rank still orders the stream that waits for it after the stream that it was
  /// given.
  virtual bool on_device() const { return false; }
  /// Whether Pending::wait(Stream&) may wait on the host. Where not, a device communicator's calls
  /// can be part of a captured graph.
  virtual bool blocks_host() const { return true; }
  /// Whether this rank must keep polling while it waits, because its peers' calls need it.
  bool needs_progress() const { return size() > 1; }
  /// Throws where another rank, or what carries the data, is known to have failed. Open MPI's ranks
  /// are ended from outside.
  virtual void check_alive() {}

  // The virtual core.

  /// Starts one exchange of blocks. A rank's block for itself is copied, unless it lies where it
  /// goes to. Send blocks may overlap one another.
  virtual Pending start_exchange(Exchange exchange) = 0;
  /// Starts a sum of device memory: device communicators alone.
  virtual Pending start_reduction(Reduction reduction);

  // Composed of the core, the same for every implementation.

  /// layout.send_bytes[q] bytes at send + layout.send_offsets[q] go to rank q.
  Pending start_alltoallv(const void* send, void* receive, const ExchangeLayout& layout,
                          Stream* stream = nullptr);
  /// Rank q's `bytes[q]` bytes arrive at receive + offsets[q] on every rank. In place allowed: send
  /// == receive + offsets[rank].
  Pending start_allgatherv(const void* send, void* receive, View<const int64_t> bytes,
                           View<const int64_t> offsets, Stream* stream = nullptr);
  Pending start_broadcast(void* data, int64_t bytes, int root, Stream* stream = nullptr);
  /// Done once every rank has started it.
  Pending start_barrier();

  void alltoallv(const void* send, void* receive, const ExchangeLayout& layout);
  void broadcast(void* data, int64_t bytes, int root);
  void barrier();

  /// data[i] becomes the sum over ranks, added in rank order. T: float, double, int64_t. With
  /// `wire` bf16 (float only), values travel rounded and are added in fp32, and the sum is rounded
  /// once more, so that all ranks hold the same values. On one rank nothing travels or is rounded.
  template <class T>
  Pending start_allreduce(View<T> data, DType wire = DType::kFloat32, Stream* stream = nullptr);
  template <class T>
  void allreduce(View<T> data, DType wire = DType::kFloat32) {
    start_allreduce<T>(data, wire).wait();
  }
  /// The element-wise largest over ranks.
  void allreduce_max(View<int64_t> data);

  /// Part `rank` (part_of(data.size(), rank, size)) of the sum over ranks arrives in `out`, which
  /// may be that part of data itself. T as in start_allreduce.
  template <class T>
  Pending start_reduce_scatter(View<const T> data, View<T> out, Stream* stream = nullptr);

  /// Everybody's `mine`, rank after rank; counts (optional) receives the elements of each rank.
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
  /// One value from each rank.
  template <class T>
  std::vector<T> allgather(const T& mine) {
    return allgatherv<T>(View<const T>(&mine, 1));
  }

  // For calls of several exchanges.

  /// Sequence numbers of `exchanges` exchanges, given out when the call starts, whenever they are
  /// made. Counts as entering the collective `name` for the watchdog.
  uint64_t reserve(const char* name, int64_t bytes, int exchanges = 1);
  const std::shared_ptr<ProgressEngine>& engine() const { return engine_; }

 protected:
  explicit Communicator(std::shared_ptr<ProgressEngine> engine);

 private:
  std::vector<char> allgather_bytes(const void* mine, int64_t mine_bytes,
                                    std::vector<int64_t>& bytes);
  /// Where all ranks find one another's memory; null where they do not.
  virtual Board* board() { return nullptr; }

  std::shared_ptr<ProgressEngine> engine_;
  std::unique_ptr<Activity> activity_;
  uint64_t next_sequence_ = 0;
};

/// One rank that is the whole world.
std::unique_ptr<Communicator> make_self_comm();

}  // namespace dlrm
