#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dlrm::serve {

constexpr const char* kInferenceHead = "Inference-Header-Content-Length";

struct HttpRequest {
  std::string method, target, type, encoding;  ///< type: Content-Type; encoding: Content-Encoding
  std::string head;  ///< kInferenceHead: how many bytes of JSON a binary body begins with
  std::string body;
  int version = 11;
  bool keep_alive = true;  ///< the client may send another request
};

/// Cuts the bytes of one connection into requests. After a refusal the rest of the bytes has no
/// meaning: the connection must be closed.
class RequestReader {
 public:
  explicit RequestReader(size_t max_body);
  ~RequestReader();

  /// Memory for bytes that arrive. The next call of any function ends its use.
  std::span<char> space();
  /// The first `count` bytes of space() have arrived.
  void add(size_t count);
  /// There are bytes that belong to no request so far.
  bool has_bytes() const;

  enum class State { kHead, kBody, kWhole, kRefused };
  /// Reads on: kHead and kBody say what is not whole yet.
  State read();
  /// The client waits for a word before it sends the body. True once a request.
  bool expects_continue();
  /// What is known of the request. Its body is there if it is whole.
  const HttpRequest& request() const;
  /// Takes the whole request. The next one begins after it.
  HttpRequest take();

  int status() const;                 ///< of a refusal: 400, 413, 414 or 431
  const std::string& reason() const;  ///< of a refusal

  static constexpr size_t kMostTarget = 8192;
  static constexpr size_t kMostHeader = 65536;  ///< bytes of the request line and all fields

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm::serve
