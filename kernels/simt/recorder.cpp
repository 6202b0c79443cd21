#include "recorder.h"

#include <algorithm>

#include "machine.h"
#include "simt/simt.h"

namespace simt {
namespace {

using Kind = dlrm::QueuedOperation::Kind;

thread_local uint64_t collective_of_thread = 0;

Kind kind_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return Kind::kKernel;
    case WorkKind::kCopy:
      return Kind::kCopy;
    case WorkKind::kFill:
      return Kind::kFill;
    case WorkKind::kLibrary:
      return Kind::kLibrary;
    case WorkKind::kHostFunction:
      return Kind::kHostFunction;
    case WorkKind::kFree:
      return Kind::kFree;
    case WorkKind::kMarker:
      break;
  }
  return Kind::kMark;
}

}  // namespace

PartOfCollective::PartOfCollective(uint64_t number)
    : outer_(std::exchange(collective_of_thread, number)) {}

PartOfCollective::~PartOfCollective() { collective_of_thread = outer_; }

void Recorder::add_need(std::vector<int>& needs, const OperationPtr& need) const {
  const auto found = numbers_.find(need.get());
  if (found == numbers_.end()) return;
  if (std::find(needs.begin(), needs.end(), found->second) == needs.end()) {
    needs.push_back(found->second);
  }
}

void Recorder::queued(const OperationPtr& operation, const std::vector<OperationPtr>& needs,
                      const SimtStream* stream) {
  dlrm::QueuedOperation& one = recorded_.operations.emplace_back();
  const Work& work = *operation->work;
  one.kind = kind_of(work.kind);
  one.name = work.name;
  one.label = label_();
  one.collective = collective_of_thread;
  one.flops = work.amount.flops;
  one.bytes = work.amount.bytes;
  one.blocks = work.amount.blocks;
  one.threads = work.amount.threads;
  if (stream) {
    one.stream = streams_.try_emplace(stream, static_cast<int>(streams_.size())).first->second;
    one.priority = stream->priority;
  }
  for (const OperationPtr& need : needs) add_need(one.needs, need);
  if (const auto known = known_.find(std::this_thread::get_id()); known != known_.end()) {
    one.needs.push_back(known->second);
  }
  numbers_[operation.get()] = static_cast<int>(recorded_.operations.size()) - 1;
  kept_.push_back(operation);
}

void Recorder::waited(const OperationPtr& operation, bool blocked) {
  const auto found = numbers_.find(operation.get());
  if (found == numbers_.end()) return;
  recorded_.waits.push_back({label_(), found->second, blocked});
  known_[std::this_thread::get_id()] = found->second;
}

}  // namespace simt

namespace dlrm {
namespace {

class EmulatorRecorder final : public StreamRecorder {
 public:
  explicit EmulatorRecorder(std::function<int()> label) : recorder_(std::move(label)) {
    set(&recorder_);
  }
  ~EmulatorRecorder() override { set(nullptr); }

  QueuedOperations take() override {
    set(nullptr);
    return recorder_.take();
  }

 private:
  static void set(simt::Recorder* recorder) {
    simt::guarded("a recording", [&](simt::Machine& machine) {
      machine.recorder = recorder;
      return 0;
    });
  }

  simt::Recorder recorder_;
};

}  // namespace

std::unique_ptr<StreamRecorder> record_streams(std::function<int()> label) {
  return std::make_unique<EmulatorRecorder>(std::move(label));
}

}  // namespace dlrm
