#include "http_server.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"

#include "binary_samples.h"
#include "connection_queue.h"
#include "json_samples.h"

namespace dlrm::serve {
namespace {

using Clock = std::chrono::steady_clock;
using httplib::Request;
using httplib::Response;

constexpr const char* kJson = "application/json";
constexpr const char* kBinary = "application/octet-stream";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void refuse(Response& response, int status, const std::string& reason) {
  response.status = status;
  response.set_content(fmt::format("{{\"error\": {}}}\n", json_text(reason)), kJson);
}

/// A new server may use the address at once, but two cannot share it, as the library would let
/// them.
void allow_reuse(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

std::string model_text(const TrainedModel& model) {
  const Inputs& inputs = model.inputs();
  std::string features;
  for (const Inputs::Feature& feature : inputs.features) {
    features += fmt::format("{}{{\"name\": {}, \"rows\": {}}}", features.empty() ? "" : ", ",
                            json_text(feature.name), feature.rows);
  }
  return fmt::format(
      "{{\"checkpoint\": {}, \"step\": {}, \"dense_features\": {}, \"features\": [{}]}}\n",
      json_text(model.checkpoint()), model.step(), inputs.dense, features);
}

std::string json_answer(const std::vector<float>& probabilities) {
  return fmt::format("{{\"probabilities\": [{}]}}\n", fmt::join(probabilities, ", "));
}

/// A body that was refused: its status, and the reason.
struct Refusal {
  int status;
  std::string reason;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Batcher& batcher, Counters& counters)
      : options_(options),
        batcher_(batcher),
        counters_(counters),
        inputs_(batcher.model()->inputs()) {
    server_.new_task_queue = [this] {
      return new ConnectionQueue(options_.max_connections, counters_);
    };
    server_.set_tcp_nodelay(true);
    server_.set_socket_options(allow_reuse);
    server_.set_keep_alive_max_count(std::numeric_limits<size_t>::max());
    server_.set_keep_alive_timeout(options.timeout);
    server_.set_read_timeout(options.timeout);
    server_.set_write_timeout(options.timeout);
    server_.set_payload_max_length(options.max_body);
    add_routes();
  }

  int bind() {
    if (options_.port == 0) {
      const int port = server_.bind_to_any_port(options_.host);
      if (port > 0) return port;
    } else if (server_.bind_to_port(options_.host, options_.port)) {
      return options_.port;
    }
    throw usage_error("cannot listen at {} port {}: is it an address of this machine, and free?",
                      options_.host, options_.port);
  }

  void serve(const std::function<bool()>& stops) {
    std::atomic<bool> ended{false}, stopped{false};
    std::thread stopper = background_thread([&] {
      constexpr auto kPause = std::chrono::milliseconds(20);
      while (!ended && !(server_.is_running() && stops())) std::this_thread::sleep_for(kPause);
      if (ended) return;
      stopped = true;
      server_.stop();
    });
    server_.listen_after_bind();
    ended = true;
    stopper.join();
    if (!stopped) throw run_error("the server ended: its socket accepts no connection");
  }

 private:
  void add_routes() {
    server_.Post("/predict", [this](const Request& request, Response& response,
                                    const httplib::ContentReader& reader) {
      answer_prediction(request, response, reader);
    });
    server_.Get("/model", [this](const Request&, Response& response) {
      response.set_content(model_text(*batcher_.model()), kJson);
    });
    server_.Get("/health", [](const Request&, Response& response) {
      response.set_content("{\"status\": \"ok\"}\n", kJson);
    });
    server_.Get("/metrics", [this](const Request&, Response& response) {
      const auto model = batcher_.model();
      response.set_content(counters_.text({model->step(), model->table_bytes()}),
                           "text/plain; version=0.0.4");
    });
    server_.set_error_handler(httplib::Server::Handler([](const Request&, Response& response) {
      if (response.body.empty()) {
        refuse(response, response.status,
               response.status == 404
                   ? "no such page: there are POST /predict, GET /model, /metrics and /health"
                   : fmt::format("HTTP status {}", response.status));
      }
    }));
  }

  /// The whole body. Throws a Refusal.
  std::string read_body(const Request& request, const Response& response,
                        const httplib::ContentReader& reader) const {
    if (request.is_multipart_form_data() || request.has_header("Content-Encoding")) {
      throw Refusal{415, "send plain JSON, or application/octet-stream"};
    }
    const Clock::time_point begin = Clock::now();
    std::string body;
    bool large = false, late = false;
    const bool whole = reader([&](const char* data, size_t size) {
      large = body.size() + size > options_.max_body;
      late = seconds_since(begin) > options_.timeout;
      if (!large && !late) body.append(data, size);
      return !large && !late;
    });
    if (late) throw Refusal{408, fmt::format("no whole body within {} s", options_.timeout)};
    if (large || (!whole && response.status == 413)) {
      throw Refusal{413, fmt::format("a body has at most {} bytes", options_.max_body)};
    }
    if (!whole) throw Refusal{400, "the body is not whole"};
    return body;
  }

  void predict(const Request& request, const std::string& body, Response& response) {
    const bool binary = request.get_header_value("Content-Type") == kBinary;
    Samples samples =
        binary ? read_binary_samples(body, inputs_) : read_json_samples(body, inputs_);
    const std::vector<float> probabilities = batcher_.predict(std::move(samples));
    for (size_t i = 0; i < probabilities.size(); ++i) {
      if (std::isfinite(probabilities[i])) continue;
      throw usage_error("samples[{}]: the model's output is not finite", i);
    }
    response.status = 200;
    if (binary) {
      response.set_content(binary_probabilities(probabilities), kBinary);
    } else {
      response.set_content(json_answer(probabilities), kJson);
    }
  }

  void answer_prediction(const Request& request, Response& response,
                         const httplib::ContentReader& reader) {
    Clock::time_point begin = Clock::now();
    try {
      const std::string body = read_body(request, response, reader);
      begin = Clock::now();
      predict(request, body, response);
    } catch (const Refusal& refusal) {
      refuse(response, refusal.status, refusal.reason);
      response.set_header("Connection", "close");  // the rest of the body is not read
    } catch (const Error& error) {
      refuse(response, error.code() == ExitCode::kUsage ? 400 : 500, error.what());
    } catch (const std::exception& error) {
      refuse(response, 500, error.what());
    }
    counters_.add_request(response.status, seconds_since(begin));
  }

  const HttpOptions options_;
  Batcher& batcher_;
  Counters& counters_;
  const Inputs inputs_;
  httplib::Server server_;
};

HttpServer::HttpServer(const HttpOptions& options, Batcher& batcher, Counters& counters)
    : impl_(std::make_unique<Impl>(options, batcher, counters)) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind() { return impl_->bind(); }

void HttpServer::serve(const std::function<bool()>& stops) { impl_->serve(stops); }

}  // namespace dlrm::serve
