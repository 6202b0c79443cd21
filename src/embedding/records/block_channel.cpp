#include "block_channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

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

BlockChannel::Read::Read(BlockChannel& channel, View<const BlockRange> ranges, Arrived arrived)
    : channel_(channel) {
  job_.transfer = [&channel, ranges](size_t i, int id) {
    const BlockRange& range = ranges[i];
    DLRM_CHECK(range.count <= channel.most_blocks_);
    return BlockTransfer{false, channel.buffer(id), range.count * kBlockBytes,
                         range.first * kBlockBytes};
  };
  job_.ended = [&channel, ranges, arrived = std::move(arrived)](size_t i, int id) {
    channel.bytes_read_ += ranges[i].count * kBlockBytes;
    arrived(i, channel.buffer(id));
  };
  channel_.start(job_, ranges.size());
}

BlockChannel::Read::~Read() { channel_.cancel(job_); }

void BlockChannel::write(int64_t first, View<std::byte> data) {
  const auto size = static_cast<int64_t>(data.size());
  const auto part = [](size_t i) { return static_cast<int64_t>(i) * kWriteBytes; };
  Job job;
  job.transfer = [&](size_t i, int) {
    return BlockTransfer{true, data.data() + part(i), std::min(kWriteBytes, size - part(i)),
                         first * kBlockBytes + part(i)};
  };
  job.ended = [](size_t, int) {};
  start(job, static_cast<size_t>((size + kWriteBytes - 1) / kWriteBytes));
  finish(job);
  bytes_written_ += size;
}

void BlockChannel::start(Job& job, size_t count) {
  job.count = job.left = count;
  jobs_.push_back(&job);
  try {
    start_next();
    queue_->submit();
  } catch (...) {
    cancel(job);
    throw;
  }
}

bool BlockChannel::start_next() {
  for (Job* const job : jobs_) {
    for (; job->next < job->count; ++job->next) {
      if (free_.empty()) return false;
      const int id = free_.back();
      Pending& pending = pending_[static_cast<size_t>(id)];
      pending = {job->transfer(job->next, id), job, job->next, kAttempts};
      queue_->start(id, pending.rest);
      free_.pop_back();
    }
  }
  return true;
}

void BlockChannel::finish(Job& job) {
  while (job.left > 0) {
    const bool all_started = start_next();
    const size_t under_way = pending_.size() - free_.size();
    // A wait for each transfer would take more time than the transfers.
    complete(all_started ? std::min(job.left, under_way) : std::max<size_t>(under_way / 4, 1));
  }
  std::erase(jobs_, &job);
  if (job.failure) std::rethrow_exception(std::exchange(job.failure, nullptr));
}

void BlockChannel::cancel(Job& job) {
  give_up(job);
  job.ended = [](size_t, int) {};
  try {
    finish(job);
  } catch (const std::exception&) {
    // Nobody waits for what was under way.
  }
}

void BlockChannel::give_up(Job& job) {
  job.left -= job.count - job.next;
  job.count = job.next;
}

void BlockChannel::complete(size_t count) {
  completions_.clear();
  queue_->finish(count, completions_);
  for (const auto& [id, result] : completions_) {
    const Pending& pending = pending_[static_cast<size_t>(id)];
    Job& job = *pending.job;
    try {
      if (!advance(id, result)) continue;
      if (!job.failure) job.ended(pending.number, id);
    } catch (...) {
      if (!job.failure) job.failure = std::current_exception();
      give_up(job);
    }
    --job.left;
    free_.push_back(id);
  }
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
  if (result == 0 || (moved == 0 && --pending.attempts_left == 0)) {
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
