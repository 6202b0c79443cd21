#include "serve/request_reader.h"

#include <cstring>

#include <gtest/gtest.h>

namespace dlrm::serve {
namespace {

/// The requests in `bytes`, which arrive `part` bytes at a time, as `METHOD target body;` each. A
/// refusal is its status, and bytes that are no whole request are `...`.
std::string cut(const std::string& bytes, size_t part = 1 << 20, size_t max_body = 1000) {
  RequestReader reader(max_body);
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const std::span<char> space = reader.space();
    const size_t count = std::min({part, bytes.size() - at, space.size()});
    std::memcpy(space.data(), bytes.data() + at, count);
    reader.add(count);
    at += count;
    while (reader.has_bytes()) {
      const RequestReader::State state = reader.read();
      if (state == RequestReader::State::kRefused) return text + std::to_string(reader.status());
      if (state != RequestReader::State::kWhole) {
        if (at == bytes.size()) return text + "...";
        break;
      }
      const HttpRequest request = reader.take();
      text += request.method + " " + request.target + " " + request.body + ";";
    }
  }
  return text;
}

std::string post(const std::string& fields, const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body;
}

const std::string kNextRequest = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(RequestReader, RequestsOfOnePacketAreCutApart) {
  const std::string three = post("Content-Length: 2\r\n", "ab") + kNextRequest +
                            post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n") +
                            kNextRequest;
  for (const size_t part : {1UL, 2UL, 7UL, 1000UL}) {
    EXPECT_EQ(cut(three, part), "POST / ab;GET /next ;POST / abc;GET /next ;") << part;
  }
}

TEST(RequestReader, AChunksHeaderThatArrivesInPartsCountsOnce) {
  const std::string fields = "Transfer-Encoding: chunked\r\n";
  const std::string open = post(fields, "99;a=\"" + std::string(40, 'x') + "\r\nyyyyyyyyyy");
  for (const size_t part : {1UL, 1000UL}) {
    EXPECT_EQ(cut(open, part), "...");
    EXPECT_EQ(cut(open + "\"\r\n", part), "400");
  }
}

TEST(RequestReader, ABodyBelongsToItsRequestWhateverTheMethod) {
  EXPECT_EQ(cut("GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                std::to_string(kNextRequest.size()) + "\r\n\r\n" + kNextRequest + kNextRequest),
            "GET /a " + kNextRequest + ";GET /next ;");
}

TEST(RequestReader, FramingThatTwoReadersMayReadDifferentlyIsRefused) {
  const std::string chunks = "0\r\n\r\n";
  for (const std::string fields : {"Content-Length: abc\r\n",
                                   "Content-Length: 0, 32\r\n",
                                   "Content-Length: +1\r\n",
                                   "Content-Length: -1\r\n",
                                   "Content-Length: 0x1\r\n",
                                   "Content-Length:\r\n",
                                   "Content-Length: 99999999999999999999\r\n",
                                   "Content-Length: 1\r\nContent-Length: 2\r\n",
                                   "Content-Length: 1\r\nContent-Length: 1\r\n",
                                   "Content-Length : 1\r\n",
                                   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                                   "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                                   "Transfer-Encoding: gzip\r\n",
                                   "Transfer-Encoding: xchunked\r\n",
                                   "Transfer-Encoding: gzip, chunked\r\n",
                                   "Transfer-Encoding: chunked, gzip\r\n",
                                   "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                                   "Transfer-Encoding: identity\r\n",
                                   "Host: y\r\n",
                                   "No colon\r\n"}) {
    EXPECT_EQ(cut(post(fields, chunks) + kNextRequest), "400") << fields;
  }
  EXPECT_EQ(cut("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks), "400");
  EXPECT_EQ(cut("POST / HTTP/2.0\r\n\r\n"), "400");
  EXPECT_EQ(cut("POST / HTTP/1.1\nHost: x\n\n" + kNextRequest), "400");
}

TEST(RequestReader, DamagedChunksAreRefused) {
  for (const std::string chunks : {"x\r\n", "-1\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n",
                                   "10000000000000000\r\na\r\n", "1\nab\r\n0\r\n\r\n"}) {
    EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", chunks) + kNextRequest), "400") << chunks;
  }
}

TEST(RequestReader, SizesAreLimited) {
  const auto spaces = [](size_t count) { return std::string(count, ' '); };
  EXPECT_EQ(cut(post("Content-Length: 1000\r\n", spaces(1000))), "POST / " + spaces(1000) + ";");
  EXPECT_EQ(cut(post("Content-Length: 1001\r\n", "")), "413");
  EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", "3e9\r\n" + spaces(1001))), "413");
  EXPECT_EQ(cut("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n"), "414");
  EXPECT_EQ(cut("GET /" + std::string(70000, 'a')), "431");
  EXPECT_EQ(cut("GET / HTTP/1.1\r\nA: " + std::string(70000, 'a') + "\r\n\r\n"), "431");
  std::string fields;
  for (int i = 0; i < 20000; ++i) fields += "A: b\r\n";
  EXPECT_EQ(cut(post(fields, "")), "431");
  EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n" + fields + fields)),
            "431");
  const std::string endless(200000, 'a');
  EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", "1;" + endless)).substr(0, 1), "4");
  EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", "0\r\nA: " + endless)).substr(0, 1), "4");
}

TEST(RequestReader, WhatIsNotWholeIsNoRequest) {
  EXPECT_EQ(cut("GET / HTTP/1.1\r\nHost: x\r\n"), "...");
  EXPECT_EQ(cut(post("Content-Length: 3\r\n", "ab")), "...");
  EXPECT_EQ(cut(post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n")), "...");
}

}  // namespace
}  // namespace dlrm::serve
