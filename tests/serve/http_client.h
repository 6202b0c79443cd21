#pragma once
#include <optional>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dlrm::serve {

/// A connection on which a test writes what it likes.
class Socket {
 public:
  explicit Socket(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int yes = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  }
  ~Socket() { ::close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool connected() const { return connected_; }
  /// False: the server has closed the connection.
  bool try_send(const std::string& text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void send(const std::string& text) { EXPECT_TRUE(try_send(text)); }
  /// What arrives until the text contains `end`, or the server closes the connection.
  std::string receive(const std::string& end) {
    std::string text;
    while (text.find(end) == std::string::npos && receive_more(text)) {
    }
    return text;
  }
  /// What arrives until the server closes the connection.
  std::string receive_all() {
    std::string text;
    while (receive_more(text)) {
    }
    return text;
  }
  /// Appends what arrives next. False: the server has closed the connection.
  bool receive_more(std::string& text) {
    char buffer[4096];
    const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

 private:
  int socket_;
  bool connected_ = false;
};

struct Response {
  int status = 0;
  std::string head, body;

  std::string get_header_value(const std::string& name) const {
    const size_t at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

/// Empty: there was no answer.
using Result = std::optional<Response>;

/// Sends requests on one connection, one after another.
class Client {
 public:
  explicit Client(int port) : socket_(port) {}

  Result Get(const std::string& target) {
    return request("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  Result Post(const std::string& target, const std::string& body, const std::string& type,
              const std::string& fields = "") {
    return request("POST " + target + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type + "\r\n" +
                   fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  Result request(const std::string& text) {
    if (!socket_.connected() || !socket_.try_send(text)) return std::nullopt;
    return receive();
  }
  /// The next answer.
  Result receive() {
    size_t end = 0;
    while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
      if (!socket_.receive_more(unread_)) return std::nullopt;
    }
    Response response;
    response.head = unread_.substr(0, end + 4);
    unread_.erase(0, end + 4);
    response.status = std::stoi(response.head.substr(9, 3));
    const size_t size = std::stoul("0" + response.get_header_value("Content-Length"));
    while (unread_.size() < size) {
      if (!socket_.receive_more(unread_)) return std::nullopt;
    }
    response.body = unread_.substr(0, size);
    unread_.erase(0, size);
    return response;
  }

 private:
  Socket socket_;
  std::string unread_;
};

}  // namespace dlrm::serve
