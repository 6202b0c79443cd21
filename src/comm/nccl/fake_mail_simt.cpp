#include "fake_mail_simt.h"

#include <algorithm>
#include <cstring>

#include "simt/simt.h"

namespace dlrm {
namespace {

FakeMail::Bytes copy_of(const void* data, size_t bytes) {
  const char* first = static_cast<const char*>(data);
  return {first, first + bytes};
}

}  // namespace

void FakeMail::send(int from, int to, const void* data, size_t bytes, cudaStream_t stream) {
  simt::stream_operation(
      stream,
      [self = shared_from_this(), at = std::pair(from, to), data, bytes] {
        self->mail_[at].push_back(copy_of(data, bytes));
      },
      "nccl send");
}

void FakeMail::receive(int from, int to, void* data, size_t bytes, cudaStream_t stream) {
  const auto self = shared_from_this();
  const std::pair at(from, to);
  simt::stream_operation(
      stream, [=] { return self->ended_ || !self->mail_[at].empty(); },
      [=] {
        std::deque<Bytes>& mail = self->mail_[at];
        if (mail.empty()) return;
        std::memcpy(data, mail.front().data(), std::min(bytes, mail.front().size()));
        mail.pop_front();
      },
      "nccl receive");
}

void FakeMail::gather(int rank, const void* data, size_t bytes, Finish finish,
                      cudaStream_t stream) {
  const auto self = shared_from_this();
  const auto r = static_cast<size_t>(rank);
  simt::stream_operation(
      stream,
      [=] { self->gatherings_[self->shown_[r]++].parts.emplace(rank, copy_of(data, bytes)); },
      "nccl collective");
  const auto here = [self, r]() -> Gathering* {
    const auto found = self->gatherings_.find(self->taken_[r]);
    const bool whole =
        found != self->gatherings_.end() && found->second.parts.size() == self->shown_.size();
    return whole ? &found->second : nullptr;
  };
  simt::stream_operation(
      stream, [=] { return self->ended_ || here(); },
      [=] {
        Gathering* gathering = here();
        if (!gathering) return;
        std::vector<Bytes> parts;
        for (const auto& [q, part] : gathering->parts) parts.push_back(part);
        if (finish) finish(parts);
        if (++gathering->taken == parts.size()) self->gatherings_.erase(self->taken_[r]);
        ++self->taken_[r];
      },
      "nccl collective");
}

}  // namespace dlrm
