// The bytes that a client sends on one connection.
#include <cstring>

#include "fuzz.h"
#include "serve/request_reader.h"

namespace dlrm::fuzz {
namespace {

using serve::HttpRequest;
using serve::RequestReader;

constexpr size_t kMostBody = 300;

/// The requests, each with its body, and the status of a refusal.
std::string cut(std::string_view bytes, size_t part) {
  RequestReader reader(kMostBody);
  std::string text;
  while (!bytes.empty()) {
    const std::span<char> space = reader.space();
    const size_t count = std::min({part, bytes.size(), space.size()});
    std::memcpy(space.data(), bytes.data(), count);
    reader.add(count);
    bytes.remove_prefix(count);
    while (reader.has_bytes()) {
      const RequestReader::State state = reader.read();
      if (state == RequestReader::State::kRefused) {
        const int status = reader.status();
        if (status != 400 && status != 413 && status != 414 && status != 431) {
          fail("refused with {}", status);
        }
        return text + fmt::format("refused {}", status);
      }
      if (state != RequestReader::State::kWhole) break;
      const HttpRequest request = reader.take();
      if (request.body.size() > kMostBody) fail("a body of {} bytes", request.body.size());
      text += fmt::format("{} {} {} {}\n", request.method, request.target, request.version,
                          request.body);
    }
  }
  return text;
}

/// Ends the process unless `request` with this body is cut at its end, whatever follows it.
void check_next(std::string_view body) {
  if (body.size() > kMostBody) return;
  const std::string whole = fmt::format(
      "GET /a HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}GET /b HTTP/1.1\r\n\r\n", body.size(), body);
  const std::string right = fmt::format("GET /a 11 {}\nGET /b 11 \n", body);
  if (cut(whole, whole.size()) != right) fail("a body is not cut at its end");
}

/// Ends the process unless a request with these fields beside a length that is right is refused, or
/// ends where the length says.
void check_length_rules(std::string_view fields) {
  // An empty line would end the header before the one that is meant to.
  if (fmt::format("\r\n{}\r\n", fields).find("\r\n\r\n") != std::string::npos) return;
  const std::string whole = fmt::format(
      "POST /a HTTP/1.1\r\nContent-Length: 4\r\n{}\r\n\r\nbodyGET /b HTTP/1.1\r\n\r\n", fields);
  const std::string got = cut(whole, whole.size());
  if (got.starts_with("refused ") || got.starts_with("POST /a 11 body\nGET /b 11 \n")) return;
  if (!got.empty()) fail("another end of the body: {}", got);
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm::fuzz;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The parts in which bytes arrive change no request. A header that has not ended may be refused
  // at once, or when its end has arrived.
  const std::string whole = cut(bytes, size + 1);
  for (const size_t part : {size_t{1}, size_t{13}}) {
    const std::string parts = cut(bytes, part);
    if (parts == whole || whole.starts_with(parts + "refused ")) continue;
    fail("{} bytes at a time: {} and not {}", part, parts, whole);
  }
  check_next(bytes);
  check_length_rules(bytes);
  return 0;
}
