// What strangers do to a server: framing, floods, slow clients.
#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http_client.h"
#include "serve/http_transport.h"

namespace dlrm::serve {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

const std::string kGet = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kUnended = "GET / HTTP/1.1\r\nHost: x\r\n";

class HostileClients : public ::testing::Test {
 protected:
  void SetUp() override { options_.timeout = 1; }
  void TearDown() override { stop(); }

  /// Each answer is the request's target, and the size of its body.
  void start() {
    server_.emplace(
        options_,
        [this](const HttpRequest& request, const HttpTransport::Reply& reply) {
          ++answered_;
          reply({200, "text/plain", request.target + " " + std::to_string(request.body.size())});
        },
        [](const HttpRequest&, int) {}, counters_);
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->serve([this] { return stops_.load(); }); });
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::string next() {
    const Result result = Client(port_).request(kGet);
    return result ? result->body : "no answer";
  }

  HttpOptions options_;
  Counters counters_;
  std::optional<HttpTransport> server_;
  int port_ = 0;
  std::atomic<int> answered_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

TEST_F(HostileClients, ABodyInALaterPacketIsNoRequest) {
  start();
  const std::string head =
      "GET /first HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kGet.size()) +
      "\r\n\r\n";
  Socket client(port_);
  client.send(head);
  std::this_thread::sleep_for(milliseconds(30));
  client.send(kGet);
  EXPECT_THAT(client.receive("/first"), HasSubstr("200 OK"));
  client.send("GET /third HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.receive_all(), HasSubstr("/third 0"));
  EXPECT_EQ(answered_, 2);
}

TEST_F(HostileClients, WrongFramingEndsTheConnection) {
  start();
  for (const std::string fields :
       {"Content-Length: abc\r\n", "Content-Length: 0, 32\r\n", "Transfer-Encoding: unknown\r\n",
        "Content-Length: 0\r\nContent-Length: 32\r\n",
        "Content-Length: 32\r\nTransfer-Encoding: chunked\r\n"}) {
    Socket client(port_);
    client.send("POST / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + kGet);
    const std::string answer = client.receive_all();
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 400 Bad Request\r\n")) << fields;
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n")) << fields;
    EXPECT_EQ(answer.find("\nHTTP/1.1 "), std::string::npos) << answer;
  }
  EXPECT_EQ(answered_, 0);
}

TEST_F(HostileClients, RequestsOfOnePacketAreAllAnsweredInOrder) {
  start();
  Client client(port_);
  std::string all;
  for (int i = 0; i < 6; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 6; ++i) {
    const Result result = i == 0 ? client.request(all) : client.receive();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->body, "/" + std::to_string(i) + " 0");
  }
}

TEST_F(HostileClients, MoreClientsAtOnceThanConnectionsAreAllAnswered) {
  options_.timeout = 30;
  start();
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back([&] {
      Socket client(port_);
      if (!client.connected()) return;
      if (!client.try_send("POST /p HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"))
        return;
      if (client.try_send("ab") && client.receive_all().ends_with("/p 2")) ++good;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 200);
}

TEST_F(HostileClients, AHeaderWithoutEndIsRefused) {
  start();
  Socket client(port_);
  client.send("GET / HTTP/1.1\r\n");
  const std::string field = "X: " + std::string(8000, 'y') + "\r\n";
  size_t sent = 0;
  while (sent < (size_t{64} << 20) && client.try_send(field)) sent += field.size();
  EXPECT_LT(sent, size_t{64} << 20);
  EXPECT_EQ(next(), "/next 0");
  Socket reads(port_);
  reads.send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 9; ++i) reads.send(field);
  EXPECT_THAT(reads.receive_all(), HasSubstr("HTTP/1.1 431 "));
}

/// Sends a byte now and then on each connection until it ends.
class Drips {
 public:
  Drips(int port, int count) {
    for (int i = 0; i < count; ++i) {
      sockets_.push_back(std::make_unique<Socket>(port));
      sockets_.back()->send(kUnended);
    }
    thread_ = std::thread([this] {
      while (!ends_) {
        for (const auto& socket : sockets_) socket->try_send("X: y\r\n");
        std::this_thread::sleep_for(milliseconds(100));
      }
    });
  }
  ~Drips() {
    ends_ = true;
    thread_.join();
  }
  Socket& first() { return *sockets_[0]; }

 private:
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST_F(HostileClients, SlowHeadersEndAfterTheTimeoutAndOthersAreAnswered) {
  options_.max_connections = 8;
  start();
  Drips drips(port_, 8);
  EXPECT_EQ(next(), "/next 0");
  EXPECT_THAT(drips.first().receive_all(), HasSubstr("HTTP/1.1 408 "));
}

TEST_F(HostileClients, ASlowHeaderDoesNotHoldUpTheEnd) {
  start();
  Drips drips(port_, 3);
  stop();
}

TEST_F(HostileClients, AClientThatReadsNoAnswerDoesNotHoldUpTheEnd) {
  start();
  Socket client(port_);
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "GET /" + std::string(8000, 'a') + " HTTP/1.1\r\n\r\n";
  std::thread writes([&] { client.try_send(many); });
  while (answered_ < 100) std::this_thread::sleep_for(milliseconds(5));
  stop();
  writes.join();
}

TEST_F(HostileClients, AnIdleConnectionEndsWithTheServer) {
  options_.timeout = 3000;
  start();
  Client client(port_);
  ASSERT_TRUE(client.request(kGet));
  stop();
  EXPECT_FALSE(client.request(kGet));
}

TEST_F(HostileClients, AConnectionEndsAfterItsRequests) {
  options_.max_requests = 3;
  start();
  Socket client(port_);
  client.send(kGet + kGet + kGet + kGet);
  const std::string answers = client.receive_all();
  EXPECT_EQ(answered_, 3);
  EXPECT_LT(answers.find("Connection: keep-alive"), answers.find("Connection: close"));
}

TEST_F(HostileClients, AClientMayWaitForContinueBeforeItSendsTheBody) {
  start();
  Socket client(port_);
  client.send("POST /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ab");
  EXPECT_THAT(client.receive("/p 2"), HasSubstr("200 OK"));
}

TEST_F(HostileClients, ARangeDoesNotCutTheAnswer) {
  start();
  const Result result = Client(port_).Post("/whole", "ab", "text/plain", "Range: bytes=0-3\r\n");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->body, "/whole 2");
}

}  // namespace
}  // namespace dlrm::serve
