#pragma once
#include <functional>
#include <memory>
#include <string>

#include "batcher.h"
#include "counters.h"
#include "http_transport.h"

namespace dlrm::serve {

/// Serves predictions over HTTP: POST /predict, GET /model, /metrics and /health, and the Open
/// Inference Protocol below /v2 (kserve.h).
class HttpServer {
 public:
  /// `model_name` is the model's below /v2.
  HttpServer(const HttpOptions& options, Batcher& batcher, Counters& counters,
             const std::string& model_name = "dlrm");
  ~HttpServer();

  /// Starts to listen. Returns the port. Throws usage_error if the address cannot be used.
  int bind();
  /// See HttpTransport::serve.
  void serve(const std::function<bool()>& stops);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm::serve
