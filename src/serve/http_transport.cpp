#include "http_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <boost/asio.hpp>
#include <fmt/format.h>

#include "dlrm/core/background_thread.h"
#include "dlrm/core/error.h"

#include "json_value.h"

namespace dlrm::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using State = RequestReader::State;

constexpr size_t kMostDiscarded = size_t{32} << 20;
constexpr auto kPause = std::chrono::milliseconds(20);

const char* phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

HttpAnswer refusal(int status, const std::string& reason) {
  return {status, "application/json", fmt::format("{{\"error\": {}}}\n", json_text(reason))};
}

class HttpTransport::Impl {
 public:
  Impl(const HttpOptions& options, Handler handler, Refused refused, Counters& counters)
      : options_(options),
        handler_(std::move(handler)),
        refused_(std::move(refused)),
        counters_(counters),
        strand_(asio::make_strand(io_)),
        acceptor_(strand_),
        room_(strand_) {}

  int bind();
  void serve(const std::function<bool()>& stops);

 private:
  class Connection;

  asio::awaitable<void> accept();
  void ended(const std::shared_ptr<Connection>& connection);
  void stop();

  const HttpOptions options_;
  const Handler handler_;
  const Refused refused_;
  Counters& counters_;
  asio::io_context io_;
  asio::strand<asio::io_context::executor_type> strand_;
  // What follows is used on strand_.
  tcp::acceptor acceptor_;
  asio::steady_timer room_;  // cancelled when a connection ends
  std::set<std::shared_ptr<Connection>> connections_;
  bool stopping_ = false;
  std::atomic<bool> failed_{false};
};

/// One connection. Everything runs on its strand.
class HttpTransport::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Impl& server)
      : server_(server),
        strand_(asio::make_strand(server.io_)),
        socket_(strand_),
        timer_(strand_),
        reader_(server.options_.max_body) {}

  tcp::socket& socket() { return socket_; }

  void start() {
    server_.counters_.add_connections(1);
    asio::co_spawn(strand_, run(), [self = shared_from_this()](const std::exception_ptr&) {
      self->timer_.cancel();
      error_code ignored;
      self->socket_.close(ignored);
      self->server_.counters_.add_connections(-1);
      asio::post(self->server_.strand_, [self] { self->server_.ended(self); });
    });
  }

  void stop(Clock::time_point end) {
    asio::post(strand_, [self = shared_from_this(), end] {
      self->end_ = end;
      error_code ignored;
      if (self->idle_) self->socket_.cancel(ignored);
      if (self->timer_.expiry() > end) self->arm_until(end);
    });
  }

 private:
  bool stopping() const { return end_ != Clock::time_point::max(); }

  void arm_until(Clock::time_point time) {
    timer_.expires_at(time);
    timer_.async_wait([self = shared_from_this(), turn = ++turn_](const error_code& error) {
      if (error || turn != self->turn_) return;
      self->late_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
    });
  }
  /// Cancels the work of the socket after the timeout, or at the end of the server.
  void arm() {
    late_ = false;
    const auto now = Clock::now();
    const auto timeout = std::chrono::seconds(server_.options_.timeout);
    // An answer that was computed for longer than that may still be written.
    arm_until(std::min(now + timeout, std::max(end_, now + std::min<Clock::duration>(
                                                               timeout, std::chrono::seconds(1)))));
  }

  /// False: nothing more arrives, or the time is over.
  asio::awaitable<bool> receive() {
    if (late_) co_return false;
    error_code error;
    const auto space = reader_.space();
    const size_t count = co_await socket_.async_read_some(
        asio::buffer(space.data(), space.size()), asio::redirect_error(asio::use_awaitable, error));
    reader_.add(count);
    co_return !error;
  }

  asio::awaitable<bool> send(std::string text, std::string body) {
    arm();
    error_code error;
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(text), asio::buffer(body)};
    co_await asio::async_write(socket_, parts, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  asio::awaitable<bool> write(HttpAnswer answer, const HttpRequest& request, bool keeps) {
    std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n",
        answer.status, phrase(answer.status), answer.type, answer.body.size(),
        keeps ? "keep-alive" : "close");
    if (answer.head > 0) head += fmt::format("{}: {}\r\n", kInferenceHead, answer.head);
    head += "\r\n";
    if (request.method == "HEAD") answer.body.clear();
    return send(std::move(head), std::move(answer.body));
  }

  /// Discards what the client still sends, because closing at once could lose the answer on its
  /// way.
  asio::awaitable<void> linger() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    arm();
    std::array<char, 16384> bytes;
    for (size_t count = 0; !error && !late_ && count < kMostDiscarded;) {
      count += co_await socket_.async_read_some(asio::buffer(bytes),
                                                asio::redirect_error(asio::use_awaitable, error));
    }
  }

  asio::awaitable<void> refuse(int status, std::string reason) {
    const HttpRequest request = reader_.request();
    server_.refused_(request, status);
    if (co_await write(refusal(status, reason), request, false)) co_await linger();
  }

  /// Waits for the first byte of a request. False: the connection is over.
  asio::awaitable<bool> wait() {
    if (reader_.has_bytes()) co_return true;
    error_code error;
    if (stopping() && socket_.available(error) == 0) co_return false;
    arm();
    idle_ = true;
    const bool received = co_await receive();
    idle_ = false;
    if (received) co_return true;
    // The server stops: what has arrived by now is answered.
    if (!stopping() || late_ || socket_.available(error) == 0) co_return false;
    co_return co_await receive();
  }

  asio::awaitable<HttpAnswer> answer(HttpRequest request) {
    const auto initiate = [this](auto handler, HttpRequest whole) {
      const auto waiting = std::make_shared<decltype(handler)>(std::move(handler));
      server_.handler_(
          std::move(whole), [waiting, work = asio::make_work_guard(strand_)](HttpAnswer given) {
            asio::post(work.get_executor(), [waiting, given = std::move(given)]() mutable {
              std::move (*waiting)(std::move(given));
            });
          });
    };
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(HttpAnswer)>(
        initiate, asio::use_awaitable, std::move(request));
  }

  asio::awaitable<void> run() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    for (int served = 1; Clock::now() < end_; ++served) {
      if (!co_await wait()) co_return;
      arm();
      State before = State::kHead, state = reader_.read();
      while (state == State::kHead || state == State::kBody) {
        if (state == State::kBody) {
          if (reader_.expects_continue() && !reader_.has_bytes() &&
              !co_await send("HTTP/1.1 100 Continue\r\n\r\n", "")) {
            co_return;
          }
          if (before == State::kHead) arm();
        }
        before = state;
        if (!co_await receive()) {
          if (late_)
            co_await refuse(408, fmt::format("no whole {} within {} s",
                                             state == State::kHead ? "header" : "body",
                                             server_.options_.timeout));
          co_return;
        }
        state = reader_.read();
      }
      if (state == State::kRefused) {
        co_await refuse(reader_.status(), reader_.reason());
        co_return;
      }
      HttpRequest request = reader_.take();
      HttpRequest shown;
      shown.method = request.method;
      const bool keeps = request.keep_alive && served < server_.options_.max_requests;
      HttpAnswer given = co_await answer(std::move(request));
      if (!co_await write(std::move(given), shown, keeps)) co_return;
      if (!keeps) {
        co_await linger();
        co_return;
      }
    }
  }

  Impl& server_;
  asio::strand<asio::io_context::executor_type> strand_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  RequestReader reader_;
  Clock::time_point end_ = Clock::time_point::max();  // by which a stopping server ends
  uint64_t turn_ = 0;                                 // of the timer
  bool idle_ = false, late_ = false;
};

int HttpTransport::Impl::bind() {
  error_code error;
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
  if (!error) {
    const tcp::endpoint address = found.begin()->endpoint();
    acceptor_.open(address.protocol(), error);
    // A new server may use the address at once.
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(address, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    throw usage_error("cannot listen at {} port {}: is it an address of this machine, and free?",
                      options_.host, options_.port);
  }
  return acceptor_.local_endpoint().port();
}

asio::awaitable<void> HttpTransport::Impl::accept() {
  const auto most = static_cast<size_t>(options_.max_connections);
  while (!stopping_) {
    error_code error;
    if (connections_.size() >= most) {
      room_.expires_at(Clock::time_point::max());
      co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    const auto connection = std::make_shared<Connection>(*this);
    co_await acceptor_.async_accept(connection->socket(),
                                    asio::redirect_error(asio::use_awaitable, error));
    if (stopping_) co_return;
    if (!error) {
      connections_.insert(connection);
      connection->start();
    } else if (error == asio::error::bad_descriptor || error == asio::error::invalid_argument) {
      failed_ = true;
      co_return;
    } else {
      // The process has no descriptor left, say.
      room_.expires_after(kPause);
      co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

void HttpTransport::Impl::ended(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  room_.cancel();
}

void HttpTransport::Impl::stop() {
  stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  room_.cancel();
  const auto end = Clock::now() + std::chrono::seconds(options_.timeout);
  for (const auto& connection : connections_) connection->stop(end);
}

void HttpTransport::Impl::serve(const std::function<bool()>& stops) {
  asio::co_spawn(strand_, accept(), asio::detached);
  std::vector<std::thread> threads;
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 2U, 4U);
  for (unsigned i = 0; i < count; ++i) threads.push_back(background_thread([this] { io_.run(); }));
  while (!stops() && !failed_) std::this_thread::sleep_for(kPause);
  asio::post(strand_, [this] { stop(); });
  for (std::thread& thread : threads) thread.join();
  if (failed_) throw run_error("the server ended: its socket accepts no connection");
}

HttpTransport::HttpTransport(const HttpOptions& options, Handler handler, Refused refused,
                             Counters& counters)
    : impl_(std::make_shared<Impl>(options, std::move(handler), std::move(refused), counters)) {}

HttpTransport::~HttpTransport() = default;

int HttpTransport::bind() { return impl_->bind(); }

void HttpTransport::serve(const std::function<bool()>& stops) { impl_->serve(stops); }

}  // namespace dlrm::serve
