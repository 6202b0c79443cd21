// Warp operations and their checks.
#include "simt/warp.h"

#include <bit>

#include <fmt/format.h>

#include "block.h"

namespace simt {
namespace {

const char* name_of(WarpOp op) {
  switch (op) {
    case WarpOp::kSync:
      return "__syncwarp";
    case WarpOp::kIndex:
      return "__shfl_sync";
    case WarpOp::kUp:
      return "__shfl_up_sync";
    case WarpOp::kDown:
      return "__shfl_down_sync";
    case WarpOp::kXor:
      return "__shfl_xor_sync";
    case WarpOp::kBallot:
      return "a vote";
    case WarpOp::kMatchAny:
      return "__match_any_sync";
    default:
      return "a warp reduction";
  }
}

/// The lane that `lane` reads in a shuffle. Beyond its segment a lane keeps its own value.
int source_lane(const Request& r, int lane) {
  const int first = lane & ~(r.width - 1);
  switch (r.op) {
    case WarpOp::kIndex:
      return first | (r.argument & (r.width - 1));
    case WarpOp::kUp:
      return lane - r.argument < first ? lane : lane - r.argument;
    case WarpOp::kDown:
      return lane + r.argument >= first + r.width ? lane : lane + r.argument;
    default:
      return (lane ^ r.argument) >= first + r.width ? lane : lane ^ r.argument;
  }
}

unsigned long long reduced(const Request& r, unsigned long long a, unsigned long long b) {
  const auto x = static_cast<unsigned>(a), y = static_cast<unsigned>(b);
  const bool less = r.is_signed ? static_cast<int>(x) < static_cast<int>(y) : x < y;
  return r.op == WarpOp::kReduceAdd ? x + y : less ? x : y;
}

int lowest(unsigned mask) { return std::countr_zero(mask); }

}  // namespace

unsigned long long warp_op(WarpOp op, unsigned mask, unsigned long long value, int argument,
                           int width, bool is_signed, const Where& where) {
  return BlockRunner::of_this_thread().warp_op({op, is_signed, argument, width, mask, value, 0},
                                               where);
}

int lane_index() { return BlockRunner::of_this_thread().lane(); }

unsigned long long BlockRunner::warp_op(const Request& request, const Where& where) {
  const unsigned thread = current_;
  const unsigned bit = 1u << thread % 32;
  Warp& warp = warps_[thread / 32];
  threads_[thread].where = where;
  threads_[thread].request = request;
  if (!(request.mask & bit)) {
    std::string defect = fmt::format(
        "{}: {}:{}: {} calls {} with mask {:#010x}, which leaves it out", describe(),
        where.file_name(), where.line(), name(thread), name_of(request.op), request.mask);
    fail(std::move(defect));
  }
  size_t at = 0;
  while (at < warp.waiting.size() && warp.waiting[at].mask != request.mask) ++at;
  if (at == warp.waiting.size()) {
    warp.waiting.push_back({request.mask, 0});
  } else {
    check_same(request, where,
               thread / 32 * 32 + static_cast<unsigned>(lowest(warp.waiting[at].arrived)));
  }
  warp.waiting[at].arrived |= bit;
  if (warp.waiting[at].arrived != request.mask) {
    if (request.mask & warp.ended) {
      states_[thread] = ThreadState::kAtWarp;
      fail(stuck());
    }
    wait(ThreadState::kAtWarp);
    return threads_[thread].request.result;
  }
  warp.waiting.erase(warp.waiting.begin() + static_cast<std::ptrdiff_t>(at));
  complete(thread / 32, request.mask);
  const unsigned first = thread / 32 * 32;
  for (unsigned rest = request.mask & ~bit; rest != 0; rest &= rest - 1) {
    wake(first + static_cast<unsigned>(lowest(rest)));
  }
  return threads_[thread].request.result;
}

void BlockRunner::check_same(const Request& request, const Where& where, unsigned other) {
  const Thread& waiting = threads_[other];
  const bool same_place = request.op == WarpOp::kSync || where.line() == waiting.where.line();
  if (waiting.request.op == request.op && waiting.request.width == request.width && same_place) {
    return;
  }
  std::string defect = fmt::format(
      "{}: lanes of a warp meet in different operations: {} in {} at {}:{}, {} in {} "
      "at {}:{}",
      describe(), name(other), name_of(waiting.request.op), waiting.where.file_name(),
      waiting.where.line(), name(current_), name_of(request.op), where.file_name(), where.line());
  fail(std::move(defect));
}

void BlockRunner::complete(unsigned warp, unsigned mask) {
  ++met_;
  Thread* lanes = &threads_[size_t{warp} * 32];
  const Request& any = lanes[lowest(mask)].request;
  if (any.op == WarpOp::kSync) return;
  unsigned long long shared_result = 0;
  if (any.op == WarpOp::kBallot) {
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      shared_result |= lanes[lowest(rest)].request.value << lowest(rest);
    }
  } else if (any.op >= WarpOp::kReduceAdd) {
    shared_result = any.value;
    for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
      shared_result = reduced(any, shared_result, lanes[lowest(rest)].request.value);
    }
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = lowest(rest);
    Request& mine = lanes[lane].request;
    if (mine.op <= WarpOp::kXor) {
      const int source = source_lane(mine, lane);
      // The value of a lane outside the mask is undefined.
      mine.result = mask >> source & 1u ? lanes[source].request.value : ~0ull;
    } else if (mine.op == WarpOp::kMatchAny) {
      mine.result = 0;
      for (unsigned other = mask; other != 0; other &= other - 1) {
        if (lanes[lowest(other)].request.value == mine.value) mine.result |= 1u << lowest(other);
      }
    } else {
      mine.result = shared_result;
    }
  }
}

std::string BlockRunner::name(unsigned thread) const {
  const uint3 i = threads_[thread].index;
  if (blockDim.y == 1 && blockDim.z == 1) {
    return fmt::format("thread {} (lane {})", i.x, thread % 32);
  }
  return fmt::format("thread ({},{},{}) (lane {})", i.x, i.y, i.z, thread % 32);
}

std::string BlockRunner::describe() const {
  if (!launch_) return "host code of a stream";
  return fmt::format("kernel launched at {}:{}, block ({},{},{})", launch_->file, launch_->line,
                     blockIdx.x, blockIdx.y, blockIdx.z);
}

std::string BlockRunner::doing(unsigned thread) const {
  if (thread >= threads_count_) return "is beyond the block's threads";
  const Where& where = threads_[thread].where;
  switch (states_[thread]) {
    case ThreadState::kDone:
      return "has ended";
    case ThreadState::kAtBarrier:
      return fmt::format("waits at the barrier {}:{}", where.file_name(), where.line());
    case ThreadState::kAtWarp:
      return fmt::format("waits in {} at {}:{}", name_of(threads_[thread].request.op),
                         where.file_name(), where.line());
    default:
      return "has not come";
  }
}

/// Describes why no thread of the block can continue.
std::string BlockRunner::stuck() const {
  for (unsigned w = 0; w < warps_.size(); ++w) {
    for (const LaneGroup& group : warps_[w].waiting) {
      const unsigned absent = group.mask & ~group.arrived;
      const unsigned present = w * 32 + static_cast<unsigned>(lowest(group.arrived));
      unsigned missing = absent & warps_[w].ended;
      if (missing == 0) missing = absent;
      const auto lane = static_cast<unsigned>(lowest(missing));
      return fmt::format("{}: missing lane: {} {} for the lanes {:#010x}, but lane {} {}",
                         describe(), name(present), doing(present), group.mask, lane,
                         doing(w * 32 + lane));
    }
  }
  unsigned waiting = 0, other = 0;
  while (waiting < threads_count_ && states_[waiting] != ThreadState::kAtBarrier) ++waiting;
  while (other < threads_count_ && states_[other] != ThreadState::kDone) ++other;
  if (waiting == threads_count_ || other == threads_count_) {
    return fmt::format("{}: its threads wait for ever", describe());
  }
  return fmt::format("{}: divergence at a barrier: {} {}, but {} {}", describe(), name(waiting),
                     doing(waiting), name(other), doing(other));
}

}  // namespace simt
