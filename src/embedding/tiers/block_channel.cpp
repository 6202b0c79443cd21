#include "block_channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>

#include "dlrm/core/error.h"

namespace dlrm {

namespace {

constexpr int64_t kWriteBytes = int64_t{256} << 10;  // of a transfer
constexpr int kAttempts = 100;                       // without progress

const char* advice(int error) {
  if (error == ENOSPC || error == EDQUOT) {
    return "; free space there, or set memory.cached.directory to a larger disk";
  }
  if (error == EIO) {
    return "; the disk may be failing: resume with memory.cached.directory on another one";
  }
  return "; resume with memory.cached.directory on another disk if this one cannot be mended";
}

}  // namespace

BlockChannel::BlockChannel(BlockFile& file, std::string label, int depth, int64_t most_blocks)
    : label_(std::move(label)),
      most_blocks_(most_blocks),
      buffers_(depth * most_blocks * kBlockBytes),
      queue_(file.queue(depth, {buffers_.data(), static_cast<size_t>(buffers_.size())})),
      pending_(static_cast<size_t>(depth)),
      free_(static_cast<size_t>(depth)) {
  std::iota(free_.begin(), free_.end(), 0);
}

BlockChannel::~BlockChannel() { drain(); }

void BlockChannel::drain() {
  count_ = next_;
  try {
    finish([](size_t, int) {});
  } catch (const std::exception&) {
    // Nobody waits for what was under way.
  }
}

void BlockChannel::start_read(View<const BlockRange> ranges) {
  ranges_ = ranges;
  start(ranges.size(), [this](size_t i, int id) {
    const BlockRange& range = ranges_[i];
    DLRM_CHECK(range.count <= most_blocks_);
    return BlockTransfer{false, buffer(id), range.count * kBlockBytes, range.first * kBlockBytes};
  });
}

void BlockChannel::finish_read(const Arrived& arrived) {
  finish([&](size_t i, int id) {
    bytes_read_ += ranges_[i].count * kBlockBytes;
    arrived(i, buffer(id));
  });
}

void BlockChannel::write(int64_t first, View<std::byte> data) {
  const auto size = static_cast<int64_t>(data.size());
  const auto part = [](size_t i) { return static_cast<int64_t>(i) * kWriteBytes; };
  start(static_cast<size_t>((size + kWriteBytes - 1) / kWriteBytes), [&](size_t i, int) {
    return BlockTransfer{true, data.data() + part(i), std::min(kWriteBytes, size - part(i)),
                         first * kBlockBytes + part(i)};
  });
  finish([](size_t, int) {});
  bytes_written_ += size;
}

void BlockChannel::start(size_t count, std::function<BlockTransfer(size_t, int)> first) {
  DLRM_CHECK(free_.size() == pending_.size(), "a transfer is under way");
  first_ = std::move(first);
  next_ = 0;
  count_ = count;
  try {
    start_next();
    queue_->submit();
  } catch (...) {
    drain();  // here, because only the thread that started them may wait for them
    throw;
  }
}

void BlockChannel::start_next() {
  for (; next_ < count_ && !free_.empty(); ++next_) {
    const int id = free_.back();
    free_.pop_back();
    Pending& pending = pending_[static_cast<size_t>(id)];
    pending = {first_(next_, id), next_, kAttempts};
    queue_->start(id, pending.rest);
  }
}

void BlockChannel::finish(const std::function<void(size_t, int)>& ended) {
  std::exception_ptr failure;
  while (true) {
    start_next();
    const size_t under_way = pending_.size() - free_.size();
    if (under_way == 0) break;
    // A wait for each transfer would take more time than the transfers.
    const size_t needed = next_ < count_ ? std::max<size_t>(under_way / 4, 1) : under_way;
    completions_.clear();
    queue_->finish(needed, completions_);
    for (const auto& [id, result] : completions_) {
      try {
        if (!advance(id, result)) continue;
        if (!failure) ended(pending_[static_cast<size_t>(id)].range, id);
      } catch (...) {
        if (!failure) failure = std::current_exception();
        count_ = next_;  // the others are not started
      }
      free_.push_back(id);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

bool BlockChannel::advance(int id, int64_t result) {
  Pending& pending = pending_[static_cast<size_t>(id)];
  BlockTransfer& rest = pending.rest;
  const char* verb = rest.write ? "write" : "read";
  const int64_t block = rest.offset / kBlockBytes;
  if (result < 0 && result != -EINTR && result != -EAGAIN) {
    const auto error = static_cast<int>(-result);
    throw run_error("{}: cannot {} {} blocks at block {}: {} (errno {}){}", label_, verb,
                    rest.bytes / kBlockBytes, block, std::strerror(error), error, advice(error));
  }
  if (result == rest.bytes) return true;
  // The rest of a short transfer begins with a whole block, as O_DIRECT requires.
  const int64_t moved = std::max<int64_t>(0, result) / kBlockBytes * kBlockBytes;
  if (result == 0 || result > rest.bytes || (moved == 0 && --pending.attempts_left == 0)) {
    throw run_error("{}: cannot {} {} blocks at block {}: only {} bytes were moved{}", label_, verb,
                    rest.bytes / kBlockBytes, block, std::max<int64_t>(0, result), advice(0));
  }
  rest.data += moved;
  rest.offset += moved;
  rest.bytes -= moved;
  queue_->start(id, rest);
  return false;
}

}  // namespace dlrm
