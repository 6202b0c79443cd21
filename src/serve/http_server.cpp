#include "http_server.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "dlrm/core/error.h"

#include "binary_samples.h"
#include "framing.h"
#include "json_samples.h"
#include "records.h"

namespace dlrm::serve {
namespace {

using Clock = std::chrono::steady_clock;
using Reply = HttpTransport::Reply;

constexpr const char* kJson = "application/json";
constexpr const char* kBinary = "application/octet-stream";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The target without its query.
std::string path_of(const HttpRequest& request) {
  return request.target.substr(0, request.target.find('?'));
}

/// Whether the target's query is explain=ids. Any other query is an error.
bool explains(const HttpRequest& request) {
  const size_t query = request.target.find('?');
  if (query == std::string::npos) return false;
  const std::string text = request.target.substr(query + 1);
  if (text != "explain=ids")
    throw usage_error("unknown query {}; there is explain=ids", json_text(text));
  return true;
}

bool predicts(const HttpRequest& request) {
  return request.method == "POST" && path_of(request) == "/predict";
}

bool is_form(const std::string& type) {
  constexpr std::string_view kForm = "multipart/form-data";
  return same_word(std::string_view(type).substr(0, kForm.size()), kForm);
}

HttpAnswer failed(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return refusal(error.code() == ExitCode::kUsage ? 400 : 500, error.what());
  } catch (const std::exception& error) {
    return refusal(500, error.what());
  }
}

std::string model_text(const TrainedModel& model) {
  const Inputs& inputs = model.inputs();
  std::string features;
  for (const Inputs::Feature& feature : inputs.features) {
    features += fmt::format("{}{{\"name\": {}, \"rows\": {}{}}}", features.empty() ? "" : ", ",
                            json_text(feature.name), feature.rows,
                            feature.weighted ? ", \"weights\": true" : "");
  }
  std::string tasks;
  for (const std::string& task : inputs.tasks) {
    tasks += fmt::format("{}{}", tasks.empty() ? ", \"tasks\": [" : ", ", json_text(task));
  }
  if (!tasks.empty()) tasks += "]";
  return fmt::format(
      "{{\"checkpoint\": {}, \"step\": {}, \"dense_features\": {}, \"features\": [{}]{}}}\n",
      json_text(model.checkpoint()), model.step(), inputs.dense, features, tasks);
}

/// One list, or that of each of several labels by name.
std::string json_lists(const std::vector<float>& probabilities, const Inputs& inputs) {
  if (inputs.tasks.empty()) return fmt::format("[{}]", fmt::join(probabilities, ", "));
  std::string lists;
  for (size_t label = 0; label < inputs.labels(); ++label) {
    std::vector<float> own;
    for (size_t k = label; k < probabilities.size(); k += inputs.labels()) {
      own.push_back(probabilities[k]);
    }
    lists += fmt::format("{}{}: [{}]", lists.empty() ? "" : ", ", json_text(inputs.tasks[label]),
                         fmt::join(own, ", "));
  }
  return fmt::format("{{{}}}", lists);
}

/// `explained` is the text of the samples, or empty.
HttpAnswer answer_of(const std::vector<float>& probabilities, bool binary,
                     const std::string& explained, const Inputs& inputs) {
  for (size_t k = 0; k < probabilities.size(); ++k) {
    if (std::isfinite(probabilities[k])) continue;
    return refusal(
        400, fmt::format("samples[{}]: the model's output is not finite", k / inputs.labels()));
  }
  if (binary) return {200, kBinary, binary_probabilities(probabilities)};
  return {200, kJson,
          fmt::format("{{\"probabilities\": {}{}{}}}\n", json_lists(probabilities, inputs),
                      explained.empty() ? "" : ", \"samples\": ", explained)};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Batcher& batcher, Counters& counters)
      : batcher_(batcher),
        counters_(counters),
        inputs_(batcher.model()->inputs()),
        transport_(
            options,
            [this](HttpRequest request, Reply reply) { answer(std::move(request), reply); },
            [this](const HttpRequest& request, int status) { count_refused(request, status); },
            counters) {}

  int bind() { return transport_.bind(); }
  void serve(const std::function<bool()>& stops) { transport_.serve(stops); }

 private:
  void count_refused(const HttpRequest& request, int status) {
    counters_.add_refused(status);
    if (predicts(request)) counters_.add_request(status, 0);
  }

  void answer(HttpRequest request, const Reply& reply) {
    try {
      if (predicts(request)) return predict(std::move(request), reply);
      reply(page(request));
    } catch (...) {
      reply(failed(std::current_exception()));
    }
  }

  HttpAnswer page(const HttpRequest& request) const {
    const std::string path = path_of(request);
    if (request.method == "GET" || request.method == "HEAD") {
      if (path == "/model") return {200, kJson, model_text(*batcher_.model())};
      if (path == "/health") return {200, kJson, "{\"status\": \"ok\"}\n"};
      if (path == "/metrics") {
        const auto model = batcher_.model();
        return {200, "text/plain; version=0.0.4",
                counters_.text({model->step(), model->table_bytes()})};
      }
    }
    return refusal(404, "no such page: there are POST /predict, GET /model, /metrics and /health");
  }

  void predict(HttpRequest request, const Reply& reply) {
    const Clock::time_point begin = Clock::now();
    const auto finish = [this, reply, begin](HttpAnswer answer) {
      counters_.add_request(answer.status, seconds_since(begin));
      reply(std::move(answer));
    };
    if (!request.encoding.empty() || is_form(request.type)) {
      return finish(refusal(415, "send plain JSON, or application/octet-stream"));
    }
    const bool binary = request.type == kBinary;
    Samples samples;
    std::string explained;
    try {
      if (binary) {
        samples = read_binary_samples(request.body, inputs_);
      } else if (has_records(request.body)) {
        samples = read_json_records(request.body, batcher_.model()->records());
        if (explains(request)) explained = samples_text(samples, inputs_);
      } else {
        samples = read_json_samples(request.body, inputs_);
      }
    } catch (...) {
      return finish(failed(std::current_exception()));
    }
    request.body = {};
    batcher_.predict(std::move(samples), [this, finish, binary, explained = std::move(explained)](
                                             const std::vector<float>& probabilities,
                                             const std::exception_ptr& error) {
      finish(error ? failed(error) : answer_of(probabilities, binary, explained, inputs_));
    });
  }

  Batcher& batcher_;
  Counters& counters_;
  const Inputs inputs_;
  HttpTransport transport_;
};

HttpServer::HttpServer(const HttpOptions& options, Batcher& batcher, Counters& counters)
    : impl_(std::make_unique<Impl>(options, batcher, counters)) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind() { return impl_->bind(); }

void HttpServer::serve(const std::function<bool()>& stops) { impl_->serve(stops); }

}  // namespace dlrm::serve
