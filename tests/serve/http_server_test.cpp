#include "serve/http_server.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <sstream>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "error_of.h"
#include "http_client.h"
#include "saved_model.h"
#include "train/checkpoint_tensors.h"
#include "train/small_run.h"

namespace dlrm::serve {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class Http : public ::testing::Test {
 protected:
  void SetUp() override {
    config_ = odd_model();
    evaluated_ = save_model(config_, folder_.path());
    options_.timeout = 2;
  }
  void TearDown() override { stop(); }

  void start(int64_t batch_size = 8, milliseconds wait = milliseconds(0)) {
    batcher_.emplace(std::make_shared<TrainedModel>(folder_of(folder_.path()), LoadOptions{}),
                     batch_size, wait, counters_);
    server_.emplace(options_, *batcher_, counters_);
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->serve([this] { return stops_.load(); }); });
    for (int i = 0; i < 1000 && !client().Get("/health"); ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Client client() const { return Client(port_); }
  Result post(const std::string& body, const char* type = "application/json") const {
    return client().Post("/predict", body, type);
  }
  /// The status and the reason of a refused request.
  static std::string reason(const Result& result) {
    if (!result) return "no answer";
    return std::to_string(result->status) + " " +
           json::parse(result->body).at("error").get<std::string>();
  }

  json sample(int64_t s) const {
    const Samples& all = evaluated_.samples;
    json object = {{"dense", json::array()}, {"ids", json::object()}};
    for (int64_t d = 0; d < 5; ++d) {
      object["dense"].push_back(all.dense[static_cast<size_t>(s * 5 + d)]);
    }
    const Inputs inputs = inputs_of(config_.model);
    for (size_t f = 0; f < 6; ++f) {
      const int64_t* bag = all.offsets.data() + s * 6 + static_cast<int64_t>(f);
      object["ids"][inputs.features[f].name] =
          std::vector<int64_t>(all.ids.begin() + bag[0], all.ids.begin() + bag[1]);
      if (!inputs.features[f].weighted) continue;
      object["weights"][inputs.features[f].name] =
          std::vector<float>(all.weights.begin() + bag[0], all.weights.begin() + bag[1]);
    }
    return object;
  }
  std::string body(int64_t first, int64_t count) const {
    json list = json::array();
    for (int64_t s = first; s < first + count; ++s) list.push_back(sample(s));
    return json{{"samples", list}}.dump();
  }
  std::string binary_body() const {
    const Samples& all = evaluated_.samples;
    const uint32_t head[] = {1, static_cast<uint32_t>(all.size)};
    std::vector<uint32_t> lengths;
    for (size_t bag = 0; bag + 1 < all.offsets.size(); ++bag) {
      lengths.push_back(static_cast<uint32_t>(all.offsets[bag + 1] - all.offsets[bag]));
    }
    const auto bytes = [](const auto* data, size_t count) {
      return std::string(reinterpret_cast<const char*>(data), count * sizeof(*data));
    };
    return bytes(head, 2) + bytes(all.dense.data(), all.dense.size()) +
           bytes(lengths.data(), lengths.size()) + bytes(all.ids.data(), all.ids.size()) +
           bytes(all.weights.data(), all.weights.size());  // of all features or of none
  }
  void expect_predicted(const Result& result, int64_t first, int64_t count) const {
    ASSERT_TRUE(result);
    ASSERT_EQ(result->status, 200) << result->body;
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
    const json answer = json::parse(result->body);
    ASSERT_EQ(answer["probabilities"].size(), static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(answer["probabilities"][static_cast<size_t>(i)].get<double>(),
                  evaluated_.probabilities[static_cast<size_t>(first + i)], 1e-6);
    }
  }
  std::string metrics() const {
    const auto result = client().Get("/metrics");
    return result ? result->body : "";
  }

  dlrm::testing::TemporaryFolder folder_;
  RunConfig config_;
  Evaluated evaluated_;
  HttpOptions options_;
  Counters counters_;
  std::optional<Batcher> batcher_;
  std::optional<HttpServer> server_;
  int port_ = 0;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

TEST_F(Http, RefusesMoreSamplesThanItIsToldTo) {
  options_.max_samples = 3;
  start();
  expect_predicted(post(body(0, 3)), 0, 3);
  const auto refused = [&](const std::string& body, const char* type) {
    const auto result = post(body, type);
    return result && result->status == 400 &&
           result->body == "{\"error\": \"a request has at most 3 samples\"}\n";
  };
  EXPECT_TRUE(refused(body(0, 4), "application/json"));
  EXPECT_TRUE(refused(binary_body(), "application/octet-stream"));
  // What has few bytes, and would take much memory.
  std::string many = "{\"samples\": [{}";
  for (int i = 0; i < 100000; ++i) many += ",{}";
  EXPECT_TRUE(refused(many + "]}", "application/json"));
  EXPECT_TRUE(refused("{\"samples\": " + std::string(100000, '['), "application/json"));
}

TEST_F(Http, PredictsFromJsonAndFromBytes) {
  start();
  const int64_t all = evaluated_.samples.size;
  expect_predicted(post(body(0, all)), 0, all);
  expect_predicted(post(body(3, 1)), 3, 1);
  expect_predicted(post(body(0, 0)), 0, 0);
  const auto result = post(binary_body(), "application/octet-stream");
  ASSERT_TRUE(result);
  ASSERT_EQ(result->status, 200) << result->body;
  ASSERT_EQ(result->body.size(), static_cast<size_t>(all) * sizeof(float));
  std::vector<float> p(static_cast<size_t>(all));
  std::memcpy(p.data(), result->body.data(), result->body.size());
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], evaluated_.probabilities[i], 1e-6);
}

/// Of two tasks with a linear part, whose ids have weights.
class HttpOfTasks : public Http {
 protected:
  void SetUp() override {
    config_ = odd_model();
    config_.model.tasks = {{"click", 1, {7, 1}}, {"buy", 1, {1}}};
    for (TableConfig& table : config_.model.tables) {
      for (FeatureConfig& feature : table.features) {
        feature.pooling = Pooling::kSum;
        feature.weights = true;
      }
    }
    config_ = with_linear(config_);
    evaluated_ = save_model(config_, folder_.path());
  }
};

TEST_F(HttpOfTasks, MayBeAsManyAsTheServerTakes) {
  const int64_t all = evaluated_.samples.size;
  options_.max_samples = all;
  start();
  EXPECT_EQ(post(body(0, all))->status, 200);
}

TEST_F(HttpOfTasks, GetTheProbabilitiesOfEachByItsName) {
  start(8, milliseconds(20));
  EXPECT_EQ(json::parse(client().Get("/model")->body)["tasks"], (json{"click", "buy"}));
  // Requests of several connections are computed together and cut apart again.
  std::vector<std::thread> clients;
  for (int64_t first = 0; first < 4; ++first) {
    clients.emplace_back([this, first] {
      const auto result = post(body(first, 3));
      ASSERT_EQ(result->status, 200) << result->body;
      const json answer = json::parse(result->body)["probabilities"];
      ASSERT_EQ(answer.size(), 2u);
      for (size_t i = 0; i < 3; ++i) {
        const float* const p = &evaluated_.probabilities[2 * (static_cast<size_t>(first) + i)];
        EXPECT_NEAR(answer.at("click").at(i).get<double>(), p[0], 1e-6);
        EXPECT_NEAR(answer.at("buy").at(i).get<double>(), p[1], 1e-6);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const auto result = post(binary_body(), "application/octet-stream");
  ASSERT_EQ(result->body.size(), evaluated_.probabilities.size() * sizeof(float));
  for (size_t k = 0; k < evaluated_.probabilities.size(); ++k) {
    float p;
    std::memcpy(&p, result->body.data() + k * sizeof(float), sizeof(float));
    EXPECT_NEAR(p, evaluated_.probabilities[k], 1e-6);
  }
}

TEST_F(Http, ManyRequestsOnOneConnection) {
  start();
  Client one = client();
  for (int64_t i = 0; i < 30; ++i) {
    expect_predicted(one.Post("/predict", body(i % 20, 1), "application/json"), i % 20, 1);
  }
  EXPECT_THAT(metrics(), HasSubstr("\ndlrm_infer_requests_total{code=\"200\"} 30\n"));
}

TEST_F(Http, BadRequestsAreRefusedWithTheReason) {
  start();
  EXPECT_EQ(reason(post("{")), "400 not JSON: error at byte 2");
  EXPECT_THAT(reason(post("[]")), HasSubstr("400 needs an object with one list: {\"samples\""));
  EXPECT_THAT(reason(post(R"({"samples": [], "more": 1})")), HasSubstr("400 needs an object"));
  json bad = {{"samples", {sample(0), sample(1)}}};
  bad["samples"][1]["ids"]["left"] = {53};
  EXPECT_EQ(reason(post(bad.dump())),
            "400 samples[1]: ids.left[0]: 53; needs a whole number from 0 to 52");
  bad["samples"][1] = {{"dense", {3e38, -3e38, 3e38, -3e38, 3e38}}};
  EXPECT_EQ(reason(post(bad.dump())), "400 samples[1]: the model's output is not finite");
  EXPECT_EQ(reason(post(binary_body().substr(0, 100), "application/octet-stream")),
            "400 the body has 100 bytes, and ends within the samples");
  EXPECT_THAT(reason(client().Get("/predictions")), HasSubstr("404 no such page"));
  EXPECT_EQ(reason(client().Post("/predict", "{}", "text/plain", "Content-Encoding: gzip\r\n")),
            "415 send plain JSON, or application/octet-stream");
  EXPECT_THAT(reason(post("{}", "multipart/form-data; boundary=x")), HasSubstr("415 "));
  expect_predicted(post(body(0, 2)), 0, 2);
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr("\ndlrm_infer_requests_total{code=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndlrm_infer_requests_total{code=\"400\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("\ndlrm_infer_requests_total{code=\"415\"} 2\n"));
}

TEST_F(Http, WhatIsNoRequestIsRefused) {
  start();
  Socket garbage(port_);
  garbage.send("not HTTP\r\n\r\n");
  const std::string answer = garbage.receive("}\n");
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 400"));
  EXPECT_THAT(answer, HasSubstr("{\"error\": \"not HTTP/1.1: "));
}

TEST_F(Http, AGivenPortIsTheOneThatIsServed) {
  start();
  stop();
  options_.port = port_;
  stops_ = false;
  start();
  EXPECT_EQ(port_, options_.port);
}

TEST_F(Http, BodiesAreLimited) {
  options_.max_body = 2000;
  start();
  EXPECT_EQ(reason(post(std::string(2001, ' '))), "413 a body has at most 2000 bytes");
  EXPECT_EQ(reason(post(std::string(2000, ' '))), "400 not JSON: error at byte 2001");
  Socket chunked(port_);
  chunked.send("POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.send("400\r\n" + std::string(0x400, ' ') + "\r\n");
  EXPECT_THAT(chunked.receive("\r\n\r\n"), HasSubstr("HTTP/1.1 413"));
}

TEST_F(Http, BodiesThatDoNotEndAreRefused) {
  options_.timeout = 1;
  start();
  Socket slow(port_);
  slow.send("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  std::atomic<bool> answered{false};
  std::thread drip([&] {
    // Each part arrives in time, the whole does not.
    for (int i = 0; i < 100 && !answered; ++i) {
      slow.send(" ");
      std::this_thread::sleep_for(milliseconds(100));
    }
  });
  EXPECT_THAT(slow.receive("\r\n\r\n"), HasSubstr("HTTP/1.1 408"));
  answered = true;
  drip.join();
  Socket silent(port_);
  silent.send("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_THAT(silent.receive("\r\n\r\n"), HasSubstr("HTTP/1.1 408"));
}

TEST_F(Http, RequestsOfSeveralConnectionsAreComputedTogether) {
  start(4, milliseconds(50000));
  std::vector<std::thread> clients;
  for (int64_t i = 0; i < 4; ++i) {
    clients.emplace_back([this, i] { expect_predicted(post(body(i, 1)), i, 1); });
  }
  for (std::thread& client : clients) client.join();
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr("\ndlrm_infer_samples_total 4\n"));
  EXPECT_THAT(text, HasSubstr("\ndlrm_infer_batches_total 1\n"));
}

TEST_F(Http, FurtherConnectionsWait) {
  options_.max_connections = 2;
  start();
  auto first = std::make_unique<Socket>(port_), second = std::make_unique<Socket>(port_);
  const std::string health = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
  for (Socket* socket : {first.get(), second.get()}) {
    socket->send(health);
    EXPECT_THAT(socket->receive("ok"), HasSubstr("200 OK"));
  }
  Socket third(port_);
  third.send(health);
  std::atomic<bool> answered{false};
  std::thread waits([&] {
    EXPECT_THAT(third.receive("ok"), HasSubstr("200 OK"));
    answered = true;
  });
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(answered);
  EXPECT_THAT(counters_.text({}), HasSubstr("\ndlrm_infer_connections 2\n"));
  first.reset();
  waits.join();
}

TEST_F(Http, TheModelAndItsStateAreShown) {
  start();
  const json model = json::parse(client().Get("/model")->body);
  EXPECT_EQ(model["step"], 3);
  EXPECT_EQ(model["dense_features"], 5);
  EXPECT_EQ(model["features"][3], (json{{"name", "right"}, {"rows", 53}}));
  EXPECT_EQ(model["features"].size(), 6u);
  EXPECT_THAT(model["checkpoint"].get<std::string>(), HasSubstr("step_000000003"));
  EXPECT_EQ(client().Get("/health")->body, "{\"status\": \"ok\"}\n");
  const auto text = client().Get("/metrics");
  EXPECT_THAT(text->get_header_value("Content-Type"), HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(text->body, HasSubstr("\ndlrm_infer_model_step 3\n"));
  EXPECT_THAT(text->body, HasSubstr("\ndlrm_infer_table_bytes 5984\n"));
}

TEST_F(Http, StoppingAnswersTheRequestsThatHaveArrived) {
  start(100, milliseconds(500));
  std::thread client([this] { expect_predicted(post(body(0, 2)), 0, 2); });
  std::this_thread::sleep_for(milliseconds(150));
  stop();
  client.join();
  EXPECT_FALSE(post(body(0, 1)));
}

TEST_F(Http, AnAddressInUseIsAUsageError) {
  start();
  HttpOptions same = options_;
  same.port = port_;
  HttpServer other(same, *batcher_, counters_);
  EXPECT_THAT(usage_error_of([&] { other.bind(); }), HasSubstr("cannot listen at 127.0.0.1 port"));
}

TEST(CountersText, IsPrometheusText) {
  Counters counters;
  counters.add_request(200, 0.0002);
  counters.add_request(200, 0.03);
  counters.add_request(400, 3);
  counters.add_request(200, 0.5);  // a bound itself
  counters.add_batch(7);
  counters.add_reload(true);
  counters.add_connections(2);
  const std::string text = counters.text({12, 34});
  EXPECT_THAT(text, HasSubstr("# TYPE dlrm_infer_request_seconds histogram\n"));
  for (const std::string line :
       {"request_seconds_bucket{le=\"0.0001\"} 0", "request_seconds_bucket{le=\"0.05\"} 2",
        "request_seconds_bucket{le=\"0.5\"} 3", "request_seconds_bucket{le=\"+Inf\"} 4",
        "request_seconds_sum 3.5302", "request_seconds_count 4", "requests_total{code=\"400\"} 1",
        "requests_total{code=\"200\"} 3", "samples_total 7", "batches_total 1", "reloads_total 1",
        "failed_reloads_total 0", "table_bytes 34", "connections 2", "model_step 12"}) {
    EXPECT_THAT(text, HasSubstr("\ndlrm_infer_" + line + "\n"));
  }
  // Each line is a comment or a name with a number, and the last one ends.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) continue;
    EXPECT_TRUE(line.starts_with("dlrm_infer_")) << line;
    EXPECT_NO_THROW(std::stod(line.substr(line.rfind(' ') + 1))) << line;
  }
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace dlrm::serve
