#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "embedding/records/block_file.h"
#include "embedding/records/ssd_records.h"

namespace dlrm::testing {

/// What happens to a transfer.
struct Disturbance {
  int error = 0;              ///< it fails
  int64_t at_most = 1 << 30;  ///< bytes that it moves
  bool lost = false;          ///< it reports success and moves nothing
  bool damaged = false;       ///< a bit of the data read changes
  int64_t at = 77;            ///< the byte in which it does
  bool held = false;          ///< it begins only if nothing else could end
};

/// The faults of a file, and what was done with it.
struct FileFaults {
  /// Called before each transfer, in the thread that starts it.
  std::function<Disturbance(const BlockTransfer&)> transfer = [](const BlockTransfer&) {
    return Disturbance{};
  };
  std::function<int(int64_t bytes)> resize = [](int64_t) { return 0; };
  std::atomic<int> submits = 0;  ///< by all threads
};

class DisturbedQueue final : public BlockQueue {
 public:
  DisturbedQueue(std::unique_ptr<BlockQueue> queue, std::shared_ptr<FileFaults> faults)
      : queue_(std::move(queue)), faults_(std::move(faults)) {}

  void start(int id, const BlockTransfer& transfer) override {
    const Disturbance disturbance = faults_->transfer(transfer);
    if (disturbance.error != 0) return ended_.push_back({id, -disturbance.error});
    if (disturbance.lost) return ended_.push_back({id, transfer.bytes});
    if (disturbance.at_most == 0) return ended_.push_back({id, 0});
    if (disturbance.held) return held_.push_back({id, transfer});
    BlockTransfer shorter = transfer;
    shorter.bytes = std::min(transfer.bytes, disturbance.at_most);
    if (disturbance.damaged) damaged_.emplace_back(id, transfer.data + disturbance.at);
    begin(id, shorter);
  }

  void submit() override {
    ++faults_->submits;
    queue_->submit();
  }

  void finish(size_t count, std::vector<Completion>& completions) override {
    const size_t disturbed = ended_.size();
    completions.insert(completions.end(), ended_.begin(), ended_.end());
    ended_.clear();
    if (disturbed >= count) return;
    if (count - disturbed > under_way_) {
      for (const auto& [id, transfer] : std::exchange(held_, {})) begin(id, transfer);
    }
    queue_->finish(count - disturbed, completions);
    under_way_ -= completions.size() - disturbed;
    for (const Completion& completion : completions) {
      for (auto& [id, data] : damaged_) {
        if (id == completion.id) *data ^= std::byte{4};
      }
      std::erase_if(damaged_, [&](const auto& d) { return d.first == completion.id; });
    }
  }

 private:
  void begin(int id, const BlockTransfer& transfer) {
    ++under_way_;
    queue_->start(id, transfer);
  }

  std::unique_ptr<BlockQueue> queue_;
  std::shared_ptr<FileFaults> faults_;
  size_t under_way_ = 0;  ///< in queue_
  std::vector<std::pair<int, BlockTransfer>> held_;
  std::vector<Completion> ended_;
  std::vector<std::pair<int, std::byte*>> damaged_;
};

/// A real file with faults.
class DisturbedFile final : public BlockFile {
 public:
  DisturbedFile(std::unique_ptr<BlockFile> file, std::shared_ptr<FileFaults> faults)
      : file_(std::move(file)), faults_(std::move(faults)) {}
  int resize(int64_t bytes) override {
    const int error = faults_->resize(bytes);
    return error != 0 ? error : file_->resize(bytes);
  }
  std::unique_ptr<BlockQueue> queue(int depth, View<std::byte> memory) override {
    return std::make_unique<DisturbedQueue>(file_->queue(depth, memory), faults_);
  }
  std::string description() const override { return file_->description(); }

 private:
  std::unique_ptr<BlockFile> file_;
  std::shared_ptr<FileFaults> faults_;
};

}  // namespace dlrm::testing
