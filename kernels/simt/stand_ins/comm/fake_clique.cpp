#include "fake_clique.h"

#include <cstring>

#include "fake_nccl.h"

namespace dlrm::fake_nccl {
namespace {

Parcel post(const void* data, size_t bytes, cudaStream_t stream) {
  Parcel parcel{std::make_shared<std::vector<char>>(bytes), nullptr};
  const Bytes copy = parcel.bytes;
  simt::stream_operation(stream, [=] { std::memcpy(copy->data(), data, copy->size()); },
                         "nccl send", {.bytes = static_cast<double>(bytes)});
  cudaEventCreateWithFlags(&parcel.sent, cudaEventDisableTiming);
  cudaEventRecord(parcel.sent, stream);
  return parcel;
}

template <class T>
void add_up(const std::vector<Bytes>& parts, void* to, size_t count) {
  T* out = static_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    T sum = reinterpret_cast<const T*>(parts[0]->data())[i];
    for (size_t q = 1; q < parts.size(); ++q) {
      sum += reinterpret_cast<const T*>(parts[q]->data())[i];
    }
    out[i] = sum;
  }
}

/// True if all parts that `group` needs from the peers have arrived.
bool complete(const ncclComm& comm, const std::vector<Op>& group) {
  std::map<int, size_t> received;
  for (const Op& op : group) {
    if (op.kind == Kind::kSend) continue;
    if (op.kind == Kind::kReceive) {
      if (comm.clique->mail[{op.peer, comm.rank}].size() < ++received[op.peer]) return false;
      continue;
    }
    const auto parcels = comm.clique->gatherings[op.number].parcels.size();
    if (parcels < static_cast<size_t>(comm.clique->ranks)) return false;
  }
  return true;
}

void receive(ncclComm& comm, const Op& op) {
  auto& mail = comm.clique->mail[{op.peer, comm.rank}];
  const Parcel parcel = mail.front();
  mail.pop_front();
  if (parcel.bytes->size() != op.count * width_of(op.type)) comm.broken = ncclInvalidUsage;
  cudaStreamWaitEvent(op.stream, parcel.sent, 0);
  cudaEventDestroy(parcel.sent);
  simt::stream_operation(
      op.stream,
      [bytes = parcel.bytes, to = op.receive] { std::memcpy(to, bytes->data(), bytes->size()); },
      "nccl receive");
}

void take(ncclComm& comm, const Op& op) {
  Gathering& gathering = comm.clique->gatherings[op.number];
  std::vector<Bytes> parts;
  for (const auto& [rank, parcel] : gathering.parcels) {
    parts.push_back(parcel.bytes);
    cudaStreamWaitEvent(op.stream, parcel.sent, 0);
  }
  simt::stream_operation(op.stream, [=] { reduce(parts, op.receive, op.count, op.type); },
                         "nccl sum", {.bytes = static_cast<double>(op.count * width_of(op.type))});
  if (++gathering.taken < comm.clique->ranks) return;
  for (const auto& [rank, parcel] : gathering.parcels) cudaEventDestroy(parcel.sent);
  comm.clique->gatherings.erase(op.number);
}

void advance(ncclComm& comm) {
  while (!comm.groups.empty() && complete(comm, comm.groups.front())) {
    const simt::PartOfCollective part(comm.groups.front().front().group);
    for (const Op& op : comm.groups.front()) {
      if (op.kind == Kind::kReceive) receive(comm, op);
      if (op.kind != Kind::kReceive && op.kind != Kind::kSend) take(comm, op);
    }
    comm.groups.pop_front();
  }
}

}  // namespace

void reduce(const std::vector<Bytes>& parts, void* to, size_t count, ncclDataType_t type) {
  if (type == ncclFloat32) return add_up<float>(parts, to, count);
  if (type == ncclFloat64) return add_up<double>(parts, to, count);
  add_up<int64_t>(parts, to, count);
}

void show(Op& op) {
  ncclComm& comm = *op.comm;
  const size_t bytes = op.count * width_of(op.type);
  if (op.kind == Kind::kReceive) return;
  if (op.kind == Kind::kSend) {
    comm.clique->mail[{comm.rank, op.peer}].push_back(post(op.send, bytes, op.stream));
    return;
  }
  op.number = comm.collectives++;
  comm.clique->gatherings[op.number].parcels[comm.rank] = post(op.send, bytes, op.stream);
}

ncclResult_t state_of(ncclComm& comm) {
  if (FakeNccl::network_down.load()) return ncclSystemError;
  const std::lock_guard lock(comm.clique->mutex);
  if (comm.clique->aborted) return ncclRemoteError;
  if (comm.clique->late_mail->between_processes()) return ncclSuccess;
  if (comm.clique->joined < comm.clique->ranks) return ncclInProgress;
  advance(comm);
  if (comm.broken != ncclSuccess) return comm.broken;
  return comm.groups.empty() ? ncclSuccess : ncclInProgress;
}

}  // namespace dlrm::fake_nccl
