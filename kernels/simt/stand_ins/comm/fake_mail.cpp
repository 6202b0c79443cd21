#include "fake_mail.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "simt/simt.h"

namespace dlrm {
namespace {

FakeMail::Bytes copy_of(const void* data, size_t bytes) {
  const char* first = static_cast<const char*>(data);
  return {first, first + bytes};
}

}  // namespace

FakeMail::FakeMail(int ranks, std::string folder) : ranks_(ranks), folder_(std::move(folder)) {
  if (!folder_.empty()) std::filesystem::create_directories(folder_);
}

std::string FakeMail::file_of(const Channel& channel, uint64_t number) const {
  const auto [kind, from, to] = channel;
  return fmt::format("{}/mail.{}.{}.{}.{}", folder_, kind, from, to, number);
}

void FakeMail::put(const Channel& channel, Bytes bytes) {
  const uint64_t number = sent_[channel]++;
  if (!between_processes()) {
    mail_[{channel, number}] = std::move(bytes);
    return;
  }
  const std::string file = file_of(channel, number);
  std::ofstream(file + ".new", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::filesystem::rename(file + ".new", file);
}

bool FakeMail::has(const Channel& channel) {
  const uint64_t number = taken_[channel];
  if (!between_processes()) return mail_.count({channel, number}) > 0;
  return std::filesystem::exists(file_of(channel, number));
}

FakeMail::Bytes FakeMail::take(const Channel& channel) {
  const uint64_t number = taken_[channel]++;
  if (!between_processes()) {
    auto letter = mail_.extract({channel, number});
    return letter.empty() ? Bytes() : std::move(letter.mapped());
  }
  const std::string file = file_of(channel, number);
  std::ifstream in(file, std::ios::binary);
  Bytes bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::filesystem::remove(file);
  return bytes;
}

void FakeMail::send(int from, int to, const void* data, size_t bytes, cudaStream_t stream,
                    Owner owner) {
  simt::stream_operation(
      stream,
      [self = shared_from_this(), owner, channel = Channel(kLetter, from, to), data, bytes] {
        self->put(channel, copy_of(data, bytes));
      },
      "nccl send");
}

void FakeMail::receive(int from, int to, void* data, size_t bytes, cudaStream_t stream,
                       Owner owner) {
  const auto self = shared_from_this();
  const Channel channel(kLetter, from, to);
  simt::stream_operation(
      stream, [=] { return self->ended_ || self->has(channel); },
      [self, owner, channel, data, bytes] {
        if (!self->has(channel)) return;
        const Bytes letter = self->take(channel);
        std::memcpy(data, letter.data(), std::min(bytes, letter.size()));
      },
      "nccl receive");
}

void FakeMail::gather(int rank, const void* data, size_t bytes, Finish finish, cudaStream_t stream,
                      Owner owner) {
  const auto self = shared_from_this();
  simt::stream_operation(
      stream,
      [self, owner, rank, data, bytes] {
        for (int q = 0; q < self->ranks_; ++q) self->put({kPart, rank, q}, copy_of(data, bytes));
      },
      "nccl collective");
  const auto complete = [self, rank] {
    for (int q = 0; q < self->ranks_; ++q) {
      if (!self->has({kPart, q, rank})) return false;
    }
    return true;
  };
  simt::stream_operation(
      stream, [=] { return self->ended_ || complete(); },
      [self, owner, complete, finish, rank] {
        if (!complete()) return;
        std::vector<Bytes> parts;
        for (int q = 0; q < self->ranks_; ++q) parts.push_back(self->take({kPart, q, rank}));
        finish(parts);
      },
      "nccl collective");
}

}  // namespace dlrm
