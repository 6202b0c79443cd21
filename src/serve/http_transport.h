#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "counters.h"
#include "request_reader.h"

namespace dlrm::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;                        ///< 0: any free one
  size_t max_body = size_t{16} << 20;  ///< bytes
  int64_t max_samples = 65536;         ///< of a request
  int max_connections = 64;
  int max_requests = 100000;  ///< of one connection
  int timeout = 5;  ///< seconds: for a header, for a body, for an answer, and between requests
};

struct HttpAnswer {
  int status = 200;
  std::string type, body;
  size_t head = 0;  ///< bytes of JSON that a binary body begins with, for the client; 0: none
};

/// The answer {"error": reason}.
HttpAnswer refusal(int status, const std::string& reason);

/// Reads requests and writes answers on a few threads, whatever the number of connections. The
/// requests of one connection are answered one after another.
class HttpTransport {
 public:
  /// Called once a request, by any thread and at any time.
  using Reply = std::function<void(HttpAnswer)>;
  /// Must not throw, and should return soon: other connections wait for the thread.
  using Handler = std::function<void(HttpRequest, Reply)>;
  /// A request that is not whole has been answered with this status.
  using Refused = std::function<void(const HttpRequest&, int status)>;

  HttpTransport(const HttpOptions& options, Handler handler, Refused refused, Counters& counters);
  ~HttpTransport();

  /// Starts to listen. Returns the port. Throws usage_error if the address cannot be used.
  int bind();
  /// Answers requests until `stops` returns true, which is asked many times a second. Then it
  /// answers what has arrived. Clients cannot delay its end by more than the timeout. Throws
  /// run_error if no connection can be accepted.
  void serve(const std::function<bool()>& stops);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace dlrm::serve
