#include "machine.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "block.h"

namespace simt {
namespace {

constexpr size_t kLongestQueue = 8192;
constexpr double kPatienceMs = 120e3;

uint64_t first_seed() {
  const char* seed = std::getenv("DLRM_SIMT_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

bool is_copy(WorkKind kind) { return kind == WorkKind::kCopy || kind == WorkKind::kFill; }

double now_ms() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

}  // namespace

Machine& Machine::instance() {
  static auto* machine = new Machine;  // never destroyed: memory may be freed at exit
  return *machine;
}

Machine::Machine() : random(first_seed()) { install_fault_handler(); }

cudaError_t Machine::queue(SimtStream* stream, Work work) {
  auto shared = std::make_shared<const Work>(std::move(work));
  if (stream->capture) {
    auto& nodes = stream->capture->graph.nodes;
    nodes.push_back({std::move(shared), stream->capture_tails});
    stream->capture_tails = {nodes.size() - 1};
    return cudaSuccess;
  }
  if (stream == &legacy_) {
    const cudaError_t refused = refuse_in_capture(*this);
    if (refused != cudaSuccess) return refused;
  }
  set_tail(stream, add(std::move(shared), needs_of(stream), stream));
  return cudaSuccess;
}

OperationPtr Machine::add(std::shared_ptr<const Work> work, const std::vector<OperationPtr>& needs,
                          const SimtStream* stream) {
  if (pending_ > kLongestQueue) {
    drain([&] { return pending_ > kLongestQueue / 2 ? pick(0) : nullptr; });
  }
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  if (recorder) recorder->queued(operation, needs, stream);
  for (const OperationPtr& need : needs) {
    if (!need || need->done) continue;
    need->dependents.push_back(operation);
    operation->needs.push_back(need);
    ++operation->waiting_for;
  }
  ++pending_;
  if (operation->waiting_for == 0) ready_.push_back(operation);
  pinned.watch(operation);
  return operation;
}

std::vector<OperationPtr> Machine::needs_of(SimtStream* stream) {
  std::vector<OperationPtr> needs{stream->tail};
  if (stream == &legacy_) {
    for (const SimtStream* other : streams_) {
      if (other->blocking) needs.push_back(other->tail);
    }
  } else if (stream->blocking) {
    needs.push_back(legacy_.tail);
  }
  return needs;
}

void Machine::set_tail(SimtStream* stream, OperationPtr operation) {
  stream->tail = std::move(operation);
}

OperationPtr Machine::tail_of(SimtStream* stream) {
  if (stream == &legacy_)
    set_tail(stream, add(std::make_shared<const Work>(), needs_of(stream), stream));
  return stream->tail;
}

cudaStream_t Machine::make_stream(bool blocking, int priority) {
  auto* stream = new SimtStream;
  stream->priority = priority;
  stream->blocking = blocking;
  streams_.insert(stream);
  return stream;
}

void Machine::destroy_stream(cudaStream_t stream) {
  streams_.erase(stream);
  delete stream;
}

void Machine::mark_needs(const OperationPtr& operation, uint64_t mark) {
  std::vector<OperationPtr> todo{operation};
  while (!todo.empty()) {
    const OperationPtr next = todo.back();
    todo.pop_back();
    if (next->marked == mark) continue;
    next->marked = mark;
    for (const auto& need : next->needs) {
      if (auto before = need.lock(); before && !before->done) todo.push_back(std::move(before));
    }
  }
}

/// Picks one of the operations that can run now. If `mark` is not 0, only among those with that
/// mark. Usually picks copies last.
OperationPtr Machine::pick(uint64_t mark) {
  const bool copies_last = random.below(4) != 0;
  OperationPtr chosen;
  uint64_t seen = 0;
  for (int round = copies_last ? 0 : 1; round < 2 && !chosen; ++round) {
    for (const OperationPtr& operation : ready_) {
      if (mark != 0 && operation->marked != mark) continue;
      if (operation->work->ready && !operation->work->ready()) continue;
      if (round == 0 && is_copy(operation->work->kind)) continue;
      if (random.below(++seen) == 0) chosen = operation;
    }
  }
  return chosen;
}

/// Executes operations that `more` returns, until it returns null.
template <class Choose>
void Machine::drain(Choose more) {
  OpenMemory open(memory);
  executing = true;
  try {
    pinned.check();
    while (const OperationPtr operation = more()) execute(operation);
  } catch (...) {
    executing = false;
    current = nullptr;
    drop_all();
    throw;
  }
  executing = false;
  pinned.look_again();
}

void Machine::execute(const OperationPtr& operation) {
  const Work& work = *operation->work;
  if (work.run) {
    current = &work;
    work.run();
    current = nullptr;
    if (work.kind == WorkKind::kKernel || work.kind == WorkKind::kLibrary) {
      const std::string overrun = memory.overrun();
      if (!overrun.empty()) throw Failure(fmt::format("{}: {}", work.name, overrun));
    }
  }
  std::erase(ready_, operation);
  operation->done = true;
  operation->finished_ms = now_ms();
  --pending_;
  for (const OperationPtr& dependent : operation->dependents) {
    if (--dependent->waiting_for == 0) ready_.push_back(dependent);
  }
  operation->dependents.clear();
  operation->needs.clear();
}

void Machine::run_until(const OperationPtr& operation) {
  if (!operation) return;
  const double begin_ms = now_ms();
  bool held = false;
  for (bool first = true; !operation->done; first = false) {
    if (!first) wait_for_others();
    // Usually runs only the operations that are needed, sometimes any that can run.
    uint64_t mark = 0;
    if (first && random.below(4) != 0) mark_needs(operation, mark = ++marks_);
    drain([&] { return operation->done ? nullptr : pick(mark); });
    if (mark == 0 && !held && !operation->done) {
      held = true;
      ++counted.waits_for_ranks;
    }
    if (now_ms() - begin_ms > kPatienceMs) {
      throw Failure("an operation waits for another rank's part, which never comes");
    }
  }
}

void Machine::wait_for_others() {
  mutex.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  mutex.lock();
}

void Machine::run_some(const OperationPtr& operation) {
  if (!operation || operation->done) return;
  const uint64_t mark = ++marks_;
  mark_needs(operation, mark);
  uint64_t left = 1 + random.below(4);
  drain([&]() -> OperationPtr {
    if (operation->done || left-- == 0) return nullptr;
    return pick(random.below(4) == 0 ? 0 : mark);
  });
}

void Machine::run_all() {
  if (pending_ == 0) return;
  drain([&] { return pick(0); });
}

void Machine::wait_for_device() {
  run_all();
  if (pending_ > 0) ++counted.waits_for_ranks;
}

void Machine::drop_all() {
  while (!ready_.empty()) {
    const OperationPtr operation = ready_.back();
    ready_.pop_back();
    operation->done = true;
    for (const OperationPtr& dependent : operation->dependents) {
      if (--dependent->waiting_for == 0) ready_.push_back(dependent);
    }
    operation->dependents.clear();
  }
  pending_ = 0;
  pinned.forget();
}

Capture* Machine::forbidding_capture() {
  const void* thread = &BlockRunner::of_this_thread();
  for (const auto& capture : captures_) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeGlobal || capture->thread == thread) {
      return capture.get();
    }
  }
  return nullptr;
}

void Machine::begin_capture(std::shared_ptr<Capture> capture) {
  capture->thread = &BlockRunner::of_this_thread();
  captures_.push_back(std::move(capture));
}

void Machine::end_capture(const Capture* capture) {
  for (SimtStream* stream : streams_) {
    if (stream->capture.get() != capture) continue;
    stream->capture = nullptr;
    stream->capture_tails.clear();
  }
  std::erase_if(captures_, [&](const auto& one) { return one.get() == capture; });
}

cudaError_t refuse_in_capture(Machine& machine) {
  Capture* capture = machine.forbidding_capture();
  if (!capture) return cudaSuccess;
  capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace simt
