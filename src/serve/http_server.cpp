#include "http_server.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "dlrm/core/error.h"

#include "binary_samples.h"
#include "framing.h"
#include "json_samples.h"
#include "json_value.h"
#include "kserve.h"
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

/// Samples, and what answers the request once they are predicted.
struct Question {
  Samples samples;
  std::function<HttpAnswer(const std::vector<float>& probabilities)> answer;
};

/// `explained` is the text of the samples, or empty.
HttpAnswer answer_of(const std::vector<float>& probabilities, bool binary,
                     const std::string& explained, const Inputs& inputs) {
  if (binary) return {200, kBinary, binary_probabilities(probabilities)};
  return {200, kJson,
          fmt::format("{{\"probabilities\": {}{}{}}}\n", json_lists(probabilities, inputs),
                      explained.empty() ? "" : ", \"samples\": ", explained)};
}

/// The question of a request to /predict, of so many samples at most.
Question question_of(const HttpRequest& request, const std::shared_ptr<TrainedModel>& model,
                     int64_t most) {
  const Inputs& inputs = model->inputs();
  const bool binary = request.type == kBinary;
  Question question;
  std::string explained;
  if (binary) {
    question.samples = read_binary_samples(request.body, inputs);
  } else if (has_records(request.body)) {
    question.samples = read_json_records(request.body, model->records(), most);
    if (explains(request)) explained = samples_text(question.samples, inputs);
  } else {
    question.samples = read_json_samples(request.body, inputs, most);
  }
  question.answer = [model, binary, explained = std::move(explained)](const auto& probabilities) {
    return answer_of(probabilities, binary, explained, model->inputs());
  };
  return question;
}

/// The question of a request to infer of the Open Inference Protocol.
Question kserve_question(const HttpRequest& request, const std::shared_ptr<TrainedModel>& model,
                         const std::string& name, int64_t most) {
  KserveRequest asked = read_kserve_request(request.body, request.head);
  Question question;
  question.samples = kserve_samples(asked, *model, most);
  asked.inputs.clear();  // they refer to the body
  question.answer = [model, name, asked = std::move(asked)](const auto& probabilities) {
    return kserve_answer(asked, name, *model, probabilities);
  };
  return question;
}

/// The reason why there is no answer; empty if there is one.
std::string not_finite(const std::vector<float>& probabilities, const Inputs& inputs) {
  for (size_t k = 0; k < probabilities.size(); ++k) {
    if (std::isfinite(probabilities[k])) continue;
    return fmt::format("samples[{}]: the model's output is not finite", k / inputs.labels());
  }
  return "";
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Batcher& batcher, Counters& counters,
       const std::string& model_name)
      : batcher_(batcher),
        counters_(counters),
        model_name_(model_name),
        max_samples_(options.max_samples),
        transport_(
            options,
            [this](const HttpRequest& request, const Reply& reply) { answer(request, reply); },
            [this](const HttpRequest& request, int status) { count_refused(request, status); },
            counters) {}

  int bind() { return transport_.bind(); }
  void serve(const std::function<bool()>& stops) { transport_.serve(stops); }

 private:
  using Model = std::shared_ptr<TrainedModel>;
  using Kind = KserveTarget::Kind;

  KserveTarget target_of(const HttpRequest& request, const TrainedModel& model) const {
    return kserve_target(path_of(request), model_name_, model.step());
  }

  void count_refused(const HttpRequest& request, int status) {
    counters_.add_refused(status);
    if (request.method == "POST" && (path_of(request) == "/predict" ||
                                     target_of(request, *batcher_.model()).kind == Kind::kInfer)) {
      counters_.add_request(status, 0);
    }
  }

  void answer(const HttpRequest& request, const Reply& reply) {
    try {
      const Model model = batcher_.model();
      const KserveTarget target = target_of(request, *model);
      const bool infers = target.kind == Kind::kInfer;
      if (request.method == "POST" && (infers || path_of(request) == "/predict")) {
        return predict(request, model, infers, reply);
      }
      reply(page(request, target, *model));
    } catch (...) {
      reply(failed(std::current_exception()));
    }
  }

  HttpAnswer page(const HttpRequest& request, const KserveTarget& target,
                  const TrainedModel& model) const {
    const std::string path = path_of(request);
    const bool gets = request.method == "GET" || request.method == "HEAD";
    if (target.kind == Kind::kUnknown ||
        (gets && target.kind != Kind::kNone && target.kind != Kind::kInfer)) {
      return kserve_page(target, model_name_, model);
    }
    if (gets) {
      if (path == "/model") return {200, kJson, model_text(model)};
      if (path == "/health") return {200, kJson, "{\"status\": \"ok\"}\n"};
      if (path == "/metrics") {
        return {200, "text/plain; version=0.0.4",
                counters_.text({model.step(), model.table_bytes()})};
      }
    }
    return refusal(404,
                   fmt::format("no such page: there are POST /predict, GET /model, /metrics and "
                               "/health, and below /v2/models/{} POST infer",
                               model_name_));
  }

  /// The request is encoded and predicted by the same model.
  void predict(const HttpRequest& request, const Model& model, bool infers, const Reply& reply) {
    const Clock::time_point begin = Clock::now();
    const auto finish = [this, reply, begin](HttpAnswer answer) {
      counters_.add_request(answer.status, seconds_since(begin));
      reply(std::move(answer));
    };
    if (!request.encoding.empty() || is_form(request.type)) {
      return finish(refusal(415, "send plain JSON, or application/octet-stream"));
    }
    Question question;
    try {
      question = infers ? kserve_question(request, model, model_name_, max_samples_)
                        : question_of(request, model, max_samples_);
      check_samples(question.samples.size, max_samples_);
    } catch (...) {
      return finish(failed(std::current_exception()));
    }
    batcher_.predict(model, std::move(question.samples),
                     [model, finish, answer = std::move(question.answer)](
                         const std::vector<float>& probabilities, const std::exception_ptr& error) {
                       if (error) return finish(failed(error));
                       const std::string reason = not_finite(probabilities, model->inputs());
                       finish(reason.empty() ? answer(probabilities) : refusal(400, reason));
                     });
  }

  Batcher& batcher_;
  Counters& counters_;
  const std::string model_name_;
  const int64_t max_samples_;
  HttpTransport transport_;
};

HttpServer::HttpServer(const HttpOptions& options, Batcher& batcher, Counters& counters,
                       const std::string& model_name)
    : impl_(std::make_unique<Impl>(options, batcher, counters, model_name)) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind() { return impl_->bind(); }

void HttpServer::serve(const std::function<bool()>& stops) { impl_->serve(stops); }

}  // namespace dlrm::serve
