#pragma once
// What the emulator offers beside CUDA's names: to stand-ins for library calls, and to tests.
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "simt/runtime_api.h"

namespace simt {

/// A defect that the emulator found. Ends the program with one line, except within ErrorsThrow.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// While one lives, defects are thrown as Error from the call that executed the operation.
class ErrorsThrow {
 public:
  ErrorsThrow();
  ~ErrorsThrow();
  ErrorsThrow(const ErrorsThrow&) = delete;
  ErrorsThrow& operator=(const ErrorsThrow&) = delete;
};

/// Bytes that an operation reads or writes.
struct Range {
  const void* data;
  size_t bytes;
};

/// Queues host code that may touch device memory, as a library's kernels would: it runs when the
/// stream gets there, may run again where a graph captured it, and must not call CUDA.
void stream_operation(cudaStream_t stream, std::function<void()> work,
                      const char* name = "library");

/// The same for work that needs what another host thread's streams bring: it runs only once
/// `ready()`, which is asked where `work` would run.
void stream_operation(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work,
                      const char* name);

/// Starts the orders of blocks, threads and streams anew. DLRM_SIMT_SEED gives the first seed.
void set_seed(uint64_t seed);

/// What was done so far; differences tell what a step did.
struct Counters {
  uint64_t kernels, copies, graphs;
  uint64_t host_waits;   ///< calls that blocked the host until the device got somewhere
  uint64_t allocations;  ///< of device and of pinned memory
};
Counters counters();

/// Operations that are queued and not executed.
size_t pending_operations();

/// While one lives, a thread of its own runs what can run, as a GPU would: for host threads that
/// wait for another process by other means than the emulator's, where that process waits for these
/// operations.
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
