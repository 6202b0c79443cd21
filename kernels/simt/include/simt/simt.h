#pragma once
// The emulator's functions in addition to CUDA's API, for stand-ins of libraries and for tests.
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "simt/runtime_api.h"

namespace simt {

/// A defect that the emulator found. It ends the program with one line, except within ErrorsThrow.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// During its lifetime, defects are thrown as Error from the call that executed the operation.
class ErrorsThrow {
 public:
  ErrorsThrow();
  ~ErrorsThrow();
  ErrorsThrow(const ErrorsThrow&) = delete;
  ErrorsThrow& operator=(const ErrorsThrow&) = delete;
};

/// During its lifetime, each call of CUDA's API is first shown to `choose`, by its name and its
/// flags, on the thread that makes it. If that returns an error, the call does nothing and returns
/// it. One at a time.
class OnCalls {
 public:
  using Choose = std::function<cudaError_t(const std::string& call)>;
  explicit OnCalls(Choose choose);
  ~OnCalls();
  OnCalls(const OnCalls&) = delete;
  OnCalls& operator=(const OnCalls&) = delete;

 private:
  Choose choose_;
};

/// Bytes that an operation reads or writes.
struct Range {
  const void* data;
  size_t bytes;
};

/// How much an operation does, for recordings.
struct Amount {
  double flops = 0;                 ///< of a product
  double bytes = 0;                 ///< that are copied, filled or sent
  int64_t blocks = 0, threads = 0;  ///< of a kernel: in its grid, and in a block
};

/// Queues host code that may access device memory, like a library's kernels. It runs in stream
/// order. It may run repeatedly if a graph captured it. It must not call CUDA.
void stream_operation(cudaStream_t stream, std::function<void()> work, const char* name = "library",
                      Amount amount = {});

/// The same for work that depends on another host thread's streams. It runs only once `ready()`
/// returns true. `ready` is called on the thread that would run `work`.
void stream_operation(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work,
                      const char* name, Amount amount = {});

/// What its thread queues during its lifetime belongs to collective call `number`, which is the
/// same on all ranks and not 0. For recordings.
class PartOfCollective {
 public:
  explicit PartOfCollective(uint64_t number);
  ~PartOfCollective();
  PartOfCollective(const PartOfCollective&) = delete;
  PartOfCollective& operator=(const PartOfCollective&) = delete;

 private:
  const uint64_t outer_;
};

/// Restarts the random orders of blocks, threads and streams. DLRM_SIMT_SEED gives the first seed.
void set_seed(uint64_t seed);

/// Totals so far. Differences describe a step.
struct Counters {
  uint64_t kernels;
  uint64_t fills;            ///< of memory with one byte
  uint64_t library_calls;    ///< of stream_operation: products, sorts, collectives
  uint64_t allocations;      ///< of device and of pinned memory
  uint64_t waits_for_ranks;  ///< calls that held the host, or would on a GPU, until the part of
                             ///< another rank came
  uint64_t meetings;         ///< of lanes in a warp operation, and of threads at a barrier
};
Counters counters();

/// Operations that are queued but not executed.
size_t pending_operations();

/// During its lifetime, a separate thread runs all operations that can run, like a GPU. It serves
/// host threads that wait for another process by means that the emulator does not know. That
/// process may be waiting for these operations.
class KeepRunning {
 public:
  KeepRunning();
  ~KeepRunning();
  KeepRunning(const KeepRunning&) = delete;
  KeepRunning& operator=(const KeepRunning&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simt
