#pragma once
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/control/control_channel.h"

namespace dlrm::comm {

/// A control channel that keeps what is sent and delivers what it was given. With `prints` it
/// writes each call to stderr as well, for processes that end.
class RecordingChannel final : public ControlChannel {
 public:
  struct Sent {
    int to = 0;
    int kind = 0;
    std::vector<char> bytes;
  };

  explicit RecordingChannel(bool prints = false) : prints_(prints) {}

  void send(int to, int kind, const void* data, size_t bytes) override {
    const char* from = static_cast<const char*>(data);
    sent.push_back({to, kind, std::vector<char>(from, from + bytes)});
    int32_t code = 0;
    if (bytes >= sizeof code) std::memcpy(&code, data, sizeof code);
    say(fmt::format(
        "send {} to {}: {}{}", kind, to, code,
        bytes > sizeof code ? " " + std::string(from + sizeof code, from + bytes) : ""));
  }
  void make_progress() override { ++progress; }
  int unsent(int to) const override {
    const auto found = waiting.find(to);
    return found == waiting.end() ? 0 : found->second;
  }
  bool all_sent() override {
    if (++asked == leaves_at) say("left");
    return asked >= leaves_at;
  }
  bool receive(Message& message) override {
    if (incoming.empty()) return false;
    message = incoming.front();
    incoming.erase(incoming.begin());
    return true;
  }
  void finalize() override { say("finalize"); }
  void abort(int code) override { say(fmt::format("abort {}", code)); }

  std::vector<Sent> sent;
  std::vector<Message> incoming;  ///< what receive() returns, in this order
  std::map<int, int> waiting;     ///< messages to a rank that have not left
  int progress = 0;
  int asked = 0;      ///< whether all messages have left
  int leaves_at = 1;  ///< at which question they have

 private:
  void say(const std::string& what) const {
    if (prints_) std::fprintf(stderr, "<%s>\n", what.c_str());
  }
  const bool prints_;
};

}  // namespace dlrm::comm
