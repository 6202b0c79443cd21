#pragma once
#include <functional>
#include <memory>
#include <string>

#include "batcher.h"
#include "counters.h"

namespace dlrm::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;                        ///< 0: any free one
  size_t max_body = size_t{16} << 20;  ///< bytes
  int max_connections = 64;
  int timeout = 5;  ///< seconds: for a body, for each other read or write, and between requests
};

/// Serves predictions over HTTP: POST /predict, GET /model, /metrics and /health.
class HttpServer {
 public:
  HttpServer(const HttpOptions& options, Batcher& batcher, Counters& counters);
  ~HttpServer();

  /// Starts to listen. Returns the port. Throws usage_error if the address cannot be used.
  int bind();
  /// Answers requests until `stops` returns true, which is asked many times a second. Requests that
  /// have arrived by then are answered. Throws run_error if the server ends by itself.
  void serve(const std::function<bool()>& stops);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm::serve
